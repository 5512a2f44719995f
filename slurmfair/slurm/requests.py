"""A change as the fewest update requests that Slurm's rules allow (SLURM.md 2 and 7). Pure."""

from __future__ import annotations

from typing import Literal, NamedTuple

from slurmfair.model import Change

Channel = Literal["site_factor", "priority"]

HOLD = 0
RELEASE = 0xFFFFFFFF
LARGEST_PRIORITY = 0xFFFFFFFD  # the next one means "not given", the one after it releases
SMALLEST_FACTOR, LARGEST_FACTOR = -100_000_000, 2_147_483_645


class Request(NamedTuple):
    """One update of one job record; None leaves a field as it is. Or, alone, its cancellation."""

    priority: int | None = None
    site_factor: int | None = None
    admin_comment: str | None = None
    array_tasks: int | None = None
    cancel: Literal[True] | None = None


def requests_of(change: Change, channel: Channel) -> tuple[Request, ...]:
    """Return the requests, in order: one, but two for a release with a pinned priority (SLURM.md 2.2)."""
    if change.hold and change.release:
        raise ValueError(f"job {change.job_id}: a change cannot hold and release")
    if change.cancel:
        return (Request(cancel=True),)
    flag = HOLD if change.hold else RELEASE if change.release else None
    if channel == "site_factor":
        return _given(Request(flag, _factor(change), change.tag, change.throttle))
    rank = _priority(change)
    if flag is None:
        return _given(Request(rank, None, change.tag, change.throttle))
    if change.hold or rank is None:  # a held job takes no priority
        return _given(Request(flag, None, change.tag, change.throttle))
    return Request(flag, None, change.tag, change.throttle), Request(rank)


def _given(request: Request) -> tuple[Request, ...]:
    """Return the request, unless there is nothing in it."""
    return (request,) if any(field is not None for field in request) else ()


def _factor(change: Change) -> int | None:
    """Return the site factor to write; Slurm takes no other."""
    if change.rank is not None and not SMALLEST_FACTOR <= change.rank <= LARGEST_FACTOR:
        raise ValueError(f"job {change.job_id}: site factor {change.rank} is out of Slurm's range")
    return change.rank


def _priority(change: Change) -> int | None:
    """Return the priority to pin; 0 would hold the job, the two largest numbers mean something else."""
    if change.rank is not None and not 1 <= change.rank <= LARGEST_PRIORITY:
        raise ValueError(f"job {change.job_id}: priority {change.rank} cannot be pinned")
    return change.rank

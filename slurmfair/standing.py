"""What each job record is to us: ours to order, ours to release, or none of our business.

Decides by fields first and by the reason second (SLURM.md 5.1), whole columns at a time.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from slurmfair.model import Bools, Bytes, Coded, Ints, JobTable
from slurmfair.slurm.parse import ReasonClass, Tag, reason_class, tag_of

PENDING, RUNNING, SUSPENDED = 0, 1, 2
BASE_STATE = 0xFF
COMPLETING = 0x8000


class Standing(IntEnum):
    """The place of a job record in our world; only the first three are ever written to."""

    OPEN = 0  # waits its turn and Slurm may start it
    HELD = 1  # held by us
    GATED = 2  # held at submission by the gate
    RELEASED = 3  # carries our hold tag, but an administrator released it
    FOREIGN_HOLD = 4  # held by its owner, an administrator, or Slurm itself
    INELIGIBLE = 5  # dependency, begin time, throttle, partition down
    SITE_LIMIT = 6  # stopped by a limit of the site
    CANNOT_RUN = 7  # cannot run as asked
    UNKNOWN = 8  # a reason we do not know: left alone
    CRON = 9
    RESERVATION = 10
    RUNNING = 11
    LATE_HOLD = 12  # started just before our hold reached it: to be released
    SUSPENDED = 13
    ENDED = 14


WAITING = (Standing.OPEN, Standing.HELD, Standing.GATED)

_OF_REASON = {
    ReasonClass.WAITING: Standing.OPEN,
    ReasonClass.CLEARS: Standing.INELIGIBLE,
    ReasonClass.SITE_LIMIT: Standing.SITE_LIMIT,
    ReasonClass.CANNOT: Standing.CANNOT_RUN,
    ReasonClass.HELD_ADMIN: Standing.FOREIGN_HOLD,
    ReasonClass.HELD_OTHER: Standing.FOREIGN_HOLD,
    ReasonClass.ENDED: Standing.OPEN,  # a requeued job may show one for a moment
    ReasonClass.UNKNOWN: Standing.UNKNOWN,
}


def tags(jobs: JobTable) -> Bytes:
    """Return the tag of each record's admin_comment, shape (n_jobs,)."""
    return _looked_up(jobs.admin_comment, [int(tag_of(text)) for text in jobs.admin_comment.values])


def reason_classes(jobs: JobTable) -> Bytes:
    """Return the ReasonClass of each record, shape (n_jobs,); each distinct pair is looked at once."""
    width = max(1, len(jobs.reason_text.values))
    pair = jobs.reason.codes.astype(np.int64) * width + jobs.reason_text.codes
    distinct, place = np.unique(pair, return_inverse=True)
    found = [
        int(reason_class(jobs.reason.values[code // width], jobs.reason_text.values[code % width]))
        for code in distinct.tolist()
    ]
    return np.asarray(found, dtype=np.uint8)[place.reshape(-1)]


def standings(jobs: JobTable, reasons: Bytes, now_s: int) -> Bytes:
    """Return the Standing of each record, shape (n_jobs,).

    `reasons` are reason classes, with those that our own write blanked put back by the caller (SLURM.md 5.4).
    """
    by_reason = np.zeros(max(_OF_REASON) + 1, dtype=np.uint8)
    for reason, standing in _OF_REASON.items():
        by_reason[reason] = standing
    tag = tags(jobs)
    base = jobs.state & BASE_STATE
    pending = jobs.state == PENDING
    held = pending & (jobs.priority == 0)
    exactly_admin = reasons == ReasonClass.HELD_ADMIN
    by_gate = (reasons == ReasonClass.HELD_ADMIN) | _is_plain_user_hold(jobs)
    later = (jobs.begin_s > now_s) | (jobs.eligible_s > now_s)

    out = by_reason[reasons]
    # A running job whose record Slurm gives a stale pending reason is still a running job: states come last.
    out[pending & (later | jobs.dependent)] = Standing.INELIGIBLE
    out[held] = Standing.FOREIGN_HOLD
    out[held & exactly_admin & (tag == Tag.HOLD)] = Standing.HELD
    out[held & by_gate & (tag == Tag.GATE)] = Standing.GATED
    out[pending & ~held & (tag == Tag.HOLD)] = Standing.RELEASED
    out[pending & (_texts(jobs.reservation))] = Standing.RESERVATION
    out[pending & jobs.cron] = Standing.CRON
    out[~pending] = Standing.ENDED
    completing = (jobs.state & COMPLETING) != 0
    out[(base == RUNNING) | completing] = Standing.RUNNING
    out[(base == RUNNING) & (jobs.priority == 0) & (tag == Tag.HOLD)] = Standing.LATE_HOLD
    out[base == SUSPENDED] = Standing.SUSPENDED
    return out


def _is_plain_user_hold(jobs: JobTable) -> Bools:
    """The gate's hold reads JobHeldUser without free text; texts are holds that Slurm placed itself."""
    user = _looked_up(jobs.reason, [value == "JobHeldUser" for value in jobs.reason.values])
    silent = _looked_up(jobs.reason_text, [value in ("", "JobHeldUser") for value in jobs.reason_text.values])
    return (user & silent).astype(np.bool_)


def _texts(column: Coded) -> Bools:
    return _looked_up(column, [value != "" for value in column.values]).astype(np.bool_)


def _looked_up(column: Coded, answers: list[int] | list[bool]) -> Bytes:
    return np.asarray(answers or [0], dtype=np.uint8)[column.codes]


def holds_resources(standing: Bytes) -> Bools:
    """Running and completing jobs are charged to their quota; suspended ones are not (SEMANTICS 7.1)."""
    return (standing == Standing.RUNNING) | (standing == Standing.LATE_HOLD)


def waiting(standing: Bytes) -> Bools:
    """Records that stand in a queue of ours."""
    return standing <= Standing.GATED


def now_or_never(times_s: Ints, now_s: int) -> Ints:
    """Times not in the future: a clock that stepped back must not make an age negative."""
    return np.minimum(times_s, now_s)

"""What each job record is to us: ours to order, ours to release, or none of our business.

Decides by fields first and by the reason second (SLURM.md 5.1), whole columns at a time.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from slurmfair.model import Bools, Bytes, Coded, JobTable
from slurmfair.slurm.parse import BASE_STATE, COMPLETING, BaseState, Tag, Waits, tag_of, waits_for

WAITS = tuple(Waits)
TAGS = tuple(Tag)


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
    Waits.TURN: Standing.OPEN,
    Waits.CLEARS: Standing.INELIGIBLE,
    Waits.LIMIT: Standing.SITE_LIMIT,
    Waits.NEVER: Standing.CANNOT_RUN,
    Waits.ADMIN_HOLD: Standing.FOREIGN_HOLD,
    Waits.HELD: Standing.FOREIGN_HOLD,
    Waits.ENDED: Standing.OPEN,  # a requeued job may show one for a moment
    Waits.UNKNOWN: Standing.UNKNOWN,
}


def tags(jobs: JobTable) -> Bytes:
    """Return our tag in each record's admin_comment, an index into TAGS, shape (n_jobs,)."""
    return _looked_up(jobs.admin_comment, [TAGS.index(tag_of(text)) for text in jobs.admin_comment.values])


def reason_classes(jobs: JobTable) -> Bytes:
    """Return the class of each record's reason, an index into WAITS; each distinct reason is looked at once."""
    width = max(1, len(jobs.reason_text.values))
    pair = jobs.reason.codes.astype(np.int64) * width + jobs.reason_text.codes
    distinct, place = np.unique(pair, return_inverse=True)
    names, texts = jobs.reason.values, jobs.reason_text.values
    found = [WAITS.index(waits_for(names[c // width], texts[c % width])) for c in distinct.tolist()]
    return np.asarray(found, dtype=np.uint8)[place.reshape(-1)]


def marked(jobs: JobTable, reasons: Bytes) -> Bytes:
    """Return Standing.HELD or GATED for records that carry a hold of ours, Standing.ENDED for all others.

    A hold is ours only with state exactly PENDING, priority 0, the exact reason, and our tag (SLURM.md 0.8).
    """
    tag = tags(jobs)
    held = (jobs.state == BaseState.PENDING) & (jobs.priority == 0) & ~jobs.cron
    by_admin = reasons == WAITS.index(Waits.ADMIN_HOLD)
    out = np.full(len(jobs), Standing.ENDED, dtype=np.uint8)
    out[held & (by_admin | _is_plain_user_hold(jobs)) & (tag == TAGS.index(Tag.GATE))] = Standing.GATED
    out[held & by_admin & (tag == TAGS.index(Tag.HOLD))] = Standing.HELD
    return out


def standings(jobs: JobTable, reasons: Bytes, now_s: int) -> Bytes:
    """Return the Standing of each record, shape (n_jobs,).

    `reasons` are reason classes, with those that our own write blanked put back by the caller (SLURM.md 5.4).
    """
    by_reason = np.asarray([_OF_REASON[reason] for reason in WAITS], dtype=np.uint8)
    tag, ours = tags(jobs), marked(jobs, reasons)
    base = jobs.state & BASE_STATE
    pending = jobs.state == BaseState.PENDING
    held = pending & (jobs.priority == 0)
    later = (jobs.begin_s > now_s) | (jobs.eligible_s > now_s)

    out = by_reason[reasons]
    out[held] = Standing.FOREIGN_HOLD
    out[ours != Standing.ENDED] = ours[ours != Standing.ENDED]
    out[pending & ~held & (tag == TAGS.index(Tag.HOLD))] = Standing.RELEASED
    foreign = out == Standing.FOREIGN_HOLD
    out[pending & (later | jobs.dependent) & ~foreign] = Standing.INELIGIBLE
    out[pending & _texts(jobs.reservation) & ~foreign] = Standing.RESERVATION
    out[pending & jobs.cron] = Standing.CRON
    out[~pending] = Standing.ENDED
    out[(base == BaseState.RUNNING) | ((jobs.state & COMPLETING) != 0)] = Standing.RUNNING
    out[(base == BaseState.RUNNING) & (jobs.priority == 0) & (tag == TAGS.index(Tag.HOLD))] = (
        Standing.LATE_HOLD
    )
    out[base == BaseState.SUSPENDED] = Standing.SUSPENDED
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

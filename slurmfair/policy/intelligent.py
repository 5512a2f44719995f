"""Intelligent: high jobs are FIFO and stop everybody, low jobs are traversed and age (SEMANTICS 4.4)."""

from __future__ import annotations

import numpy as np

from slurmfair.model import UNSET_S, Bools, Bytes, Floats, Ints, Queue
from slurmfair.policy.terms import LANE, NOTHING, QUOTA, Judged, Judgement, Settings, Waiting, expired

LOW, HIGH = np.int32(0), np.int32(1)


def intelligent(waiting: Waiting, settings: Settings, now_s: int) -> Judgement:
    """Return the order by lane and effective priority.

    A failed high entry closes the quota, or only its lane without `high_blocks_low`; a failed low one
    closes nothing unless the starvation guard has turned it into a head.
    """
    leaf = waiting.leaf
    base = waiting.job_priority
    high = base >= settings.high_threshold[leaf]
    effective = aged(base, high, waiting, settings, now_s)
    rank = np.where(settings.by_submit[leaf], high, effective) if settings.by_submit.any() else effective
    blocks = settings.high_blocks_low[leaf]
    fresh = np.where(high, np.where(blocks, QUOTA, LANE), NOTHING)
    closes: Bytes = fresh
    if settings.guard_s.any():
        closes = np.where(guarded(high, waiting, settings, now_s), QUOTA, fresh)
    return Judgement(effective, rank, closes, fresh, np.where(high & ~blocks, HIGH, LOW))


def aged(base: Ints, high: Bools, waiting: Waiting, settings: Settings, now_s: int) -> Floats:
    """Return effective priorities: low ones gain one an interval up to the cap and never fall below their base."""
    leaf = waiting.leaf
    gained = (now_s - waiting.waiting_since_s) / settings.aging_interval_s[leaf]
    if settings.linear.any():
        gained = np.where(settings.linear[leaf], gained, np.floor(gained))
    else:
        np.floor(gained, out=gained)
    gained += base
    np.minimum(gained, settings.aging_cap[leaf], out=gained)
    np.maximum(gained, base, out=gained)
    return np.where(high, base, gained)


def guarded(high: Bools, waiting: Waiting, settings: Settings, now_s: int) -> Bools:
    """Tell which low entries count as a blocked head: first of their lane at the cap for `starvation_guard`."""
    guard_s = settings.guard_s[waiting.leaf]
    return ~high & (guard_s > 0) & expired(waiting.leading_since_s, guard_s, now_s)


def leaders(queue: Queue, rows: Ints, judged: Judged, settings: Settings) -> Ints:
    """Return which of the rows stand first in the low lane of a quota with a guard and are at the cap."""
    leaf = queue.leaf
    low = queue.job_priority[rows] < settings.high_threshold[leaf[rows]]
    rows = rows[low & (settings.guard_s[leaf[rows]] > 0)]
    in_order = rows[np.lexsort((queue.order_s[rows], -judged.rank[rows], leaf[rows]))]
    first = in_order[np.unique(leaf[in_order], return_index=True)[1]]
    return first[judged.effective[first] >= settings.aging_cap[leaf[first]]]


def leading_since(
    queue: Queue, rows: Ints, progress: Bools, judged: Judged, settings: Settings, now_s: int
) -> Ints:
    """Return since when each entry has led its low lane at the cap, UNSET_S for those that do not.

    `rows` are those that still wait; an array of which a task has just started begins anew.
    """
    since_s = np.full(len(queue), UNSET_S, np.int64)
    if settings.guard_s.any():
        first = leaders(queue, rows, judged, settings)
        known = Waiting(queue, first).leading_since_s
        since_s[first] = np.where((known == UNSET_S) | progress[first], now_s, known)
    return since_s

"""Intelligent: high jobs are FIFO and stop everybody, low jobs are traversed and age (SEMANTICS 4.4)."""

from __future__ import annotations

import numpy as np

from slurmfair.model import UNSET_S, Bools, Closes, Floats, Ints
from slurmfair.policy.terms import Judged, Settings, Waiting, expired

LOW, HIGH = range(2)


def intelligent(waiting: Waiting, settings: Settings, now_s: int) -> Judged:
    """Return the order by lane and effective priority.

    A failed high entry closes the quota, or only its lane without `high_blocks_low`; a failed low one
    closes nothing unless the starvation guard has turned it into a head.
    """
    leaf = waiting.leaf
    high = waiting.job_priority >= settings.high_threshold[leaf]
    effective = aged(waiting, high, settings, now_s)
    rank = effective
    if settings.by_submit.any():
        rank = np.where(settings.by_submit[leaf], high, effective)
    blocks = settings.high_blocks_low[leaf]
    failed_high = np.where(blocks, np.uint8(Closes.QUOTA), np.uint8(Closes.LANE))
    fresh = np.where(high, failed_high, np.uint8(Closes.NOTHING))
    closes = fresh
    if settings.guard_s.any():
        closes = np.where(guarded(waiting, high, settings, now_s), np.uint8(Closes.QUOTA), fresh)
    lane = np.where(high & ~blocks, np.int32(HIGH), np.int32(LOW))
    return Judged(effective, rank, closes, fresh, lane)


def aged(waiting: Waiting, high: Bools, settings: Settings, now_s: int) -> Floats:
    """Return effective priorities: low ones gain one an interval up to the cap and never fall below their base."""
    leaf = waiting.leaf
    gained = (now_s - waiting.waiting_since_s) / settings.aging_interval_s[leaf]
    if settings.linear.any():
        gained = np.where(settings.linear[leaf], gained, np.floor(gained))
    else:
        np.floor(gained, out=gained)
    gained += waiting.job_priority
    np.minimum(gained, settings.aging_cap[leaf], out=gained)
    np.maximum(gained, waiting.job_priority, out=gained)
    return np.where(high, waiting.job_priority, gained)


def guarded(waiting: Waiting, high: Bools, settings: Settings, now_s: int) -> Bools:
    """Tell which low entries count as a blocked head: first of their lane at the cap for `starvation_guard`."""
    guard_s = settings.guard_s[waiting.leaf]
    return ~high & (guard_s > 0) & expired(waiting.leading_since_s, guard_s, now_s)


def leading_since(waiting: Waiting, judged: Judged, settings: Settings, now_s: int) -> Ints:
    """Return since when each entry has led its low lane at the cap, UNSET_S for those that do not."""
    since_s = np.full(len(waiting.leaf), UNSET_S, np.int64)
    if settings.guard_s.any():
        rows = leaders(waiting, judged, settings)
        known = waiting.leading_since_s[rows]
        since_s[rows] = np.where(known == UNSET_S, now_s, known)
    return since_s


def leaders(waiting: Waiting, judged: Judged, settings: Settings) -> Ints:
    """Return the rows that stand first in the low lane of a quota with a guard and are at the cap."""
    leaf = waiting.leaf
    low = waiting.job_priority < settings.high_threshold[leaf]
    rows = np.flatnonzero(low & ~waiting.parked & (settings.guard_s[leaf] > 0))
    in_order = rows[np.lexsort((waiting.order_s[rows], -judged.rank[rows], leaf[rows]))]
    first = in_order[np.unique(leaf[in_order], return_index=True)[1]]
    return first[judged.effective[first] >= settings.aging_cap[leaf[first]]]

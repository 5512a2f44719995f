"""Intelligent: high jobs are FIFO and stop everybody, low jobs are traversed and age (SEMANTICS 4.4)."""

from __future__ import annotations

import numpy as np

from slurmfair.model import UNSET_S, Bools, Floats, Ints, Queue
from slurmfair.policy.terms import LANE, NOTHING, QUOTA, Judged, Judgement, Settings, Waiting, expired

LOW, HIGH = np.int32(0), np.int32(1)


def intelligent(waiting: Waiting, settings: Settings, now_s: int) -> Judgement:
    """Return the order by lane and effective priority.

    A failed high entry closes the quota, or only its lane without `high_blocks_low`; a failed low one
    closes nothing, unless the starvation guard makes a head of it (`starving`).
    """
    base = waiting.job_priority
    high = base >= settings.high_threshold.take(waiting.leaf)
    effective = aged(base, high, waiting, settings, now_s)
    rank = effective
    if settings.by_submit.any():
        rank = np.where(settings.by_submit.take(waiting.leaf), high, effective)
    blocks = settings.high_blocks_low.take(waiting.leaf)
    closes = np.where(high, np.where(blocks, QUOTA, LANE), NOTHING)
    lane = None if blocks.all() else np.where(high & ~blocks, HIGH, LOW)
    return Judgement(closes, closes, effective, rank, lane)


def aged(base: Ints, high: Bools, waiting: Waiting, settings: Settings, now_s: int) -> Floats:
    """Return effective priorities: low ones gain one an interval up to the cap and never fall below their base."""
    leaf = waiting.leaf
    gained = (now_s - waiting.waiting_since_s) / settings.aging_interval_s.take(leaf)
    if settings.linear.any():
        gained = np.where(settings.linear.take(leaf), gained, np.floor(gained))
    else:
        np.floor(gained, out=gained)
    gained += base
    np.minimum(gained, settings.aging_cap.take(leaf), out=gained)
    np.maximum(gained, base, out=gained)
    return np.where(high, base, gained)


def leaders(queue: Queue, rows: Ints, judged: Judged, settings: Settings) -> Ints:
    """Return which of the rows stand first in the low lane of a quota with a guard and are at the cap."""
    leaf = queue.leaf
    low = queue.job_priority[rows] < settings.high_threshold[leaf[rows]]
    rows = rows[low & (settings.guard_s[leaf[rows]] > 0)]
    in_order = rows[np.lexsort((queue.order_s[rows], -judged.rank[rows], leaf[rows]))]
    first = in_order[np.unique(leaf[in_order], return_index=True)[1]]
    return first[judged.effective[first] >= settings.aging_cap[leaf[first]]]


def led_since(queue: Queue, rows: Ints) -> Ints:
    """Return since when the rows have led as of the last pass, UNSET_S for those that did not."""
    known = queue.leading_since_s
    return np.full(len(rows), UNSET_S, np.int64) if known is None else known[rows]


def starving(queue: Queue, rows: Ints, judged: Judged, settings: Settings, now_s: int) -> Ints:
    """Return which of the rows count as a blocked head: first at the cap for `starvation_guard` (SEMANTICS 4.4)."""
    first = leaders(queue, rows, judged, settings)
    return first[expired(led_since(queue, first), settings.guard_s[queue.leaf[first]], now_s)]


def leading_since(
    queue: Queue, rows: Ints, progress: Bools, judged: Judged, settings: Settings, now_s: int
) -> Ints:
    """Return since when each entry has led its low lane at the cap, UNSET_S for those that do not.

    `rows` are those that still wait; an array of which a task has just started begins anew.
    """
    since_s = np.full(len(queue), UNSET_S, np.int64)
    if settings.guard_s.any():
        first = leaders(queue, rows, judged, settings)
        known = led_since(queue, first)
        since_s[first] = np.where((known == UNSET_S) | progress[first], now_s, known)
    return since_s

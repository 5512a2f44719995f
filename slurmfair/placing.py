"""Jobs that were let go and that Slurm does not start: after `place_grace` they count as blocked (SEMANTICS 2).

Counting resources cannot see fragmentation or topology; this makes every policy react to them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slurmfair.model import UNSET_S, Bools, Ints

NOT_STUCK = -1


@dataclass(frozen=True, slots=True)
class Placing:
    """Entries of one pool that may start, ids ascending, shape (n,).

    `stuck_free` is how much of the main resource was free when an entry was found stuck: it is tried anew
    once more than that is free. An array of which tasks have started since then is not stuck.
    """

    entry_id: Ints
    since_s: Ints
    stuck_free: Ints
    tasks: Ints  # waiting tasks


def nothing_placed() -> Placing:
    empty = np.zeros(0, dtype=np.int64)
    return Placing(empty, empty, empty, empty)


def recalled(placing: Placing, entry_id: Ints, tasks: Ints) -> Placing:
    """Return what is remembered of these entries, in their order; UNSET_S and NOT_STUCK for strangers.

    `tasks` are those that wait now; arrays of which some have left are strangers: Slurm does start them.
    """
    place = np.searchsorted(placing.entry_id, entry_id)
    known = place < len(placing.entry_id)
    known[known] = placing.entry_id[place[known]] == entry_id[known]
    known[known] = placing.tasks[place[known]] <= tasks[known]
    since_s = np.full(len(entry_id), UNSET_S, dtype=np.int64)
    stuck_free = np.full(len(entry_id), NOT_STUCK, dtype=np.int64)
    since_s[known] = placing.since_s[place[known]]
    stuck_free[known] = placing.stuck_free[place[known]]
    return Placing(entry_id, since_s, stuck_free, tasks)


def unplaced(recall: Placing, free: int, grace_s: float, now_s: int) -> Bools:
    """Return which entries Slurm was given and did not start in time, shape (n,)."""
    overdue = (recall.since_s != UNSET_S) & (now_s - recall.since_s >= grace_s)
    still_stuck = (recall.stuck_free != NOT_STUCK) & (free <= recall.stuck_free)
    return overdue & ((recall.stuck_free == NOT_STUCK) | still_stuck)


def remembered(recall: Placing, stuck: Bools, let_go: Bools, free: int, now_s: int) -> Placing:
    """Return what to remember after a pass.

    `let_go`: entries that the pass lets start and that Slurm already sees unheld. A stuck entry stays
    remembered; one that is blocked for another reason starts afresh when its turn comes.
    """
    retried = ~stuck & (recall.stuck_free != NOT_STUCK)
    fresh = let_go & ((recall.since_s == UNSET_S) | retried)
    since_s = np.where(fresh, now_s, recall.since_s)
    stuck_free = np.where(stuck, np.maximum(recall.stuck_free, free), NOT_STUCK)
    kept = let_go | stuck
    return Placing(recall.entry_id[kept], since_s[kept], stuck_free[kept], recall.tasks[kept])

"""What is remembered of each entry from pass to pass, and what resets it (SEMANTICS 3, "What resets what").

All functions are pure; `state.py` keeps `Remembered` on disk.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from slurmfair.model import UNSET_S, Bools, Codes, Decision, Ints

LOOK_DELAY_S = 60  # Slurm's scheduler looks at all jobs this often (sched_interval)


@dataclass(frozen=True, slots=True)
class Seen:
    """Every waiting or running entry as Slurm shows it now, ids ascending; one column a field, shape (n,).

    An entry is the same as before if its id and its submission time are; a requeue sets a new submission time.
    """

    entry_id: Ints
    submit_s: Ints
    leaf: Codes  # index into `path`
    job_priority: Ints
    need: Ints  # shape (n, 3)
    restarts: Ints
    user_requeued_s: Ints  # when a person had it requeued last, UNSET_S for never; known some time later
    user_held: Bools
    bound: Bools  # by a dependency or by its begin time: not yet in the queue
    since_s: Ints  # when it became eligible, 0 where Slurm does not tell
    path: tuple[str, ...]  # of every quota of the pool
    policy: tuple[str, ...]  # name of the policy of every quota


@dataclass(frozen=True, slots=True)
class Remembered:
    """What was seen last, and the times that follow from all that was seen; shape (n,), UNSET_S for none."""

    seen: Seen
    order_s: Ints
    waiting_since_s: Ints
    first_attempt_s: Ints
    leading_since_s: Ints

    def __len__(self) -> int:
        return len(self.order_s)


@dataclass(frozen=True, slots=True)
class Changes:
    """What happened to each entry since it was last seen, shape (n,)."""

    entered: Bools  # is in the queue for the first time
    released: Bools  # from a user's hold
    again: Bools  # requeued, dependency or begin time met, moved to another quota
    altered: Bools  # priority, need or policy is another


def nothing_remembered() -> Remembered:
    """Return the memory of a daemon that has seen nothing yet."""
    none = np.empty(0, np.int64)
    no = np.empty(0, np.bool_)
    leaf = np.empty(0, np.int32)
    seen = Seen(none, none, leaf, none, np.empty((0, 3), np.int64), none, none, no, no, none, (), ())
    return Remembered(seen, none, none, none, none)


def advance(memory: Remembered, seen: Seen, now_s: int) -> Remembered:
    """Return the memory after a look at the cluster. Entries that are no longer seen are forgotten."""
    rows = same_rows(memory.seen, seen)
    known = rows >= 0
    order_s, waiting_since_s, first_attempt_s, leading_since_s = (
        carried(column, rows, known)
        for column in (memory.order_s, memory.waiting_since_s, memory.first_attempt_s, memory.leading_since_s)
    )
    changes = changes_between(memory.seen, seen, rows, known, order_s)
    entry_s = np.where((seen.since_s > 0) & (seen.since_s <= now_s), seen.since_s, now_s)
    asked_s = np.minimum(seen.user_requeued_s, now_s)
    order_s = np.where(order_s == UNSET_S, order_s, np.maximum(order_s, asked_s))
    order_s[changes.released] = now_s
    order_s[changes.entered] = entry_s[changes.entered]
    waiting_since_s[changes.released | changes.again] = now_s
    waiting_since_s[changes.entered] = entry_s[changes.entered]
    cleared = changes.entered | changes.released | changes.again | changes.altered
    first_attempt_s[cleared] = UNSET_S
    leading_since_s[cleared] = UNSET_S
    return Remembered(seen, order_s, waiting_since_s, first_attempt_s, leading_since_s)


def same_rows(old: Seen, new: Seen) -> Ints:
    """Return the old row of each new entry, -1 for those that were not there."""
    if np.array_equal(old.entry_id, new.entry_id):
        rows = np.arange(len(new.entry_id))
    elif len(old.entry_id) == 0:
        return np.full(len(new.entry_id), -1)
    else:
        rows = np.searchsorted(old.entry_id, new.entry_id)
        np.minimum(rows, len(old.entry_id) - 1, out=rows)
    requeued = new.restarts > old.restarts[rows]  # Slurm gives a requeued job a new time of submission
    same = (old.entry_id[rows] == new.entry_id) & ((old.submit_s[rows] == new.submit_s) | requeued)
    return np.where(same, rows, -1)


def eligible_since(submit_s: Ints, eligible_s: Ints, watched: Bools, ours: Bools) -> Ints:
    """Return since when each entry has been eligible, 0 where Slurm is yet to tell, shape (n,).

    A job that nothing keeps back is eligible from its submission on; Slurm dates that by its scheduler's first look
    at it, and would so let a job pass another that was submitted before it. Where something did keep it back, Slurm's
    time is right: jobs that we saw waiting for it (`watched`), and jobs whose time cannot be the scheduler's
    delay. A release of a hold of `ours` begins Slurm's time anew (SLURM.md 2.3), so that it tells nothing.
    """
    kept_back = watched | (~ours & (eligible_s > submit_s + LOOK_DELAY_S))
    return np.where(kept_back, eligible_s, submit_s)


def carried(column: Ints, rows: Ints, known: Bools) -> Ints:
    """Return an old column in the rows of now, UNSET_S for entries that are new."""
    values = np.full(len(rows), UNSET_S, np.int64)
    values[known] = column[rows[known]]
    return values


def changes_between(old: Seen, new: Seen, rows: Ints, known: Bools, order_s: Ints) -> Changes:
    """Return what happened between two looks; `order_s` is UNSET_S for who never was in the queue."""
    was = rows[known]
    requeued, released, met, moved, altered = (np.zeros(len(rows), np.bool_) for _ in range(5))
    requeued[known] = new.restarts[known] > old.restarts[was]
    released[known] = old.user_held[was] & ~new.user_held[known]
    met[known] = old.bound[was] & ~new.bound[known]
    moved[known] = places(old.path, new.path)[old.leaf[was]] != new.leaf[known]
    altered[known] = (
        (old.job_priority[was] != new.job_priority[known])
        | (old.need[was] != new.need[known]).any(axis=1)
        | (places(old.policy, new.policy)[old.leaf[was]] != places(new.policy, new.policy)[new.leaf[known]])
    )
    entered = (order_s == UNSET_S) & ~new.bound & ~new.user_held
    return Changes(entered, released, requeued | met | moved, altered)


def places(names: tuple[str, ...], among: tuple[str, ...]) -> Ints:
    """Return where each name first stands among the others, -1 for those that do not."""
    first: dict[str, int] = {}
    for place, name in enumerate(among):
        first.setdefault(name, place)
    return np.array([first.get(name, -1) for name in names], np.int64)


def after_pass(memory: Remembered, rows: Ints, decision: Decision) -> Remembered:
    """Return the memory with the timers as a pass left them; `rows` are those of the pass's queue."""
    first_attempt_s, leading_since_s = memory.first_attempt_s.copy(), memory.leading_since_s.copy()
    first_attempt_s[rows] = decision.first_attempt_s
    leading_since_s[rows] = decision.leading_since_s
    return replace(memory, first_attempt_s=first_attempt_s, leading_since_s=leading_since_s)


def after_pause(memory: Remembered, pause_s: int) -> Remembered:
    """Return the memory after a time in which nobody was tried: the daemon was down, or the clock was set.

    First attempts move with the pause, waiting times do not (SEMANTICS 3).
    """
    return replace(
        memory,
        first_attempt_s=moved_by(memory.first_attempt_s, pause_s),
        leading_since_s=moved_by(memory.leading_since_s, pause_s),
    )


def moved_by(column: Ints, pause_s: int) -> Ints:
    """Return times moved forward, leaving those that are not set."""
    return np.where(column == UNSET_S, UNSET_S, column + pause_s)

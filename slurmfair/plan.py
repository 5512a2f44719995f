"""From the decided order to the fewest writes.

Exact order only where Slurm looks: the first `window` records of each partition. Everything behind is
below all of them, in any order (DESIGN 5).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import IntEnum
from itertools import accumulate

import numpy as np

from slurmfair._core import window_rows
from slurmfair.model import Bools, Bytes, Change, Coded, Codes, Ints
from slurmfair.ranks import RankScale, spread
from slurmfair.slurm.parse import Tag, with_tag
from slurmfair.throttle import LEAVE, text_with_throttle

USUAL_DEPTH = 16  # windows: all partitions have theirs within so many places, as a rule


class Kind(IntEnum):
    """What a write is for."""

    NOTHING = 0
    HOLD = 1  # may start and must not
    DEMOTE = 2
    RELEASE = 3
    PROMOTE = 4
    TAKE_OVER = 5  # held by the gate, and must wait: the user's hold becomes ours
    THROTTLE = 6  # may start, and another number of its tasks may run at once
    CANCEL = 7  # can never start, and its quota's policy wants it gone


@dataclass(frozen=True, slots=True)
class Pending:
    """Pending records of managed jobs that we may touch, one column a field, shape (n,).

    The components of a heterogeneous job are records of their own with one and the same place.
    """

    job_id: Ints
    place: Ints  # 0-based place in the outgoing order, -1 for a record that must be held
    unwanted: Bools  # to be cancelled, once it is held (`unfit`)
    held: Bools  # by us
    gated: Bools  # held by our gate
    pinned: Bools  # has a priority that is not the sum of its factors (`ranks.looks_pinned`)
    rank: Ints  # site_factor; under channel `priority` the priority
    priority: Ints  # as Slurm computes it
    partition: Coded  # as Slurm writes it, "a,b" for several
    admin_comment: Coded
    throttle: Ints  # how many tasks of an array shall run at once, 0 for no bound; `throttle.LEAVE` as it is
    own_throttle: Ints  # the array's own, 0 for none

    def __len__(self) -> int:
        return len(self.job_id)


@dataclass(frozen=True, slots=True)
class Plan:
    """The writes of one cycle, in the order in which they must go out."""

    changes: tuple[Change, ...]
    counts: dict[str, int]  # by name of Kind, of `changes`
    left_over: int  # writes that the budget did not allow
    renumbered: int  # records that stood in order but had no room around them
    rank: Ints = field(repr=False)  # shape (n,): of each record once nothing is left over; 0 for must be held


def plan_changes(pending: Pending, scale: RankScale, window: int, write_budget: int) -> Plan:
    """Return the fewest writes that hold, release and rank as `pending.place` wants.

    Applying any first part of them leaves nothing worse than before: no record that must wait can
    start, and no record of the window is passed by a lower one that was not above it before.
    """
    wanted, renumbered = _wanted_ranks(pending, scale, window)
    kind = _kinds(pending, wanted)
    rows, kinds, left_over = _in_order_of_writing(pending, kind, write_budget)
    changes = _changes(pending, rows, kinds, wanted)
    number = np.bincount(kinds, minlength=len(Kind)).tolist()
    counts = {k.name.lower(): number[k] for k in Kind if k is not Kind.NOTHING}
    return Plan(changes, counts, left_over, renumbered, wanted)


def _wanted_ranks(pending: Pending, scale: RankScale, window: int) -> tuple[Ints, int]:
    """Return the rank that each record shall have, 0 for one that must be held, and how many were renumbered."""
    wanted = np.minimum(pending.rank, scale.behind)
    behind = pending.rank > scale.behind
    wanted[behind] = 1
    wanted[pending.place < 0] = 0
    row, unit, n_units = _window(pending, window, scale.capacity)
    usable = ~(pending.held[row] | pending.gated[row] | pending.pinned[row])
    ranks, renumbered = spread(unit, pending.rank[row], usable, n_units, scale)
    wanted[row] = ranks[unit]
    return wanted, renumbered


def _window(pending: Pending, window: int, capacity: int) -> tuple[Ints, Ints, int]:
    """Return rows in the window by place, the unit of each (one a place, from 0), and the number of units."""
    n_places = int(pending.place.max(initial=-1)) + 1
    row, unit, n_units, more = _window_within(pending, window, capacity, min(n_places, USUAL_DEPTH * window))
    if more:
        row, unit, n_units, _ = _window_within(pending, window, capacity, n_places)
    return row, unit, n_units


def _window_within(
    pending: Pending, window: int, capacity: int, n_places: int
) -> tuple[Ints, Ints, int, bool]:
    """Return the same for the first places alone, and whether looking further could add any."""
    n = len(pending)
    start, partitions, n_partitions = _partition_lists(pending.partition.values)
    row, unit = np.empty(n, np.int64), np.empty(n, np.int64)
    n_rows, n_units, more = window_rows(
        pending.place,
        pending.partition.codes,
        start,
        partitions,
        window,
        capacity,
        np.zeros(n_partitions, np.int64),
        np.full(n_places, -1, np.int64),
        np.empty(n, np.int64),
        row,
        unit,
    )
    return row[:n_rows], unit[:n_rows], n_units, more and n_places <= int(pending.place.max())


def _partition_lists(texts: tuple[str, ...]) -> tuple[Codes, Codes, int]:
    """Return the partitions of each text, as one array with the texts' bounds in it, and how many there are."""
    number: dict[str, int] = {}
    lists = [[number.setdefault(name, len(number)) for name in text.split(",")] for text in texts]
    bounds = np.array([0, *accumulate(map(len, lists))], np.int32)
    return bounds, np.array([n for names in lists for n in names], np.int32), len(number)


def _kinds(pending: Pending, wanted: Ints) -> Bytes:
    """Return what is to be written for each record, shape (n,)."""
    must_wait = pending.place < 0
    closed = pending.held | pending.gated
    unpin = pending.pinned & ~closed
    present = np.where(unpin, pending.priority, pending.rank)
    kind = np.zeros(len(pending), np.uint8)
    kind[unpin | (wanted > pending.rank)] = Kind.PROMOTE
    kind[(unpin | (wanted != pending.rank)) & (wanted < present)] = Kind.DEMOTE
    kind[closed] = Kind.RELEASE
    kind[must_wait] = Kind.HOLD
    kind[must_wait & pending.gated] = Kind.TAKE_OVER
    kind[must_wait & pending.held] = Kind.NOTHING
    kind[must_wait & pending.held & pending.unwanted] = Kind.CANCEL
    return kind


def _in_order_of_writing(pending: Pending, kind: Bytes, write_budget: int) -> tuple[Ints, Bytes, int]:
    """Return the rows to write, in order, what for, and how many are left over.

    First what lowers: holds, those that stand highest first, bounds on arrays, then demotions from the
    worst place up. Then what raises, from the best place down. Each of the two gets half of the budget if
    it needs it, so that a flood of holds does not keep jobs from starting. Gated records and those to be
    cancelled cannot start: they come last. A record whose place rises and that gets another bound is written twice.
    """
    holds = np.flatnonzero(kind == Kind.HOLD)
    holds = holds[np.lexsort((pending.job_id[holds], -pending.priority[holds]))]
    bounds = np.flatnonzero((pending.throttle != LEAVE) & ((kind == Kind.NOTHING) | (kind == Kind.PROMOTE)))
    bounds = bounds[pending.place[bounds] >= 0]
    demotions = np.flatnonzero(kind == Kind.DEMOTE)
    demotions = demotions[np.lexsort((pending.job_id[demotions], -pending.place[demotions]))]
    raises = np.flatnonzero((kind == Kind.RELEASE) | (kind == Kind.PROMOTE))
    raises = raises[np.lexsort((pending.job_id[raises], pending.place[raises]))]
    closed = np.flatnonzero((kind == Kind.TAKE_OVER) | (kind == Kind.CANCEL))
    lowers = np.concatenate((holds, bounds, demotions))
    all_rows = len(lowers) + len(raises) + len(closed)
    lowers = lowers[: max(write_budget - len(raises), (write_budget + 1) // 2)]
    raises = raises[: write_budget - len(lowers)]
    closed = closed[: write_budget - len(lowers) - len(raises)]
    rows = np.concatenate((lowers, raises, closed))
    kinds = kind[rows]
    kinds[len(holds) : min(len(holds) + len(bounds), len(lowers))] = Kind.THROTTLE
    return rows, kinds, all_rows - len(rows)


def _changes(pending: Pending, rows: Ints, kinds: Bytes, wanted: Ints) -> tuple[Change, ...]:
    """Return the one write for each of the rows that makes the record what it shall be."""
    rank = np.where(wanted != pending.rank, wanted, 0)
    columns = (
        pending.job_id, pending.place, pending.pinned, rank, pending.throttle, pending.own_throttle,
        pending.admin_comment.codes,
    )  # fmt: skip
    texts = pending.admin_comment.values
    each = zip(kinds.tolist(), *(column[rows].tolist() for column in columns), strict=True)
    return tuple(
        _bounded(
            _change(kind, job_id, place, pinned, rank or None, texts[text]), kind, texts[text], bound, own
        )
        for kind, job_id, place, pinned, rank, bound, own, text in each
    )


def _change(kind: int, job_id: int, place: int, pinned: bool, rank: int | None, text: str) -> Change:
    """Return the write of one record; `rank` is None where it stays."""
    if kind == Kind.CANCEL:
        return Change(job_id, cancel=True, why="can never start as it is, and on_never_fit is cancel")
    if place < 0:
        why = "must wait" if kind == Kind.HOLD else "must wait; was held by the gate"
        return Change(job_id, hold=True, tag=with_tag(text, Tag.HOLD), why=why)
    why = f"may start, place {place + 1}"
    if kind == Kind.THROTTLE:
        return Change(job_id, why=why)
    if kind == Kind.RELEASE:
        return Change(job_id, release=True, rank=rank, tag=with_tag(text, Tag.FREE), why=why)
    if pinned:
        return Change(job_id, release=True, rank=rank, why=f"{why}; its priority was pinned")
    return Change(job_id, rank=rank, why=why)


def _bounded(change: Change, kind: int, text: str, throttle: int, own: int) -> Change:
    """Return the change with the bound on an array's tasks, where it gets another one in this write."""
    if throttle == LEAVE or kind in (Kind.PROMOTE, Kind.CANCEL):
        return change
    tag = text_with_throttle(text if change.tag is None else change.tag, throttle, own)
    why = "with its own throttle" if throttle == own else f"{throttle} tasks at once"
    return replace(change, throttle=throttle, tag=tag, why=f"{change.why}; {why}")

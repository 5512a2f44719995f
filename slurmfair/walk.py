"""What the walk of a pass (`_core/order.pyx`) is given: the tree, the order inside each leaf, the room, and paper."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from slurmfair.model import Bools, Bytes, Codes, Floats, Ints, Masks, Quotas, Room


class Tree(NamedTuple):
    """The quotas of a pool, made ready for comparing siblings; shape (n_quotas,) unless said."""

    parent: Codes
    turn: Ints  # the quota's priority, smaller first
    name_rank: Codes
    limited: Bytes  # a limit stands somewhere on the path
    resources: Ints  # shape (n_resources,)
    deserved: Floats  # shape (n_quotas, n_resources)
    limit: Floats
    first: Ints  # shape (n_quotas + 1,): where the children of each begin, the root last
    max_window: Ints


class Line(NamedTuple):
    """The rows of each leaf in its order: `rows[head[q]:stop[q]]`; the walk uses them up."""

    rows: Ints
    head: Ints
    stop: Ints


class Standing(NamedTuple):
    """What each quota holds and is owed, shape (n_quotas, n_resources); the walk charges `allocated`."""

    allocated: Floats
    fair_share: Floats
    entitlement: Floats


class RoomLeft(NamedTuple):
    """What is free before and during the pass; `at_least[c, f]` nodes of class c have f or more free."""

    capacity: Ints
    free_before: Ints
    class_free_before: Ints
    free: Ints
    class_free: Ints
    at_least: Ints


@dataclass(frozen=True, slots=True)
class Running:
    """The running jobs of a pool, one column a field, shape (n,): when they must have ended, and what they hold."""

    end_by_s: Ints  # FOREVER_S or later without a time limit
    held: Ints  # shape (n, 3)
    classes: Masks  # bit c: has nodes of class c


class Rules(NamedTuple):
    """How the pool enforces its shares."""

    now_s: int
    holds_back: bool
    backfills: bool
    starvation_after_s: int  # 0: no guard


class Paper(NamedTuple):
    """Arrays that the walk works on."""

    heap: Ints
    size: Ints
    candidate: Ints
    since_s: Ints
    tier: Codes
    ratio: Floats
    reservation: Ints
    reserving: Ints
    shadow_s: Ints
    reserved_sum: Ints
    claim_classes: Masks
    claim: Ints
    group_classes: Masks
    group_sum: Ints
    begun: Ints
    closed_by: Ints
    failures: Ints
    failed: Ints
    next_failed: Ints
    first_failed: Ints
    last_failed: Ints


class Result(NamedTuple):
    """What the walk fills, shape (n,) but for `allocated`."""

    outcome: Bytes
    reserved: Bytes
    starts: Ints
    more: Ints
    attempt: Ints
    place_open: Ints  # as model.Decision
    blocker: Ints  # also the one that an entry is held back for
    room_s: Ints  # of those that have reserved: when there could be room, -1 where unknown
    position: Ints
    allocated: Floats


def tree_of(quotas: Quotas, path_limit: Floats, max_window: Ints) -> Tree:
    """Return the tree, ready for comparing siblings. `path_limit` is the tightest limit on each path."""
    n = len(quotas)
    name_rank = np.empty(n, np.int32)
    name_rank[sorted(range(n), key=quotas.path.__getitem__)] = np.arange(n, dtype=np.int32)
    children = np.bincount(np.where(quotas.parent < 0, n, quotas.parent), minlength=n + 1)
    return Tree(
        parent=quotas.parent,
        turn=-quotas.priority,
        name_rank=name_rank,
        limited=np.asarray(np.isfinite(path_limit).any(axis=1), np.uint8),
        resources=np.array(quotas.resources, np.int64),
        deserved=quotas.deserved,
        limit=quotas.limit,
        first=np.cumsum(children) - children,
        max_window=max_window,
    )


def room_left(room: Room) -> RoomLeft:
    """Return the room as counts of nodes with at least so much free."""
    at_least = np.ascontiguousarray(room.shape[:, ::-1].cumsum(axis=1)[:, ::-1])
    class_free = at_least[:, 1:].sum(axis=1)
    return RoomLeft(room.capacity, room.free, class_free, room.free.copy(), class_free.copy(), at_least)


def line_of(leaf: Codes, rank: Floats, order_s: Ints, parked: Bools, n_quotas: int) -> Line:
    """Return the order inside each leaf: rank descending, order time, row; parked rows are in no leaf."""
    ends = np.cumsum(np.bincount(leaf, minlength=n_quotas) - np.bincount(leaf[parked], minlength=n_quotas))
    return Line(sorted_rows(leaf, rank, order_s, parked, n_quotas), np.concatenate(([0], ends))[:-1], ends)


def sorted_rows(leaf: Codes, rank: Floats, order_s: Ints, parked: Bools, n_quotas: int) -> Ints:
    """Return the rows by leaf, rank descending, order time and row, parked ones last.

    Rows are nearly in order of time already, and (leaf, rank) mostly fits into 16 bits: two sorts that are
    linear then, one by time, one by radix. Otherwise one sort by three keys.
    """
    behind = rank.max(initial=0.0) - rank
    n_ranks = behind.max(initial=0.0) + 1
    if (n_quotas + 1) * n_ranks >= 1 << 16 or (behind != np.floor(behind)).any():
        return np.lexsort((order_s, behind, np.where(parked, n_quotas, leaf)))
    bucket = (np.arange(n_quotas) * n_ranks).astype(np.uint16).take(leaf)
    bucket += behind.astype(np.uint16)
    bucket[parked] = n_quotas * n_ranks
    by_time = np.argsort(order_s, kind="stable")
    return by_time.take(np.argsort(bucket.take(by_time), kind="stable"))


def paper_for(n: int, n_quotas: int, n_lanes: int) -> Paper:
    """Return empty paper for a pass over n entries."""
    return Paper(
        heap=np.empty(n_quotas, np.int64),
        size=np.zeros(n_quotas + 1, np.int64),
        candidate=np.empty(n_quotas, np.int64),
        since_s=np.empty(n_quotas, np.int64),
        tier=np.empty(n_quotas, np.int32),
        ratio=np.empty(n_quotas, np.float64),
        reservation=np.full(n_quotas, -1, np.int64),
        reserving=np.empty(n_quotas, np.int64),
        shadow_s=np.full(n_quotas, -1, np.int64),
        reserved_sum=np.zeros(3, np.int64),
        claim_classes=np.empty(n_quotas, np.uint64),
        claim=np.empty((3, n_quotas), np.int64),
        group_classes=np.empty(n_quotas, np.uint64),
        group_sum=np.zeros((n_quotas, 3), np.int64),
        begun=np.zeros(n_quotas, np.int64),
        closed_by=np.full((n_quotas, n_lanes), -1, np.int64),
        failures=np.zeros((n_quotas, n_lanes), np.int64),
        failed=np.empty(n, np.int64),
        next_failed=np.empty(n, np.int64),
        first_failed=np.full(n_quotas, -1, np.int64),
        last_failed=np.empty(n_quotas, np.int64),
    )


def result_for(n: int, allocated: Floats) -> Result:
    """Return the columns that a pass over n entries fills."""
    return Result(
        outcome=np.zeros(n, np.uint8),
        reserved=np.zeros(n, np.uint8),
        starts=np.zeros(n, np.int64),
        more=np.zeros(n, np.int64),
        attempt=np.full(n, -1, np.int64),
        place_open=np.full(n, -1, np.int64),
        blocker=np.full(n, -1, np.int64),
        room_s=np.full(n, -1, np.int64),
        position=np.zeros(n, np.int64),
        allocated=np.empty_like(allocated),
    )

"""The decision of one pass over one pool: who may start, who waits and why, and the order that goes out.

Policies say how each queue is sorted and what a failed attempt closes (`policy/`); the walk tries
candidates in the order between quotas (`_core/order.pyx`). DESIGN 3a, SEMANTICS 2 to 5.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace

import numpy as np

from slurmfair import _core as kernels
from slurmfair.config import FairShare, QueuePolicy
from slurmfair.model import FOREVER_S, UNSET_S, Bools, Decision, Floats, Ints, Outcome, Queue, Quotas, Room
from slurmfair.policy import POLICIES
from slurmfair.policy.intelligent import leading_since, starving
from slurmfair.policy.terms import LANE, QUOTA, Judged, Settings, Waiting, judged_by_priority, settings_of
from slurmfair.walk import (
    Result,
    Rules,
    Running,
    Standing,
    line_of,
    paper_for,
    result_for,
    room_left,
    tree_of,
)

NAMES = tuple(POLICIES)
NOBODY = Running(np.empty(0, np.int64), np.empty((0, 3), np.int64), np.empty(0, np.uint64))


def order_jobs(
    queue: Queue,
    quotas: Quotas,
    policies: Sequence[QueuePolicy],
    room: Room,
    allocated: Floats,
    fair_share: Floats,
    fairshare: FairShare,
    now_s: int,
    *,
    entitlement: Floats | None = None,
    running: Running | None = None,
) -> Decision:
    """Return what one pass over the pool decides.

    `policies` has one policy a quota; those of inner quotas are not looked at. `allocated`, `fair_share`
    and `entitlement` have shape (n_quotas, n_resources), the columns standing for `quotas.resources`;
    shares order the quotas, entitlements (whole units; the shares where not given) decide who is owed a
    reservation. Without `running` nothing is let past a reservation for being short.
    Raises ValueError for columns that do not fit together.
    """
    owed = fair_share if entitlement is None else entitlement
    check(
        queue, quotas, policies, room, {"allocated": allocated, "fair_share": fair_share, "entitlement": owed}
    )
    if queue.promised is None:
        queue = replace(queue, promised=np.zeros(len(queue), np.bool_))
    settings = settings_of(policies, NAMES)
    parked, path_limit = find_parked(queue, quotas, room, settings)
    judged = judge(queue, parked, settings, now_s)
    line = line_of(queue.leaf, judged.rank, queue.order_s, parked, len(quotas))
    result = result_for(len(queue), allocated)
    kernels.make_pass(
        queue,
        judged,
        line,
        tree_of(quotas, path_limit, settings.max_window),
        Standing(allocated.copy(), fair_share, owed),
        room_left(room),
        by_end(running or NOBODY),
        rules_of(fairshare, running, now_s),
        paper_for(len(queue), len(quotas), int(judged.lane.max(initial=0)) + 1),
        result,
    )
    return decision_of(queue, parked, judged, settings, result, now_s)


def check(
    queue: Queue,
    quotas: Quotas,
    policies: Sequence[QueuePolicy],
    room: Room,
    tables: Mapping[str, Floats],
) -> None:
    """Raise ValueError where the kernel would read past an array, compare what has no order, or not end."""
    shape = (len(quotas), len(quotas.resources))
    if len(policies) != len(quotas):
        raise ValueError(f"{len(policies)} policies for {len(quotas)} quotas: give one a quota")
    for name, table in tables.items():
        if table.shape != shape or not np.isfinite(table).all():
            raise ValueError(f"{name} must hold finite numbers in shape {shape}, not {table.shape}")
    if (quotas.parent >= np.arange(len(quotas))).any():
        raise ValueError("a quota must stand before its children")
    if len(room.shape) > 64:
        raise ValueError(f"{len(room.shape)} classes of nodes: a mask has bits for 64")
    check_queue(queue, quotas)


def check_queue(queue: Queue, quotas: Quotas) -> None:
    """Raise ValueError for columns of unequal length, entries without tasks, or outside of the leaves."""
    n = len(queue)
    for field in fields(queue):
        column = getattr(queue, field.name)
        if column is not None and len(column) != n:
            raise ValueError(f"{len(column)} rows in {field.name} for {n} entries")
    if n == 0:
        return
    inner = np.zeros(len(quotas), np.bool_)
    inner[quotas.parent[quotas.parent >= 0]] = True
    if queue.leaf.min() < 0 or queue.leaf.max() >= len(quotas) or inner.take(queue.leaf).any():
        raise ValueError("every entry needs a leaf quota of its pool")
    if queue.tasks.min() < 1:
        raise ValueError("every entry needs a task that may start")


def find_parked(queue: Queue, quotas: Quotas, room: Room, settings: Settings) -> tuple[Bools, Floats]:
    """Return which entries can never fit (SEMANTICS 3), and the tightest limits on the path of each quota.

    Quotas whose policy says that such entries block have none.
    """
    parked = np.zeros(len(queue), np.bool_)
    path_limit = quotas.limit.copy()
    kernels.find_parked(
        queue, room, quotas, path_limit, settings.blocks_when_never_fit.view(np.uint8), parked.view(np.uint8)
    )
    return parked, path_limit


def judge(queue: Queue, parked: Bools, settings: Settings, now_s: int) -> Judged:
    """Return what each entry's policy says about it."""
    judged = judged_by_priority(queue, settings)
    leaf = queue.leaf.astype(np.int64)
    names = settings.name.take(leaf)
    for code, name in enumerate(NAMES):
        rows = np.flatnonzero(names == code)
        if len(rows):
            judged.note(rows, POLICIES[name](Waiting(queue, rows, leaf.take(rows)), settings, now_s))
    if settings.guard_s.any():
        judged.closes[starving(queue, np.flatnonzero(~parked), judged, settings, now_s)] = QUOTA
    return by_gpu_type(queue, judged, settings) if settings.by_gpu_type.any() else judged


def by_gpu_type(queue: Queue, judged: Judged, settings: Settings) -> Judged:
    """Return the same with one lane a GPU type where `fifo_scope` says so: who blocks, blocks only his type."""
    scoped = settings.by_gpu_type[queue.leaf]
    n_lanes = judged.lane.max(initial=0) + 1
    return replace(
        judged,
        closes=np.where(scoped & (judged.closes == QUOTA), LANE, judged.closes),
        closes_fresh=np.where(scoped & (judged.closes_fresh == QUOTA), LANE, judged.closes_fresh),
        lane=np.where(scoped, queue.lane * n_lanes + judged.lane, judged.lane).astype(np.int32),
    )


def by_end(running: Running) -> Running:
    """Return the running jobs sorted by the time they must have ended, FOREVER_S for never."""
    order = np.argsort(running.end_by_s)
    return Running(
        np.minimum(running.end_by_s[order], FOREVER_S), running.held[order], running.classes[order]
    )


def rules_of(fairshare: FairShare, running: Running | None, now_s: int) -> Rules:
    """Return how shares are enforced."""
    return Rules(
        now_s=now_s,
        holds_back=fairshare.enforce == "holdback",
        backfills=fairshare.backfill_under_reservation and running is not None,
        starvation_after_s=int(fairshare.starvation_after_s),
    )


def decision_of(
    queue: Queue, parked: Bools, judged: Judged, settings: Settings, result: Result, now_s: int
) -> Decision:
    """Return the decision with the timers as the pass leaves them (SEMANTICS 3 and B10)."""
    result.outcome[parked] = Outcome.PARKED
    done = result.starts >= queue.tasks
    progress = (result.starts > 0) & (queue.tasks > 1)
    first_attempt_s = np.where(progress, UNSET_S, queue.first_attempt_s)
    first_attempt_s[(result.attempt >= 0) & ~done & (first_attempt_s == UNSET_S)] = now_s
    still = np.flatnonzero(~(parked | done))
    return Decision(
        outcome=result.outcome,
        starts=result.starts,
        attempt=result.attempt,
        place_open=result.place_open,
        blocker=result.blocker,
        room_s=result.room_s,
        reserved=result.reserved.view(np.bool_),
        effective=judged.effective,
        position=result.position,
        first_attempt_s=first_attempt_s,
        leading_since_s=leading_since(queue, still, progress, judged, settings, now_s),
        may_start=result.starts + result.more,
        allocated=result.allocated,
    )


def is_open(decision: Decision) -> Bools:
    """Tell which entries Slurm may start now.

    All that start, and those that only wait for room (CAPACITY, PLACEMENT), as far as the limits bear
    that Slurm starts all of them between two passes and nobody's reservation is in danger.
    """
    return decision.open


def rank_order(decision: Decision, queue: Queue) -> Ints:
    """Return the rows of all open entries, best first, as they go out to Slurm (DESIGN 3a).

    The order of attempts; but entries that failed without a reservation stand behind all that may start
    (arrays of which only some tasks start between the two), the first of them as quotas would share the
    whole pool if it became free, and what may start of a quota with a reservation stands before its holder.
    """
    rows = np.flatnonzero(decision.open)
    place = decision.attempt[rows]
    full = decision.starts[rows] >= queue.tasks[rows]
    reserved = decision.reserved[rows]
    group = np.where(full | reserved, 0, np.where(decision.starts[rows] > 0, 1, 2))
    holder_place = np.full(int(queue.leaf.max(initial=0)) + 1, np.iinfo(np.int64).max)
    holder_place[queue.leaf[rows[reserved]]] = place[reserved]
    turn = np.where(full, np.minimum(place, holder_place[queue.leaf[rows]]), place)
    in_turn = decision.place_open[rows]
    turn = np.where(group == 2, np.where(in_turn >= 0, in_turn, len(queue) + place), turn)
    return rows[np.lexsort((place, reserved, turn, group))]

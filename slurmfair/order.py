"""The decision of one pass over one pool: who may start, who waits and why, and the order that goes out.

Policies say how each queue is sorted and what a failed attempt closes (`policy/`); the walk tries
candidates in the order between quotas (`_core/order.pyx`). DESIGN 3a, SEMANTICS 2 to 5.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from slurmfair import _core as kernels
from slurmfair.config import FairShare, QueuePolicy
from slurmfair.model import UNSET_S, Bools, Closes, Decision, Floats, Ints, Outcome, Queue, Quotas, Room
from slurmfair.policy import POLICIES
from slurmfair.policy.intelligent import leading_since
from slurmfair.policy.terms import Judged, Settings, Waiting, settings_of
from slurmfair.walk import (
    Result,
    Rules,
    Running,
    Standing,
    Tree,
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
    check(queue, quotas, policies, room, allocated, fair_share)
    settings = settings_of(policies, NAMES)
    tree = tree_of(quotas, settings.max_window)
    parked = find_parked(queue, room, tree, settings)
    waiting = waiting_of(queue, parked)
    judged = judge(queue, waiting, settings, now_s)
    line = line_of(queue.leaf, judged.rank, queue.order_s, parked, len(quotas))
    position = np.zeros(len(queue), np.int64)
    position[line.rows] = np.arange(1, len(queue) + 1) - line.head[queue.leaf[line.rows]]
    position[parked] = 0
    result = result_for(len(queue), allocated)
    kernels.make_pass(
        queue,
        judged,
        line,
        tree,
        Standing(allocated.copy(), fair_share, fair_share if entitlement is None else entitlement),
        room_left(room),
        by_end(running or NOBODY),
        rules_of(fairshare, running, now_s),
        paper_for(len(queue), len(quotas), int(judged.lane.max(initial=0)) + 1),
        result,
    )
    return decision_of(queue, waiting, judged, settings, position, result, now_s)


def check(
    queue: Queue,
    quotas: Quotas,
    policies: Sequence[QueuePolicy],
    room: Room,
    allocated: Floats,
    fair_share: Floats,
) -> None:
    """Raise ValueError where the kernel would read past an array or compare what has no order."""
    shape = (len(quotas), len(quotas.resources))
    if len(policies) != len(quotas):
        raise ValueError(f"{len(policies)} policies for {len(quotas)} quotas: give one a quota")
    for name, table in (("allocated", allocated), ("fair_share", fair_share)):
        if table.shape != shape or not np.isfinite(table).all():
            raise ValueError(f"{name} must hold finite numbers in shape {shape}, not {table.shape}")
    if len(room.shape) > 64:
        raise ValueError(f"{len(room.shape)} classes of nodes: a mask has bits for 64")
    inner = np.zeros(len(quotas), np.bool_)
    inner[quotas.parent[quotas.parent >= 0]] = True
    if len(queue) and (queue.leaf.min() < 0 or queue.leaf.max() >= len(quotas) or inner[queue.leaf].any()):
        raise ValueError("every entry needs a leaf quota of its pool")
    if (quotas.parent >= np.arange(len(quotas))).any():
        raise ValueError("a quota must stand before its children")


def find_parked(queue: Queue, room: Room, tree: Tree, settings: Settings) -> Bools:
    """Tell which entries can never fit (SEMANTICS 3), in quotas where such entries do not block."""
    parked = np.zeros(len(queue), np.bool_)
    blocks = settings.blocks_when_never_fit.view(np.uint8)
    kernels.find_parked(queue, room, tree, tree.limit.copy(), blocks, parked.view(np.uint8))
    return parked


def waiting_of(queue: Queue, parked: Bools) -> Waiting:
    """Return the columns that policies look at."""
    leading_since_s = queue.leading_since_s
    if leading_since_s is None:
        leading_since_s = np.full(len(queue), UNSET_S, np.int64)
    return Waiting(
        queue.leaf,
        queue.job_priority,
        queue.order_s,
        queue.waiting_since_s,
        queue.first_attempt_s,
        leading_since_s,
        parked,
    )


def judge(queue: Queue, waiting: Waiting, settings: Settings, now_s: int) -> Judged:
    """Return what each entry's policy says about it."""
    names = settings.name[queue.leaf]
    present = [code for code in range(len(NAMES)) if (names == code).any()]
    if len(present) == 1:
        judged = POLICIES[NAMES[present[0]]](waiting, settings, now_s)
    else:
        n = len(queue)
        judged = Judged(
            np.empty(n), np.empty(n), np.empty(n, np.uint8), np.empty(n, np.uint8), np.empty(n, np.int32)
        )
        for code in present:
            rows = np.flatnonzero(names == code)
            part = POLICIES[NAMES[code]](Waiting(*(column[rows] for column in waiting)), settings, now_s)
            for column, values in zip(judged, part, strict=True):
                column[rows] = values
    return by_gpu_type(queue, judged, settings) if settings.by_gpu_type.any() else judged


def by_gpu_type(queue: Queue, judged: Judged, settings: Settings) -> Judged:
    """Return the same with one lane a GPU type where `fifo_scope` says so: who blocks, blocks only his type."""
    scoped = settings.by_gpu_type[queue.leaf]
    n_lanes = judged.lane.max(initial=0) + 1
    lane = np.where(scoped, queue.lane * n_lanes + judged.lane, judged.lane).astype(np.int32)
    quota, one_lane = np.uint8(Closes.QUOTA), np.uint8(Closes.LANE)
    return judged._replace(
        closes=np.where(scoped & (judged.closes == quota), one_lane, judged.closes),
        closes_fresh=np.where(scoped & (judged.closes_fresh == quota), one_lane, judged.closes_fresh),
        lane=lane,
    )


def by_end(running: Running) -> Running:
    """Return the running jobs sorted by the time they must have ended."""
    order = np.argsort(running.end_by_s, kind="stable")
    return Running(running.end_by_s[order], running.held[order], running.classes[order])


def rules_of(fairshare: FairShare, running: Running | None, now_s: int) -> Rules:
    """Return how shares are enforced."""
    return Rules(
        now_s=now_s,
        holds_back=fairshare.enforce == "holdback",
        backfills=fairshare.backfill_under_reservation and running is not None,
        starvation_after_s=int(fairshare.starvation_after_s),
    )


def decision_of(
    queue: Queue,
    waiting: Waiting,
    judged: Judged,
    settings: Settings,
    position: Ints,
    result: Result,
    now_s: int,
) -> Decision:
    """Return the decision with the timers as the pass leaves them (SEMANTICS 3 and B10)."""
    parked = waiting.parked
    result.outcome[parked] = Outcome.PARKED
    done = result.starts >= queue.tasks
    progress = (result.starts > 0) & (queue.tasks > 1)
    first_attempt_s = np.where(progress, UNSET_S, queue.first_attempt_s)
    first_attempt_s[(result.attempt >= 0) & ~done & (first_attempt_s == UNSET_S)] = now_s
    still = waiting._replace(
        parked=parked | done, leading_since_s=np.where(progress, UNSET_S, waiting.leading_since_s)
    )
    return Decision(
        outcome=result.outcome,
        starts=result.starts,
        attempt=result.attempt,
        blocker=result.blocker,
        reserved=result.reserved.view(np.bool_),
        effective=judged.effective,
        position=position,
        first_attempt_s=first_attempt_s,
        leading_since_s=leading_since(still, judged, settings, now_s),
        open=(result.outcome == Outcome.STARTS) | result.opened.view(np.bool_),
        allocated=result.allocated,
    )


def is_open(decision: Decision) -> Bools:
    """Tell which entries Slurm may start now.

    All that start, and those that only wait for room (CAPACITY, PLACEMENT), as far as the limits bear
    that Slurm starts all of them between two passes.
    """
    return decision.open


def rank_order(decision: Decision, queue: Queue) -> Ints:
    """Return the rows of all open entries, best first, as they go out to Slurm (DESIGN 3a).

    The order of attempts; but entries that failed without a reservation stand behind all that may start
    (arrays of which only some tasks start between the two), and what may start of a quota with a
    reservation stands before its holder.
    """
    rows = np.flatnonzero(decision.open)
    place = decision.attempt[rows]
    full = decision.starts[rows] >= queue.tasks[rows]
    reserved = decision.reserved[rows]
    group = np.where(full | reserved, 0, np.where(decision.starts[rows] > 0, 1, 2))
    holder_place = np.full(int(queue.leaf.max(initial=0)) + 1, np.iinfo(np.int64).max)
    holder_place[queue.leaf[rows[reserved]]] = place[reserved]
    turn = np.where(full, np.minimum(place, holder_place[queue.leaf[rows]]), place)
    return rows[np.lexsort((place, reserved, turn, group))]

"""Pools for hypothesis: three levels of quotas, all policies, arrays, gangs, kinds of nodes, running jobs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from hypothesis import strategies as st

from slurmfair.config import FairShare, QueuePolicy
from slurmfair.model import FOREVER_S, UNSET_S, Decision, Floats, Queue, Quotas, Room
from slurmfair.order import order_jobs
from slurmfair.walk import Running
from tests import reference

NOW_S = 100_000


@dataclass(frozen=True)
class PoolCase:
    queue: Queue
    quotas: Quotas
    policies: tuple[QueuePolicy, ...]
    room: Room
    allocated: Floats
    fair_share: Floats
    fairshare: FairShare
    entitlement: Floats | None
    running: Running | None

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return (
            (
                self.queue,
                self.quotas,
                self.policies,
                self.room,
                self.allocated,
                self.fair_share,
                self.fairshare,
                NOW_S,
            ),
            {"entitlement": self.entitlement, "running": self.running},
        )

    def decide(self) -> Decision:
        args, named = self.arguments()
        return order_jobs(*args, **named)

    def slowly(self) -> reference.Pass:
        args, named = self.arguments()
        return reference.decide(*args, **named)


policies = st.builds(
    QueuePolicy,
    name=st.sampled_from(["fifo", "round_robin", "balance", "intelligent"]),
    order=st.sampled_from(["priority", "priority", "submit"]),
    balance_timeout_s=st.sampled_from([30.0, 300.0]),
    max_window=st.sampled_from([0, 0, 1, 2]),
    high_threshold=st.sampled_from([7, 4]),
    high_blocks_low=st.booleans(),
    aging_interval_s=st.sampled_from([60.0, 100.0]),
    aging_cap=st.sampled_from([6, 5, 9]),
    aging_mode=st.sampled_from(["step", "step", "linear"]),
    starvation_guard_s=st.sampled_from([0.0, 0.0, 100.0]),
    on_never_fit=st.sampled_from(["park", "block", "cancel"]),
    fifo_scope=st.sampled_from(["quota", "quota", "gres_type"]),
)

fairshares = st.builds(
    FairShare,
    enforce=st.sampled_from(["holdback", "holdback", "order"]),
    backfill_under_reservation=st.booleans(),
    starvation_after_s=st.sampled_from([0.0, 500.0]),
)


@st.composite
def trees(draw: st.DrawFn) -> list[int]:
    """Return the parents of at most nine quotas in at most three levels, parents first."""
    parent = [-1] * draw(st.integers(1, 3))
    level = [0] * len(parent)
    for _ in range(draw(st.integers(0, 6))):
        above = draw(st.sampled_from([q for q in range(len(parent)) if level[q] < 2]))
        parent.append(above)
        level.append(level[above] + 1)
    return parent


@st.composite
def rooms(draw: st.DrawFn) -> Room:
    """Return one to three kinds of nodes, some of the configured ones down."""
    sizes = draw(st.lists(st.sampled_from([2, 4, 4, 8]), min_size=1, max_size=3))
    width = max(sizes) + 1
    shape = np.zeros((len(sizes), width), np.int64)
    down = np.array([draw(st.integers(0, 1)) for _ in sizes])
    for kind, size in enumerate(sizes):
        for level in draw(st.lists(st.integers(0, size), min_size=1, max_size=5)):
            shape[kind, level] += 1
    size = np.array(sizes)
    nodes = shape.sum(axis=1) + down
    free = int((shape * np.arange(width)).sum())
    total = int((shape.sum(axis=1) * size).sum())
    cpus = draw(st.sampled_from([0, 4, 16, 16])) + free * 2
    return Room(
        capacity=np.array([total, 2 * total + 16, 1000]),
        configured=np.array([total + int((down * size).sum()), 2 * total + 32, 1000]),
        free=np.array([free, cpus, draw(st.sampled_from([1000, 1000, 10]))]),
        class_name=tuple(f"k{kind}" for kind in range(len(sizes))),
        class_configured=nodes * size,
        class_nodes=nodes,
        class_node_size=size,
        shape=shape,
    )


def column(draw: st.DrawFn, values: st.SearchStrategy[int], n: int, kind: type = np.int64) -> Any:
    return np.array([draw(values) for _ in range(n)], kind)


@st.composite
def queues(draw: st.DrawFn, leaves: list[int], n_kinds: int, most: int = 12) -> Queue:
    n = draw(st.integers(0, most))
    waiting = column(draw, st.integers(0, 12), n) * 50
    times = st.sampled_from([0, 0, 10, 29, 30, 299, 300, 700])
    gpus = column(draw, st.sampled_from([1, 1, 2, 8, 1, 2, 6, 3, 4, 0, 12]), n)
    return Queue(
        entry_id=np.arange(1, n + 1),
        leaf=column(draw, st.sampled_from(leaves), n, np.int32),
        job_priority=column(draw, st.integers(1, 9), n),
        order_s=NOW_S - column(draw, st.integers(0, 5), n) * 100,
        waiting_since_s=NOW_S - waiting,
        first_attempt_s=np.where(
            column(draw, st.integers(0, 2), n) == 0, UNSET_S, NOW_S - column(draw, times, n)
        ),
        need=np.stack([gpus, gpus + column(draw, st.integers(0, 3), n), gpus], axis=1),
        nodes=column(draw, st.sampled_from([0, 1, 1, 1, 2, 3]), n),
        tasks=column(draw, st.sampled_from([1, 1, 1, 2, 5]), n),
        time_limit_s=column(draw, st.sampled_from([10, 60, 600, FOREVER_S]), n),
        classes=column(draw, st.sampled_from([2**n_kinds - 1, *range(1, 2**n_kinds)]), n, np.uint64),
        lane=column(draw, st.integers(0, 2), n, np.int32),
        unplaced=column(draw, st.sampled_from([0, 0, 0, 0, 1]), n, np.bool_),
        leading_since_s=np.where(
            column(draw, st.integers(0, 1), n) == 0, UNSET_S, NOW_S - column(draw, times, n)
        ),
        promised=column(draw, st.sampled_from([0, 0, 0, 1]), n, np.bool_),
    )


def summed(table: Floats, parent: list[int]) -> Floats:
    for quota in range(len(parent) - 1, -1, -1):
        if parent[quota] >= 0:
            table[parent[quota]] += table[quota]
    return table


@st.composite
def runnings(draw: st.DrawFn, n_kinds: int) -> Running:
    n = draw(st.integers(0, 4))
    gpus = column(draw, st.integers(0, 4), n)
    return Running(
        end_by_s=NOW_S + column(draw, st.sampled_from([-5, 5, 60, 600, FOREVER_S]), n),
        held=np.stack([gpus, gpus * 2, gpus], axis=1),
        classes=column(draw, st.integers(1, 2**n_kinds - 1), n, np.uint64),
    )


@st.composite
def pools(draw: st.DrawFn, most: int = 12) -> PoolCase:
    parent = draw(trees())
    n = len(parent)
    leaves = [q for q in range(n) if q not in parent]
    room = draw(rooms())
    n_kinds = len(room.shape)
    resources = draw(st.sampled_from([(0,), (0,), (0, 1), (1, 0)]))

    def table(values: st.SearchStrategy[float], sums: bool = True) -> Floats:
        cells = np.zeros((n, len(resources)))
        for leaf in leaves if sums else range(n):
            cells[leaf] = [draw(values) for _ in resources]
        return summed(cells, parent) if sums else cells

    limits = st.sampled_from([np.inf] * 8 + [8.0, 4.0, 2.0, 0.0])
    fair_share = table(st.sampled_from([0.0, 64.0, 2.5, 12.0, 8.0]))
    return PoolCase(
        queue=draw(queues(leaves, n_kinds, most)),
        quotas=Quotas(
            path=tuple(f"q{draw(st.integers(0, 9))}.{q}" for q in range(n)),
            parent=np.array(parent, np.int32),
            deserved=table(st.sampled_from([0.0, 0.0, 0.0, 4.0])),
            limit=table(limits, sums=False),
            weight=np.ones(n),
            priority=column(draw, st.sampled_from([100, 100, 200]), n),
            resources=resources,
        ),
        policies=tuple(draw(policies) for _ in range(n)),
        room=room,
        allocated=table(st.sampled_from([0.0, 0.0, 1.0, 4.0])),
        fair_share=fair_share,
        fairshare=draw(fairshares),
        entitlement=draw(st.sampled_from([None, np.floor(fair_share)])),
        running=draw(st.none() | runnings(n_kinds)),
    )


@st.composite
def contended(draw: st.DrawFn) -> PoolCase:
    """Return a pool without limits in which some quotas are owed all and others nothing: reservations abound."""
    case = draw(pools(most=16))
    n = len(case.quotas)
    owed = column(draw, st.sampled_from([0, 64]), n).astype(np.float64)
    for quota in range(n):  # who is owed something may have it from those above
        if owed[quota] and case.quotas.parent[quota] >= 0:
            owed[case.quotas.parent[quota]] = 999.0
    resources = len(case.quotas.resources)
    return replace(
        case,
        quotas=replace(case.quotas, limit=np.full((n, resources), np.inf)),
        policies=tuple(replace(policy, name="round_robin") for policy in case.policies),
        entitlement=np.repeat(owed[:, None], resources, axis=1),
        fairshare=replace(case.fairshare, enforce="holdback"),
        running=draw(st.none() | runnings(len(case.room.shape))),
    )


@st.composite
def ageing(draw: st.DrawFn) -> PoolCase:
    """Return a pool of Intelligent quotas with a starvation guard in which nearly everything is at the cap."""
    case = draw(pools())
    policies = tuple(
        replace(policy, name="intelligent", starvation_guard_s=100.0, aging_cap=draw(st.sampled_from([3, 6])))
        for policy in case.policies
    )
    n = len(case.queue)
    return replace(
        case,
        policies=policies,
        queue=replace(case.queue, job_priority=column(draw, st.sampled_from([5, 6, 5, 6, 8]), n)),
    )

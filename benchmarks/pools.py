"""Pools to measure with: quotas in three levels, half FIFO and Balance, half Round Robin and Intelligent."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slurmfair.config import FairShare, QueuePolicy
from slurmfair.model import UNSET_S, Decision, Floats, Ints, Queue, Quotas, Room
from slurmfair.order import order_jobs
from slurmfair.walk import Running

NOW_S = 1_700_000_000
WEEK_S = 7 * 86400
NODE_GPUS, GPU_CPUS, GPU_MIB = 8, 16, 64_000
POLICIES = tuple(QueuePolicy(name=name) for name in ("fifo", "balance", "round_robin", "intelligent"))


@dataclass(frozen=True, slots=True)
class PoolCase:
    queue: Queue
    quotas: Quotas
    policies: tuple[QueuePolicy, ...]
    room: Room
    allocated: Floats
    fair_share: Floats
    running: Running

    def decide(self) -> Decision:
        return order_jobs(
            self.queue,
            self.quotas,
            self.policies,
            self.room,
            self.allocated,
            self.fair_share,
            FairShare(),
            NOW_S,
            running=self.running,
        )


def pool(n_jobs: int, n_leaves: int, free_part: float, n_nodes: int = 500, seed: int = 1) -> PoolCase:
    """Return a pool of `n_leaves` leaf quotas, with about the given part of its GPUs free."""
    rng = np.random.default_rng(seed)
    path, parent = tree(n_leaves)
    capacity = n_nodes * NODE_GPUS
    leaves = np.arange(len(path) - n_leaves, len(path))
    room = half_used(n_nodes, int(capacity * free_part))
    held = rng.multinomial(capacity - int(room.free[0]), rng.dirichlet(np.ones(n_leaves)))
    quotas = Quotas(
        path=path,
        parent=parent,
        deserved=summed(leaves, np.full(n_leaves, 0.6 * capacity / n_leaves), parent),
        limit=np.full((len(path), 1), np.inf),
        weight=np.ones(len(path)),
        priority=rng.integers(0, 2, len(path)) * 100,
        resources=(0,),
    )
    quotas.limit[leaves, 0] = np.maximum(16, 4 * capacity // n_leaves)
    return PoolCase(
        queue=queue(n_jobs, leaves, rng),
        quotas=quotas,
        policies=tuple(POLICIES[quota % 4] for quota in range(len(path))),
        room=room,
        allocated=summed(leaves, held.astype(np.float64), parent),
        fair_share=summed(leaves, capacity * rng.dirichlet(np.full(n_leaves, 10.0)), parent),
        running=running(2000, rng),
    )


def tree(n_leaves: int) -> tuple[tuple[str, ...], np.ndarray[tuple[int], np.dtype[np.int32]]]:
    """Return paths and parents of departments, projects and leaves, parents first."""
    n_top = max(2, round(n_leaves ** (1 / 3)))
    path = [f"d{top}" for top in range(n_top)]
    parent = [-1] * n_top
    for project in range(n_top * n_top):
        path.append(f"d{project % n_top}.p{project}")
        parent.append(project % n_top)
    for leaf in range(n_leaves):
        above = n_top + leaf % (n_top * n_top)
        path.append(f"{path[above]}.q{leaf}")
        parent.append(above)
    return tuple(path), np.array(parent, np.int32)


def summed(leaves: Ints, values: Floats, parent: np.ndarray[tuple[int], np.dtype[np.int32]]) -> Floats:
    """Return one resource of all quotas: an inner quota has the sum of those below."""
    table = np.zeros((len(parent), 1))
    table[leaves, 0] = values
    for quota in range(len(parent) - 1, -1, -1):
        if parent[quota] >= 0:
            table[parent[quota]] += table[quota]
    return table


def half_used(n_nodes: int, free: int) -> Room:
    """Return a room whose free GPUs stand on half used nodes."""
    total = np.array([NODE_GPUS, NODE_GPUS * GPU_CPUS, NODE_GPUS * GPU_MIB]) * n_nodes
    shape = np.zeros((1, NODE_GPUS + 1), np.int64)
    shape[0, NODE_GPUS // 2] = free // (NODE_GPUS // 2)
    shape[0, 0] = n_nodes - shape[0].sum()
    units = int(shape[0, NODE_GPUS // 2]) * (NODE_GPUS // 2)
    return Room(
        capacity=total,
        configured=total,
        free=np.array([units, units * GPU_CPUS, units * GPU_MIB]),
        class_name=("gpu",),
        class_configured=total[:1].copy(),
        class_nodes=np.array([n_nodes]),
        class_node_size=np.array([NODE_GPUS]),
        shape=shape,
    )


def needs(gpus: Ints) -> Ints:
    return np.stack([gpus, gpus * GPU_CPUS, gpus * GPU_MIB], axis=1)


def queue(n: int, leaves: Ints, rng: np.random.Generator) -> Queue:
    """Return n waiting jobs of 1 to 16 GPUs, quotas of very unequal length, a week of submissions."""
    gpus = 2 ** rng.integers(0, 5, n)
    order_s = np.sort(NOW_S - rng.integers(0, WEEK_S, n))
    return Queue(
        entry_id=np.arange(1, n + 1),
        leaf=leaves[(rng.zipf(1.3, n) - 1) % len(leaves)].astype(np.int32),
        job_priority=rng.integers(1, 10, n),
        order_s=order_s,
        waiting_since_s=order_s,
        first_attempt_s=np.where(rng.random(n) < 0.5, UNSET_S, order_s + 10),
        need=needs(gpus),
        nodes=np.maximum(1, gpus // NODE_GPUS),
        tasks=np.where(rng.random(n) < 0.05, 20, 1),
        time_limit_s=rng.integers(1, 96, n) * 1800,
        classes=np.ones(n, np.uint64),
        lane=np.zeros(n, np.int32),
        unplaced=np.zeros(n, np.bool_),
    )


def running(n: int, rng: np.random.Generator) -> Running:
    return Running(NOW_S + rng.integers(60, 86400, n), needs(np.ones(n, np.int64)), np.ones(n, np.uint64))

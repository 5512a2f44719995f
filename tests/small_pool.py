"""Small pools of GPUs told in a few words, for tests of what quotas do to each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any

import numpy as np

from slurmfair.config import FairShare, QueuePolicy
from slurmfair.model import FOREVER_S, UNSET_S, Decision, Floats, Outcome, Queue, Quotas, Room
from slurmfair.order import order_jobs, rank_order
from slurmfair.walk import Running

ROUND_ROBIN = QueuePolicy(name="round_robin")
NO_GUARD = FairShare(starvation_after_s=0.0)


@dataclass(frozen=True)
class Q:
    """A quota; `share` is what the fair share gives it, `held` what runs in it."""

    share: float = 0.0
    held: float = 0.0
    deserved: float = 0.0
    limit: float = inf
    priority: int = 100
    policy: QueuePolicy = ROUND_ROBIN


@dataclass(frozen=True)
class J:
    """A waiting job; `kinds` are the kinds of nodes it may use, () for all."""

    name: str
    quota: str
    need: int
    priority: int = 5
    order_s: int = 0
    waiting_since_s: int | None = None
    first_attempt_s: int = UNSET_S
    leading_since_s: int = UNSET_S
    nodes: int = 1
    tasks: int = 1
    cpus: int = 0
    time_limit_s: int = FOREVER_S
    kinds: tuple[int, ...] = ()
    gpu_type: int = 0
    unplaced: bool = False
    promised: bool = False


@dataclass(frozen=True)
class R:
    """A running job, or several that end together."""

    gpus: int
    end_by_s: int
    cpus: int = 0
    kind: int = 0


@dataclass(frozen=True)
class Made:
    """What a pass did, by name of the job."""

    jobs: tuple[J, ...]
    queue: Queue
    decision: Decision
    quotas: tuple[str, ...]

    def by_name(self, column: Any) -> dict[str, Any]:
        return {job.name: value for job, value in zip(self.jobs, column.tolist(), strict=True)}

    def names(self, mask: Any) -> list[str]:
        return [self.jobs[row].name for row in np.flatnonzero(mask)]

    @property
    def outcomes(self) -> dict[str, str]:
        return {name: Outcome(code).name for name, code in self.by_name(self.decision.outcome).items()}

    @property
    def attempts(self) -> list[str]:
        tried = np.flatnonzero(self.decision.attempt >= 0)
        return [self.jobs[row].name for row in tried[np.argsort(self.decision.attempt[tried])]]

    @property
    def out(self) -> list[str]:
        return [self.jobs[row].name for row in rank_order(self.decision, self.queue)]

    @property
    def open(self) -> list[str]:
        return self.names(self.decision.open)

    @property
    def reserved(self) -> list[str]:
        return self.names(self.decision.reserved)

    @property
    def blockers(self) -> dict[str, str]:
        return {
            name: self.jobs[row].name for name, row in self.by_name(self.decision.blocker).items() if row >= 0
        }

    @property
    def starts(self) -> dict[str, int]:
        return self.by_name(self.decision.starts)

    def allocated(self, quota: str) -> float:
        return float(self.decision.allocated[self.quotas.index(quota), 0])


@dataclass(frozen=True)
class Pool:
    """`nodes` are the free GPUs of each node of each kind; nodes of a kind are equally large."""

    quotas: Mapping[str, Q]
    nodes: Sequence[Sequence[int]]
    sizes: Sequence[int]
    fairshare: FairShare = NO_GUARD
    cpus: int = 1000
    down: Sequence[int] = ()
    now_s: int = 1000

    def quota_table(self) -> Quotas:
        """Return the tree; "a.b" is below "a", and parents come first."""
        names = list(self.quotas)
        parents = [names.index(name.rpartition(".")[0]) if "." in name else -1 for name in names]
        return Quotas(
            path=tuple(names),
            parent=np.array(parents, np.int32),
            deserved=self.column("deserved"),
            limit=self.column("limit"),
            weight=np.ones(len(names)),
            priority=np.array([quota.priority for quota in self.quotas.values()]),
            resources=(0,),
        )

    def column(self, name: str) -> Floats:
        return np.array([[float(getattr(quota, name))] for quota in self.quotas.values()])

    def room(self) -> Room:
        sizes = np.array(self.sizes)
        shape = np.zeros((len(sizes), max(self.sizes) + 1), np.int64)
        for kind, free in enumerate(self.nodes):
            for level in free:
                shape[kind, level] += 1
        up = shape.sum(axis=1)
        nodes = up + np.array([*self.down, *[0] * (len(sizes) - len(self.down))])
        free_gpus = sum(sum(free) for free in self.nodes)
        return Room(
            capacity=np.array([int(up @ sizes), self.cpus, 10**6]),
            configured=np.array([int(nodes @ sizes), max(self.cpus, 1000), 10**6]),
            free=np.array([free_gpus, self.cpus, 10**6]),
            class_name=tuple(f"kind{kind}" for kind in range(len(sizes))),
            class_configured=nodes * sizes,
            class_nodes=nodes,
            class_node_size=sizes,
            shape=shape,
        )

    def queue_of(self, jobs: Sequence[J]) -> Queue:
        names = list(self.quotas)
        all_kinds = tuple(range(len(self.sizes)))

        def ints(values: list[int], kind: type = np.int64) -> Any:
            return np.array(values, kind)

        return Queue(
            entry_id=np.arange(1, len(jobs) + 1),
            leaf=ints([names.index(job.quota) for job in jobs], np.int32),
            job_priority=ints([job.priority for job in jobs]),
            order_s=ints([job.order_s for job in jobs]),
            waiting_since_s=ints(
                [job.order_s if job.waiting_since_s is None else job.waiting_since_s for job in jobs]
            ),
            first_attempt_s=ints([job.first_attempt_s for job in jobs]),
            need=np.array([[job.need, job.cpus, 0] for job in jobs], np.int64).reshape(len(jobs), 3),
            nodes=ints([job.nodes for job in jobs]),
            tasks=ints([job.tasks for job in jobs]),
            time_limit_s=ints([job.time_limit_s for job in jobs]),
            classes=ints([sum(1 << kind for kind in job.kinds or all_kinds) for job in jobs], np.uint64),
            lane=ints([job.gpu_type for job in jobs], np.int32),
            unplaced=np.array([job.unplaced for job in jobs], np.bool_),
            leading_since_s=ints([job.leading_since_s for job in jobs]),
            promised=np.array([job.promised for job in jobs], np.bool_),
        )

    def decide(self, *jobs: J, running: Sequence[R] | None = None) -> Made:
        queue = self.queue_of(jobs)
        decision = order_jobs(
            queue,
            self.quota_table(),
            [quota.policy for quota in self.quotas.values()],
            self.room(),
            self.column("held"),
            self.column("share"),
            self.fairshare,
            self.now_s,
            running=None if running is None else running_of(running),
        )
        return Made(jobs, queue, decision, tuple(self.quotas))


def running_of(jobs: Sequence[R]) -> Running:
    return Running(
        end_by_s=np.array([job.end_by_s for job in jobs], np.int64),
        held=np.array([[job.gpus, job.cpus, 0] for job in jobs], np.int64).reshape(len(jobs), 3),
        classes=np.array([1 << job.kind for job in jobs], np.uint64),
    )


def one_kind(quotas: Mapping[str, Q], free: int, **settings: Any) -> Pool:
    """Return a pool of nodes with one GPU each, as many free as told and as many used as the leaves hold."""
    inner = {name.rpartition(".")[0] for name in quotas}
    held = sum(int(quota.held) for name, quota in quotas.items() if name not in inner)
    return Pool(quotas, [[1] * free + [0] * held], [1], **settings)


def job(name: str, quota: str, need: int, **settings: Any) -> J:
    """Return a job that takes any nodes: as many as GPUs."""
    return replace(J(name, quota, need), **{"nodes": max(1, need), **settings})

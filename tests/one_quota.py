"""One quota of one resource, driven by events: what the tables of SEMANTICS 6 and policy_cases.jsonl speak about.

The decision and the timers are the real ones; only Slurm is missing: what is dequeued runs at once.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from slurmfair.config import FairShare, QueuePolicy
from slurmfair.model import FOREVER_S, UNSET_S, Decision, Outcome, Queue, Quotas, Room
from slurmfair.order import order_jobs
from slurmfair.timers import Remembered, Seen, advance, after_pass, nothing_remembered


@dataclass
class Job:
    id: int
    name: str
    need: int
    priority: int
    tasks: int
    is_array: bool
    started: int = 0
    restarts: int = 0
    running: bool = False


@dataclass(frozen=True)
class Pass:
    """What one pass showed: names in order."""

    order: list[str]
    effective: dict[str, int]
    free: int
    dequeued: list[str]
    window: list[str]
    parked: list[str]
    reasons: dict[str, str]  # of all that did not start


@dataclass
class OneQuota:
    capacity: int
    limit: float
    policy: QueuePolicy
    now_s: int = 0
    memory: Remembered = field(default_factory=nothing_remembered)
    jobs: dict[str, Job] = field(default_factory=dict)  # waiting or, once preempted, coming back
    running: dict[str, int] = field(default_factory=dict)  # name of job or task -> need
    arrivals: int = 0

    # -- events ----------------------------------------------------------------------------------------

    def submit(self, name: str, need: int, priority: int, tasks: int = 1, is_array: bool = False) -> None:
        self.arrivals += 1
        self.jobs[name] = Job(self.arrivals, name, need, priority, tasks, is_array or tasks > 1)
        self.look()

    def end(self, name: str) -> None:
        del self.running[name]

    def cancel(self, name: str) -> None:
        del self.jobs[name]
        self.look()

    def set_priority(self, name: str, priority: int) -> None:
        self.jobs[name].priority = priority
        self.look()

    def set_policy(self, name: str) -> None:
        self.policy = replace(self.policy, name=name)  # type: ignore[arg-type]
        self.look()

    def set_limit(self, limit: float) -> None:
        self.limit = limit

    def requeue(self, name: str) -> None:
        """Bring a preempted job back: it has been remembered as running all the time."""
        job = self.jobs[name]
        job.running = False
        job.restarts += 1
        job.started = 0
        self.look()

    # -- what the daemon does --------------------------------------------------------------------------

    def look(self) -> None:
        self.memory = advance(self.memory, self.seen(), self.now_s)

    def seen(self) -> Seen:
        jobs = self.in_order_of_arrival()
        n = len(jobs)
        no = np.zeros(n, np.bool_)
        return Seen(
            entry_id=ints(job.id for job in jobs),
            submit_s=np.zeros(n, np.int64),
            leaf=np.zeros(n, np.int32),
            job_priority=ints(job.priority for job in jobs),
            need=needs(jobs),
            restarts=ints(job.restarts for job in jobs),
            user_requeued_s=np.full(n, UNSET_S),
            user_held=no,
            bound=np.array([job.running for job in jobs], np.bool_),
            since_s=np.zeros(n, np.int64),
            path=("q",),
            policy=(self.policy.name,),
        )

    def in_order_of_arrival(self) -> list[Job]:
        return sorted(self.jobs.values(), key=lambda job: job.id)

    def queue(self) -> Queue:
        rows = self.rows()
        jobs = [job for job in self.in_order_of_arrival() if not job.running]
        n = len(jobs)
        return Queue(
            entry_id=ints(job.id for job in jobs),
            leaf=np.zeros(n, np.int32),
            job_priority=ints(job.priority for job in jobs),
            order_s=self.memory.order_s[rows],
            waiting_since_s=self.memory.waiting_since_s[rows],
            first_attempt_s=self.memory.first_attempt_s[rows],
            need=needs(jobs),
            nodes=np.ones(n, np.int64),
            tasks=ints(job.tasks - job.started for job in jobs),
            time_limit_s=np.full(n, FOREVER_S),
            classes=np.ones(n, np.uint64),
            lane=np.zeros(n, np.int32),
            unplaced=np.zeros(n, np.bool_),
            leading_since_s=self.memory.leading_since_s[rows],
        )

    def rows(self) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        return np.flatnonzero(~self.memory.seen.bound)

    @property
    def free(self) -> int:
        return self.capacity - sum(self.running.values())

    def decide(self, queue: Queue) -> Decision:
        quotas = Quotas(
            path=("q",),
            parent=np.array([-1], np.int32),
            deserved=np.array([[0.0]]),
            limit=np.array([[float(self.limit)]]),
            weight=np.array([1.0]),
            priority=np.array([0]),
            resources=(0,),
        )
        allocated = np.array([[float(sum(self.running.values()))]])
        share = np.array([[float(self.capacity)]])
        return order_jobs(
            queue, quotas, [self.policy], self.room(), allocated, share, FairShare(), self.now_s
        )

    def room(self) -> Room:
        size = np.array([self.capacity])
        shape = np.zeros((1, self.capacity + 1), np.int64)
        shape[0, self.free] = 1
        plenty = np.array([self.capacity, 0, 0])
        return Room(plenty, plenty, np.array([self.free, 0, 0]), ("any",), size, np.array([1]), size, shape)

    def make_pass(self) -> Pass:
        queue = self.queue()
        jobs = [job for job in self.in_order_of_arrival() if not job.running]
        free = self.free
        decision = self.decide(queue)
        self.memory = after_pass(self.memory, self.rows(), decision)
        order = [jobs[row] for row in np.argsort(decision.position, kind="stable") if decision.position[row]]
        effective = {jobs[row].name: int(decision.effective[row]) for row in range(len(jobs))}
        dequeued = self.start(jobs, decision)
        self.look()
        return Pass(
            order=[job.name for job in order],
            effective={job.name: effective[job.name] for job in order},
            free=free,
            dequeued=dequeued,
            window=self.window(),
            parked=sorted(jobs[row].name for row in np.flatnonzero(decision.outcome == Outcome.PARKED)),
            reasons={
                job.name: Outcome(code).name
                for job, code in zip(jobs, decision.outcome, strict=True)
                if code not in (Outcome.STARTS, Outcome.PARKED)
            },
        )

    def start(self, jobs: list[Job], decision: Decision) -> list[str]:
        dequeued = []
        tried = np.flatnonzero(decision.starts > 0)
        for row in tried[np.argsort(decision.attempt[tried])]:
            job = jobs[row]
            for _ in range(int(decision.starts[row])):
                job.started += 1
                name = f"{job.name}_{job.started}" if job.is_array else job.name
                self.running[name] = job.need
                dequeued.append(name)
            if job.started == job.tasks:
                job.running = True
        return dequeued

    def window(self) -> list[str]:
        """Return what the next pass at the same time would try if nothing at all fitted."""
        queue = self.queue()
        jobs = [job for job in self.in_order_of_arrival() if not job.running]
        full = replace(self, running={"everything": self.capacity})
        decision = full.decide(queue)
        tried = np.flatnonzero(decision.attempt >= 0)
        return [jobs[row].name for row in tried[np.argsort(decision.attempt[tried])]]


def ints(values: object) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(list(values), np.int64)  # type: ignore[call-overload]


def needs(jobs: list[Job]) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    return np.array([[job.need, 0, 0] for job in jobs], np.int64).reshape(len(jobs), 3)

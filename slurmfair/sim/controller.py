"""slurmctld in memory: what jobs live through, driven by events. No clock and no chance: the same calls, the same course.

Left out: limits of QOS and accounts, preemption, licences. A suspended job keeps all that it was given.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count

from slurmfair.sim.clock import Clock, Tick
from slurmfair.sim.job import Allocation, Job, Run
from slurmfair.sim.nodes import Nodes
from slurmfair.sim.queue import Queue
from slurmfair.sim.scheduler import backfill_pass, main_pass
from slurmfair.sim.spec import JobSpec, NodeSpec, Rules
from slurmfair.sim.waiting import OBSTACLES, computed, obstacle, open_partitions
from slurmfair.slurm.parse import COMPLETING, STATE_FLAGS, BaseState, Tag, with_tag


@dataclass(slots=True)
class PartitionState:
    """A partition now."""

    tier: int = 1
    up: bool = True


class Controller:
    """The state of a cluster and what happens in it."""

    def __init__(
        self, nodes: Sequence[NodeSpec], tiers: Mapping[str, int], rules: Rules, start_s: int
    ) -> None:
        self.nodes = Nodes(nodes)
        self.partitions = {name: PartitionState(tiers.get(name, 1)) for name in sorted(self.nodes.members)}
        self.rules = rules
        self.clock = Clock(start_s)
        self.jobs: dict[int, Job] = {}
        self.queue = Queue()
        self.running_tasks: Counter[int] = Counter()  # by array
        self.throttles: dict[int, int] = {}  # by array, where it was changed after submission
        self.starts: list[tuple[int, int]] = []  # time and job id, in the order in which jobs started
        self.ended_runs: list[Run] = []
        self.gated: frozenset[str] = frozenset()  # partitions whose submissions the gate holds
        self._ids = count(1)
        if rules.weights.get("Age"):
            self.clock.on_grid(Tick.CALC, rules.calc_period_s)
        self._ended: deque[Job] = deque()
        self._waiting_for: defaultdict[int, list[Job]] = defaultdict(list)
        self._tasks_left: Counter[int] = Counter()  # by array

    # Time

    def advance(self, to_s: int) -> None:
        """Let everything happen that is due until then, that second included."""
        while (due_s := self.clock.next_s()) <= to_s:
            self.clock.now_s = max(self.now_s, due_s)
            for act, job in self.clock.due():
                act(job)
            self._look()
        self.clock.now_s = max(self.now_s, to_s)
        while self._ended and self._ended[0].end_s + self.rules.min_job_age_s <= self.now_s:
            self.jobs.pop(self._ended.popleft().job_id, None)

    @property
    def now_s(self) -> int:
        """The cluster's time."""
        return self.clock.now_s

    def changed(self) -> None:
        """Ask for passes of both schedulers: something may start that could not before."""
        self.clock.soon(Tick.PASS, self.rules.pass_delay_s)
        self.clock.on_grid(Tick.FULL_PASS, self.rules.sched_interval_s)
        if self.rules.backfill:
            self.clock.on_grid(Tick.BACKFILL, self.rules.bf_interval_s)

    def _look(self) -> None:
        """Let the schedulers look, if it is their time."""
        if self.clock.take(Tick.CALC):
            self.clock.on_grid(Tick.CALC, self.rules.calc_period_s)
            for job in self.jobs.values():
                self.reprice(job)
        if self.clock.take(Tick.FULL_PASS):
            self.clock.take(Tick.PASS)
            main_pass(self, len(self.jobs) * len(self.partitions))
        if self.clock.take(Tick.PASS):
            main_pass(self, self.rules.queue_depth)
        if self.clock.take(Tick.BACKFILL) and backfill_pass(self):
            self.changed()

    # Entering

    def submit(self, spec: JobSpec) -> Job:
        """Return the new record. The gate holds it unless the user asked for a hold (SLURM.md 3.3)."""
        job = self._new_job(spec)
        self._enter(job)
        return job

    def submit_het(self, specs: Sequence[JobSpec]) -> list[Job]:
        """Return the records of a heterogeneous job, the leader first."""
        jobs = [self._new_job(spec) for spec in specs]
        for job in jobs:
            job.het_id = jobs[0].job_id
        for job in jobs:
            self._enter(job)
        return jobs

    def _new_job(self, spec: JobSpec) -> Job:
        if not any(self.nodes.suits(spec, name) for name in spec.partitions):
            raise ValueError("Requested node configuration is not available")
        spec = replace(spec, time_limit_s=min(spec.time_limit_s, self.rules.max_time_s))
        job = Job(next(self._ids), spec, self.now_s, nice=spec.nice, begin_s=spec.begin_s, tasks=spec.array)
        if spec.array:
            job.array_id = job.job_id
            self._tasks_left[job.array_id] = len(spec.array)
        self.jobs[job.job_id] = job
        return job

    def _enter(self, job: Job) -> None:
        spec = job.spec
        if not spec.hold and self.gated & set(spec.partitions):
            job.admin_comment = with_tag(job.admin_comment, Tag.GATE)
            job.say("JobHeldUser")
        elif spec.hold:
            job.say("JobHeldUser")
        else:
            job.priority, job.eligible_s = computed(self, job), self.now_s
        for after in spec.after:
            parent = self.jobs.get(after.job_id)
            if parent and not (parent.over and self._tasks_left[after.job_id] == 0):
                job.unmet.add(after.job_id)
                self._waiting_for[after.job_id].append(job)
                job.eligible_s = 0
        self.settle(job)

    # Waiting

    def settle(self, job: Job) -> None:
        """Put a record into the schedulers' queue or take it out, and say why it waits if it cannot start."""
        self.queue.drop(job.job_id)
        if not job.waits or job.priority == 0:
            return
        if job.begin_s > self.now_s:
            job.eligible_s = 0 if job.unmet else job.begin_s
            self.clock.at(job.begin_s, self.settle, job)
        if reason := obstacle(self, job):
            job.say(reason)
            return
        if job.reason in OBSTACLES:
            job.say("None")
        self.queue.put(job.job_id, job.priority, open_partitions(self, job))
        self.changed()

    def reprice(self, job: Job) -> None:
        """Compute the priority of an unheld record anew; a pinned one stays (SLURM.md 1.1)."""
        if job.priority == 0 or job.pinned or job.over:
            return
        priority = computed(self, job)
        if priority != job.priority:
            job.priority = priority
            if job.job_id in self.queue:
                self.settle(job)

    def throttle(self, job: Job) -> int:
        """Return how many tasks of the record's array may run at once, 0 for no bound."""
        return self.throttles.get(job.array_id, job.spec.throttle)

    # Running

    def start(self, record: Job, allocation: Allocation, partition: str) -> Job:
        """Start a record, or split the next task off an array that has more than one (SLURM.md 4.1)."""
        job = self._split(record) if len(record.tasks) > 1 else record
        if job.tasks:
            job.array_task, job.tasks = job.tasks[0], ()
        self.queue.drop(job.job_id)
        self.nodes.take(allocation)
        self.running_tasks[job.array_id] += 1
        job.state, job.partition, job.allocation = BaseState.RUNNING, partition, allocation
        job.say("None")
        job.start_s, job.suspended_s, job.suspend_from_s, job.planned_s = self.now_s, 0, 0, 0
        job.end_s = self.now_s + job.spec.time_limit_s
        job.stamp += 1
        self.clock.at(self.now_s + job.spec.run_s, self._runs_out, job)
        self.starts.append((self.now_s, job.job_id))
        return job

    def _split(self, record: Job) -> Job:
        task = replace(record, job_id=next(self._ids), tasks=record.tasks[:1], unmet=set())
        record.tasks = record.tasks[1:]
        self.jobs[task.job_id] = task
        return task

    def _runs_out(self, job: Job) -> None:
        in_time = job.spec.duration_s <= job.spec.time_limit_s
        self.finish(job, BaseState.COMPLETED if in_time else BaseState.TIMEOUT)

    def suspend(self, job: Job) -> None:
        """Stop a running job where it is; it shows priority 0 (SLURM.md 5.1)."""
        job.state, job.suspend_from_s = BaseState.SUSPENDED, self.now_s
        job.stamp += 1

    def resume(self, job: Job) -> None:
        """Let it go on."""
        ran_s = job.suspend_from_s - job.start_s - job.suspended_s
        job.suspended_s += self.now_s - job.suspend_from_s
        job.state, job.suspend_from_s = BaseState.RUNNING, self.now_s
        job.end_s = job.start_s + job.suspended_s + job.spec.time_limit_s
        self.clock.at(self.now_s + job.spec.run_s - ran_s, self._runs_out, job)

    def finish(self, job: Job, state: int) -> None:
        """End a record, whether it waited or ran."""
        self.queue.drop(job.job_id)
        self._leave_nodes(job, state)
        if job.array_id:
            self._tasks_left[job.array_id] -= max(1, len(job.tasks))
        job.state, job.end_s = state, self.now_s
        job.stamp += 1
        self._ended.append(job)
        if job.allocation is not None and self.rules.epilog_s:
            job.state |= COMPLETING
            self.nodes.epilogs[job.allocation.rows] += 1
            self.clock.at(self.now_s + self.rules.epilog_s, self._epilog_over, job)
        self._tell_dependents(job, state)
        self.changed()

    def _leave_nodes(self, job: Job, state: int) -> None:
        """Give back what it holds and note the run."""
        if job.allocation is None:
            return
        if job.state == BaseState.SUSPENDED:
            job.suspended_s += self.now_s - job.suspend_from_s
        self.nodes.give_back(job.allocation)
        self.running_tasks[job.array_id] -= 1
        self.ended_runs.append(self.run_of(replace(job), self.now_s, state))

    def run_of(self, job: Job, end_s: int, state: int) -> Run:
        """Return the present run of a record."""
        assert job.allocation is not None
        resources = self.nodes.sums(job.allocation.amounts).sum(axis=0)
        return Run(job, job.start_s, end_s, job.suspended_s, resources, len(job.allocation.rows), state)

    def _epilog_over(self, job: Job) -> None:
        assert job.allocation is not None
        job.state &= ~COMPLETING
        self.nodes.epilogs[job.allocation.rows] -= 1
        self.changed()

    def _tell_dependents(self, job: Job, state: int) -> None:
        parent_id = job.array_id or job.job_id
        if job.array_id and self._tasks_left[job.array_id] > 0:
            return
        for child in self._waiting_for.pop(parent_id, []):
            kind = next(after.kind for after in child.spec.after if after.job_id == parent_id)
            if kind == "any" or state == BaseState.COMPLETED:
                child.unmet.discard(parent_id)
            else:
                child.doomed = True
            self.settle(child)

    def requeue(self, job: Job, ended: int = STATE_FLAGS["REQUEUED"]) -> None:
        """Put a running job back, its run ended in a state: it keeps pin, tag, site factor, and a hold that came while it ran (SLURM.md 2.2, 13)."""
        self._leave_nodes(job, ended)
        job.allocation, job.partition = None, ""
        job.state = BaseState.PENDING
        job.submit_s = self.now_s + 1  # so that accounting keeps the runs apart
        job.begin_s = job.eligible_s = self.now_s + self.rules.requeue_delay_s
        job.start_s = job.end_s = job.suspended_s = job.suspend_from_s = 0
        job.restarts += 1
        job.stamp += 1
        if job.array_id:
            job.tasks = (job.array_task,)
        if job.priority:
            job.say("None")
            self.reprice(job)
        else:
            job.eligible_s = 0
        self.settle(job)
        self.changed()

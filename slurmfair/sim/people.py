"""Those who work on a simulated cluster besides the daemon. Answers are Slurm's error numbers, 0 for success."""

from __future__ import annotations

from dataclasses import dataclass

from slurmfair.sim.controller import Controller
from slurmfair.sim.job import Job
from slurmfair.sim.updates import ALREADY_OVER, UNKNOWN_JOB, hold, refusal, release, touched, update
from slurmfair.slurm.faults import ACCESS_DENIED, ANY_ERROR, NOT_PERSISTENT
from slurmfair.slurm.parse import BaseState, Tag
from slurmfair.slurm.requests import HOLD, RELEASE, Request

NOT_RUNNING, ALREADY_PENDING, NO_REQUEUE = 2021, 2024, 2037


@dataclass(frozen=True, slots=True)
class Owner:
    """A job's owner, without any rights beyond."""

    ctl: Controller

    def cancel(self, job_id: int) -> int:
        """scancel; of an array the record with that id."""
        job = self.ctl.jobs.get(job_id)
        if job is None or job.over:
            return UNKNOWN_JOB if job is None else ALREADY_OVER
        self.ctl.finish(job, BaseState.CANCELLED)
        return 0

    def hold(self, job_id: int) -> int:
        """scontrol hold; on top of an administrator's hold nothing is recorded."""
        if error := refusal(self.ctl, job_id):
            return error
        job = self.ctl.jobs[job_id]
        if job.reason != "JobHeldAdmin":
            hold(job, "JobHeldUser")
            touched(self.ctl, job)
        return 0

    def release(self, job_id: int) -> int:
        """scontrol release: only a user hold, and not while the gate's guard refuses it (SLURM.md 3.2)."""
        if error := refusal(self.ctl, job_id):
            return error
        job = self.ctl.jobs[job_id]
        if not job.held:
            return 0
        if self.ctl.gated and job.tag in (Tag.GATE, Tag.HOLD):
            return ANY_ERROR
        if job.reason != "JobHeldUser":
            return ACCESS_DENIED
        release(self.ctl, job)
        touched(self.ctl, job)
        return 0

    def set_priority(self, job_id: int, priority: int) -> int:
        """A lower value is applied although the call fails; on a pinned job it stays (SLURM.md 1.4)."""
        if error := refusal(self.ctl, job_id):
            return error
        job = self.ctl.jobs[job_id]
        if 0 < priority < job.priority:
            job.priority = priority
            self.ctl.settle(job)
        return NOT_PERSISTENT

    def set_nice(self, job_id: int, nice: int) -> int:
        """An owner may only sink a job."""
        if error := refusal(self.ctl, job_id):
            return error
        if nice < 0:
            return ACCESS_DENIED
        job = self.ctl.jobs[job_id]
        job.nice = nice
        touched(self.ctl, job)
        return 0


@dataclass(frozen=True, slots=True)
class Admin:
    """An administrator who is not the daemon, and what happens to nodes."""

    ctl: Controller

    def hold(self, job_id: int) -> int:
        """scontrol hold."""
        return update(self.ctl, job_id, Request(priority=HOLD))

    def uhold(self, job_id: int) -> int:
        """scontrol uhold: a hold that the owner can undo."""
        if error := refusal(self.ctl, job_id):
            return error
        hold(self.ctl.jobs[job_id], "JobHeldUser")
        touched(self.ctl, self.ctl.jobs[job_id])
        return 0

    def release(self, job_id: int) -> int:
        """scontrol release."""
        return update(self.ctl, job_id, Request(priority=RELEASE))

    def set_priority(self, job_id: int, priority: int) -> int:
        """scontrol update priority=: pins it."""
        return update(self.ctl, job_id, Request(priority=priority))

    def requeue(self, job_id: int, held: bool = False) -> int:
        """scontrol requeue, or requeuehold."""
        job = self.ctl.jobs.get(job_id)
        if job is None:
            return UNKNOWN_JOB
        if job.waits:
            return ALREADY_PENDING
        if job.base not in (BaseState.RUNNING, BaseState.SUSPENDED):
            return NOT_RUNNING
        if not job.spec.requeue:
            return NO_REQUEUE
        self.ctl.requeue(job)
        if held:
            self._held_by_slurm(job, "job requeued in held state")
        return 0

    def fail_launch(self, job_id: int) -> None:
        """A prolog fails: the job is requeued and held, its node drained (SLURM.md 14)."""
        job = self.ctl.jobs[job_id]
        assert job.allocation is not None
        self.ctl.nodes.drained[job.allocation.rows[:1]] = True
        self.ctl.requeue(job)
        self._held_by_slurm(job, "launch failed requeued held")

    def _held_by_slurm(self, job: Job, text: str) -> None:
        self.uhold(job.job_id)
        job.say("JobHeldUser", text)

    def suspend(self, job_id: int) -> None:
        """scontrol suspend."""
        self.ctl.suspend(self.ctl.jobs[job_id])

    def resume(self, job_id: int) -> None:
        """scontrol resume."""
        self.ctl.resume(self.ctl.jobs[job_id])

    def gate(self, *partitions: str) -> None:
        """Set for which partitions the submit gate holds new jobs; none is a stale heartbeat."""
        self.ctl.gated = frozenset(partitions)

    def lose_node(self, name: str) -> None:
        """A node goes down: its jobs are requeued, or fail where they must not be."""
        row = self.ctl.nodes.row[name]
        self.ctl.nodes.up[row] = False
        for job in list(self.ctl.jobs.values()):
            if job.allocation is None or job.over or row not in job.allocation.rows:
                continue
            if job.spec.requeue:
                self.ctl.requeue(job, BaseState.NODE_FAIL)
            else:
                self.ctl.finish(job, BaseState.NODE_FAIL)

    def drain_node(self, name: str) -> None:
        """scontrol update nodename= state=drain."""
        self.ctl.nodes.drained[self.ctl.nodes.row[name]] = True

    def reserve_node(self, name: str) -> None:
        """Put a node into a reservation that has begun."""
        self.ctl.nodes.apart[self.ctl.nodes.row[name]] = True

    def resume_node(self, name: str) -> None:
        """scontrol update nodename= state=resume; ends a reservation too."""
        nodes, row = self.ctl.nodes, self.ctl.nodes.row[name]
        nodes.up[row], nodes.drained[row], nodes.apart[row] = True, False, False
        self.ctl.changed()

    def set_partition(self, name: str, up: bool) -> None:
        """scontrol update partitionname= state=up or down."""
        self.ctl.partitions[name].up = up
        for job in list(self.ctl.jobs.values()):
            if job.waits and name in job.spec.partitions:
                self.ctl.settle(job)

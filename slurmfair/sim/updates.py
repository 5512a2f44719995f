"""What Slurm makes of an update of a job (SLURM.md 1, 2, 7, 9, 10). Answers are Slurm's error numbers, 0 for success."""

from __future__ import annotations

from typing import Literal

from slurmfair.sim.controller import Controller
from slurmfair.sim.job import Job
from slurmfair.sim.waiting import OBSTACLES, computed
from slurmfair.slurm.faults import ACCESS_DENIED, CRON_JOB, HELD, NOT_PERSISTENT
from slurmfair.slurm.parse import BaseState
from slurmfair.slurm.requests import HOLD, RELEASE, Request

Level = Literal["None", "Operator", "Administrator"]

UNKNOWN_JOB, ALREADY_OVER = 2017, 2084
NOT_GIVEN = 0xFFFFFFFE
KEEPS_ITS_REASON = OBSTACLES - {"BeginTime", "PartitionConfig"} | {"JobHeldUser", "JobHeldAdmin"}


def update(ctl: Controller, job_id: int, request: Request, level: Level = "Administrator") -> int:
    """Carry out a request of somebody with the given AdminLevel."""
    if error := refusal(ctl, job_id):
        return error
    job = ctl.jobs[job_id]
    if request.cancel:
        if job.waits:
            ctl.finish(job, BaseState.CANCELLED)
        return 0
    if request.admin_comment is not None and level != "Administrator":
        return ACCESS_DENIED  # comes first, so nothing of the request is applied
    if level == "None":
        return NOT_PERSISTENT if request.priority is not None else ACCESS_DENIED
    if job.held and request.priority not in (None, HOLD, RELEASE, NOT_GIVEN):
        return HELD
    if request.admin_comment:  # an empty one is not sent
        job.admin_comment = request.admin_comment
    if request.site_factor is not None:
        job.site_factor = request.site_factor
    if request.array_tasks is not None and job.array_id:
        ctl.throttles[job.array_id] = request.array_tasks
    if request.priority is not None:
        _set_priority(ctl, job, request.priority)
    touched(ctl, job)
    return 0


def refusal(ctl: Controller, job_id: int) -> int:
    """Return why a job takes no update at all, 0 if it does."""
    if job_id not in ctl.jobs:
        return UNKNOWN_JOB
    job = ctl.jobs[job_id]
    if job.over:
        return ALREADY_OVER
    return CRON_JOB if job.spec.cron else 0


def _set_priority(ctl: Controller, job: Job, priority: int) -> None:
    if priority == HOLD:
        hold(job, "JobHeldAdmin")
    elif priority == RELEASE:
        release(ctl, job)
    elif priority not in (NOT_GIVEN, job.priority):  # the present value again pins nothing
        job.priority, job.pinned, job.nice = priority, True, 0


def hold(job: Job, reason: str) -> None:
    """Set priority 0; on a running job too, where it takes effect at a requeue."""
    job.priority, job.pinned = 0, False
    job.say(reason)
    if job.waits:
        job.eligible_s = 0


def release(ctl: Controller, job: Job) -> None:
    """Clear hold and pin, and compute the priority anew; dependency and begin time stay."""
    job.pinned, job.priority = False, computed(ctl, job)
    job.say("None")


def touched(ctl: Controller, job: Job) -> None:
    """Every update blanks the reason until the next pass, computes the priority, and asks for a pass."""
    if job.reason not in KEEPS_ITS_REASON:
        job.say("None")
    ctl.reprice(job)
    ctl.settle(job)
    ctl.changed()

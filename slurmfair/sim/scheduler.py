"""Slurm's two schedulers: the strict main pass, and backfill, which plans with time limits (SLURM.md 6)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from slurmfair.model import Bools
from slurmfair.sim.job import Job
from slurmfair.sim.lookahead import Lookahead
from slurmfair.sim.waiting import startable_tasks

if TYPE_CHECKING:
    from slurmfair.sim.controller import Controller

UNUSABLE = "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions"


def main_pass(ctl: Controller, depth: int) -> None:
    """Start jobs strictly by tier and priority; `depth` bounds the attempts.

    When a job cannot start, the nodes of its partition are closed to the rest of the pass, for jobs of other
    partitions too. Heterogeneous jobs are left to backfill, and close their partition as well.
    """
    closed = np.zeros(len(ctl.nodes.specs), np.bool_)
    shut: set[str] = set()
    attempts = 0
    for _, _, job_id, partition in ctl.queue.entries():
        job = ctl.jobs[job_id]
        if not job.waits:
            continue  # started in another partition
        job.eligible_s = job.eligible_s or ctl.now_s
        if partition in shut:
            _explain(job, "Priority")
            continue
        attempts += 1
        if attempts > depth:
            break
        if job.het_id or not _start_tasks(ctl, job, partition, closed):
            shut.add(partition)
            closed |= ctl.nodes.members[partition]


def _start_tasks(ctl: Controller, job: Job, partition: str, closed: Bools) -> bool:
    """Start as many tasks as may and fit; tell whether the pass may go on in this partition."""
    nodes = ctl.nodes
    while job.waits:
        if not startable_tasks(ctl, job):
            job.say("JobArrayTaskLimit")
            return True
        allowed = nodes.members[partition] & nodes.usable
        rows = nodes.place(job.spec, allowed & ~closed, nodes.free)
        if rows is None:
            elsewhere = nodes.place(job.spec, allowed, nodes.free) is not None
            down = int((nodes.members[partition] & nodes.sound).sum()) < job.spec.nodes
            job.say("Resources", UNUSABLE if elsewhere or down else "")
            return False
        ctl.start(job, nodes.allocation(job.spec, rows, nodes.free), partition)
    return True


def _explain(job: Job, reason: str) -> None:
    if job.reason == "None":
        job.say(reason)


def backfill_pass(ctl: Controller) -> int:
    """Start every job that by its time limit delays no job with a reservation in front of it; return how many.

    A job that cannot start gets a reservation on whole nodes, if it could start within the window. Array
    tasks count singly. Held jobs are not in the queue, so they do not count in the depth.
    """
    plan = Lookahead(ctl)
    tested = started = 0
    het_seen: set[int] = set()
    for _, _, job_id, partition in ctl.queue.entries():
        if tested >= ctl.rules.bf_max_job_test:
            break
        job = ctl.jobs[job_id]
        if not job.waits or job.het_id in het_seen:
            continue
        if job.het_id:
            het_seen.add(job.het_id)
        group = _het_group(ctl, job) if job.het_id else [(job, partition)]
        tries = 1 if job.het_id else min(startable_tasks(ctl, job), ctl.rules.bf_max_job_array_resv)
        for _ in range(tries if group else 0):
            tested += len(group)
            started += plan.start_or_reserve(group)
    return started


def _het_group(ctl: Controller, job: Job) -> list[tuple[Job, str]]:
    """Return all components with a partition each, [] unless every one of them may start."""
    parts = [other for other in ctl.jobs.values() if other.het_id == job.het_id]
    if not all(other.waits and other.job_id in ctl.queue for other in parts):
        return []
    return [(other, other.spec.partitions[0]) for other in parts]

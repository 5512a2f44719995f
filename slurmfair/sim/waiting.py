"""Why a waiting record is not tried at all, where it may run, and its priority."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slurmfair.sim.job import Job
from slurmfair.slurm.parse import INFINITE

if TYPE_CHECKING:
    from slurmfair.sim.controller import Controller

OBSTACLES = {
    "Dependency", "DependencyNeverSatisfied", "BeginTime", "Reservation", "PartitionDown", "PartitionConfig",
}  # fmt: skip


def obstacle(ctl: Controller, job: Job) -> str:
    """Return the reason why an unheld pending record is not even tried, "" for none."""
    if job.unmet:
        return "DependencyNeverSatisfied" if job.doomed else "Dependency"
    if job.begin_s > ctl.now_s:
        return "BeginTime"
    if job.spec.reservation:
        return "Reservation"
    if not any(ctl.partitions[name].up for name in job.spec.partitions):
        return "PartitionDown"
    return "" if open_partitions(ctl, job) else "PartitionConfig"


def open_partitions(ctl: Controller, job: Job) -> list[tuple[int, str]]:
    """Return tier and name of the partitions that are up and have enough nodes for it."""
    return [
        (ctl.partitions[name].tier, name)
        for name in job.spec.partitions
        if ctl.partitions[name].up and int(ctl.nodes.members[name].sum()) >= job.spec.nodes
    ]


def startable_tasks(ctl: Controller, job: Job) -> int:
    """Return how many tasks of a waiting record may start: the throttle counts running ones."""
    throttle = ctl.throttle(job)
    if not job.tasks or not throttle:
        return len(job.tasks) or 1
    return max(0, min(len(job.tasks), throttle - ctl.running_tasks[job.array_id]))


def computed(ctl: Controller, job: Job) -> int:
    """Return the multifactor priority: site factor, less nice, plus Slurm's own factors, at least 1 (SLURM.md 7)."""
    weights = ctl.rules.weights
    own = sum(weight * job.spec.factors.get(name, 0.0) for name, weight in weights.items() if name != "Age")
    if 0 < job.eligible_s <= ctl.now_s:
        own += weights.get("Age", 0) * min(1.0, (ctl.now_s - job.eligible_s) / ctl.rules.max_age_s)
    return min(max(1, job.site_factor - job.nice + int(own)), INFINITE)

"""Laws of the simulated cluster that hold whatever its people do."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from slurmfair.model import Change
from slurmfair.sim import JobSpec, Rules, SimCluster
from slurmfair.slurm.parse import BaseState
from tests.sim_lab import lab

JOB = st.builds(
    JobSpec,
    partition=st.sampled_from(["train", "interactive", "train,interactive"]),
    gpus=st.integers(0, 8),
    gpu_type=st.sampled_from(["", "", "h100"]),
    nodes=st.integers(1, 3),
    exclusive=st.sampled_from([False, False, True]),
    duration_s=st.integers(1, 500),
    time_limit_s=st.integers(1, 500),
    array=st.sampled_from([(), (), (0, 1, 2, 3)]),
    throttle=st.integers(0, 2),
    hold=st.booleans(),
    requeue=st.booleans(),
)
ACTS = (
    "cancel", "hold", "release", "write", "tag", "rank", "requeue", "suspend", "lose", "back", "drain", "het",
)  # fmt: skip


def act(sim: SimCluster, what: str, spec: JobSpec, pick: int) -> None:
    """Do one thing to the job or node that `pick` falls on."""
    ids = sorted(sim.ctl.jobs)
    job_id = ids[pick % len(ids)]
    node = f"gpu0{1 + pick % 4}"
    match what:
        case "cancel":
            sim.owner.cancel(job_id)
        case "hold":
            sim.owner.hold(job_id)
        case "release":
            sim.owner.release(job_id)
        case "write":
            sim.write(Change(job_id, hold=True, tag="slurmfair:hold"))
        case "tag":
            sim.write(Change(job_id, release=True, rank=1 + pick % 50, tag="slurmfair:free"))
        case "rank":
            sim.write(Change(job_id, rank=1 + pick % 50))
        case "requeue":
            sim.admin.requeue(job_id)
        case "suspend" if sim.job(job_id).state == BaseState.RUNNING:
            sim.admin.suspend(job_id)
        case "suspend" if sim.job(job_id).state == BaseState.SUSPENDED:
            sim.admin.resume(job_id)
        case "lose":
            sim.admin.lose_node(node)
        case "back":
            sim.admin.resume_node(node)
        case "drain":
            sim.admin.drain_node(node)
        case "het":
            sim.submit_het([spec, JobSpec(gpus=1)])


def assert_sound(sim: SimCluster) -> None:
    """Nothing is used twice, and the queue holds exactly what may start."""
    ctl = sim.ctl
    assert (ctl.nodes.free >= 0).all() and (ctl.nodes.free <= ctl.nodes.total).all()
    running = [j for j in ctl.jobs.values() if j.base in (BaseState.RUNNING, BaseState.SUSPENDED)]
    held = sum(
        (j.allocation.amounts.sum(axis=0) for j in running if j.allocation), np.zeros_like(ctl.nodes.total[0])
    )
    assert ((ctl.nodes.total - ctl.nodes.free).sum(axis=0) == held).all()
    for job in ctl.jobs.values():
        wide = job.spec.partition != "interactive" or job.spec.nodes <= 2
        may_start = job.waits and job.priority > 0 and job.begin_s <= ctl.now_s and wide
        assert (job.job_id in ctl.queue) == may_start
        assert not job.waits or (job.allocation is None and job.start_s == 0)
    for entry in ctl.queue.entries():
        assert -entry[1] == ctl.jobs[entry[2]].priority
    assert list(ctl.queue.entries()) == sorted(ctl.queue.entries())


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.tuples(JOB, st.sampled_from(ACTS), st.integers(0, 10**6), st.integers(0, 90)), max_size=25),
    st.sampled_from([0, 15]),
)
def test_whatever_people_do_nothing_is_used_twice_and_the_queue_is_right(
    course: list[tuple[JobSpec, str, int, int]], epilog_s: int
) -> None:
    sim = lab(Rules(epilog_s=epilog_s, requeue_delay_s=20))
    for spec, what, pick, wait_s in course:
        if spec.nodes * 8 >= spec.gpus:
            sim.submit(spec)
        if sim.ctl.jobs:
            act(sim, what, spec, pick)
        assert_sound(sim)
        sim.advance(wait_s)
        assert_sound(sim)
        reading = sim.read()
        assert (reading.nodes.used >= 0).all()
    ran = {job_id for _, job_id in sim.starts}
    assert ran == set(sim.runs(0, sim.now_s + 1).job_id.tolist())


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 8), st.integers(1, 30)), min_size=1, max_size=20))
def test_without_backfill_no_job_of_a_partition_starts_before_a_higher_one(
    asked: list[tuple[int, int]],
) -> None:
    sim = lab(Rules(backfill=False))
    ids = [sim.submit(JobSpec(gpus=gpus, duration_s=300)) for gpus, _ in asked]
    for job_id, (_, rank) in zip(ids, asked, strict=True):
        sim.write(Change(job_id, rank=rank))
    sim.advance(10_000)
    order = [job_id for _, job_id in sim.starts]
    assert order == sorted(ids, key=lambda job_id: (-asked[job_id - 1][1], job_id))

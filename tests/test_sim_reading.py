"""What the simulated cluster shows: the columns of a reading, settings and runs."""

from __future__ import annotations

import numpy as np

from slurmfair.model import FOREVER_S
from slurmfair.sim import JobSpec, Rules
from slurmfair.sim.tables import ranged, tasks_text
from slurmfair.slurm.cluster import Cluster
from slurmfair.slurm.parse import BaseState, count_tasks
from tests.sim_lab import fill, lab, submit, write


def test_it_is_a_cluster() -> None:
    cluster: Cluster = lab()
    cluster.close()
    assert cluster.read().cluster == cluster.settings().cluster == "simulated"


def test_an_empty_cluster_reads_as_empty_tables_with_all_nodes() -> None:
    reading = lab().read()
    assert len(reading.jobs) == 0
    assert reading.jobs.wanted.shape == reading.jobs.held_resources.shape == (0, 3)
    assert reading.nodes.name == ("cpu01", "gpu01", "gpu02", "gpu03", "gpu04")
    assert reading.nodes.total[:, 0].tolist() == [0, 8, 8, 8, 8]
    assert reading.nodes.gpu_types[4] == (("a100", 4), ("h100", 4))
    assert {p.name: len(p.nodes) for p in reading.partitions} == {"cpu": 1, "interactive": 2, "train": 4}


def test_a_waiting_job_reads_as_its_user_asked() -> None:
    sim = lab()
    fill(sim, 8, 8, 8, 8)
    submit(sim, user="bob", account="llm", gpus=8, nodes=2, cpus=16, mem_mib=4096, comment="prio=3", rank=70)
    sim.advance(40)
    jobs = sim.read().jobs
    row = len(jobs) - 1
    assert (jobs.user[row], jobs.account[row], jobs.partition[row], jobs.comment[row]) == (
        "bob",
        "llm",
        "train",
        "prio=3",
    )
    assert jobs.wanted[row].tolist() == [8, 16, 4096]
    assert jobs.held_resources[row].tolist() == [0, 0, 0]
    assert (jobs.nodes_wanted[row], jobs.priority[row], jobs.site_factor[row]) == (2, 70, 70)
    assert (jobs.state[row], jobs.reason[row], jobs.nodes[row]) == (BaseState.PENDING, "Resources", "")
    assert (jobs.time_limit_s[row], jobs.tasks_waiting[row], jobs.array_task[row]) == (FOREVER_S, 1, -1)


def test_a_running_job_reads_with_what_it_holds_and_where() -> None:
    sim = lab()
    submit(sim, gpus=16, nodes=2, partition="interactive,train")
    sim.advance(5)
    reading = sim.read()
    assert reading.jobs.held_resources.tolist() == [[16, 1, 1]]
    assert (reading.jobs.nodes[0], reading.jobs.partition[0]) == ("gpu[01-02]", "interactive")
    assert reading.nodes.used[1:3, 0].tolist() == [8, 8]
    assert reading.nodes.gpu_used[1] == (("h100", 8),)


def test_an_array_reads_as_one_record_with_its_waiting_tasks() -> None:
    sim = lab()
    submit(sim, gpus=2, array=(0, 1, 2, 3, 7, 9), throttle=2)
    jobs = sim.read().jobs
    assert (jobs.tasks_waiting[0], jobs.tasks_throttle[0], jobs.task_list[0]) == (6, 2, "0-3,7,9%2")
    assert jobs.wanted[0].tolist() == [2, 1, 1]
    sim.advance(5)
    jobs = sim.read().jobs
    assert jobs.task_list[0] == "2-3,7,9%2"
    assert jobs.array_task.tolist() == [-1, 0, 1]
    assert jobs.array_id.tolist() == [1, 1, 1]


def test_task_lists_and_node_lists_have_slurms_form() -> None:
    assert tasks_text((5,), 0) == "5"
    assert count_tasks(tasks_text((*range(40), 50, 60, 61), 3)) == 43
    assert ranged(["gpu01"]) == "gpu01"
    assert ranged(["gpu08", "gpu09", "gpu10", "gpu12"]) == "gpu[08-10,12]"
    assert ranged(["a1", "a2", "login"]) == "a[1-2],login"


def test_a_suspended_job_keeps_its_gpus_and_shows_priority_0() -> None:
    sim = lab()
    job_id = submit(sim, gpus=2, rank=500)
    sim.advance(5)
    sim.admin.suspend(job_id)
    jobs = sim.read().jobs
    assert (jobs.state[0], jobs.priority[0], jobs.held_resources[0, 0]) == (BaseState.SUSPENDED, 0, 2)


def test_states_of_nodes_say_who_counts_and_who_is_free() -> None:
    sim = lab()
    fill(sim, 8)
    for act, name in (
        (sim.admin.drain_node, "gpu01"),
        (sim.admin.drain_node, "gpu02"),
        (sim.admin.lose_node, "gpu03"),
        (sim.admin.reserve_node, "gpu04"),
    ):
        act(name)
    nodes = sim.read().nodes
    assert nodes.state[1:] == ("MIXED+DRAIN", "IDLE+DRAIN", "DOWN", "IDLE+RESERVED")
    assert nodes.counts[1:].tolist() == [False] * 4
    assert nodes.draining[1:].tolist() == [True, False, False, False]
    assert nodes.free.tolist() == [True, False, False, False, False]


def test_runs_keep_every_run_of_a_requeued_job() -> None:
    sim = lab()
    job_id = submit(sim, gpus=2, duration_s=1000)
    start_s = sim.now_s
    sim.advance(101)
    sim.admin.requeue(job_id)
    sim.advance(300)
    runs = sim.runs(start_s, sim.now_s)
    assert runs.job_id.tolist() == [job_id, job_id]
    assert runs.resources[:, 0].tolist() == [2, 2]
    assert (runs.end_s - runs.start_s)[0] == 100
    assert runs.end_s[1] == 0
    assert len(sim.runs(start_s + 200, start_s + 220)) == 0


def test_suspended_time_stands_apart_in_runs() -> None:
    sim = lab()
    job_id = submit(sim, duration_s=100)
    sim.advance(11)
    sim.admin.suspend(job_id)
    sim.advance(50)
    sim.admin.resume(job_id)
    sim.advance(500)
    runs = sim.runs(0, sim.now_s)
    assert (runs.suspended_s[0], runs.end_s[0] - runs.start_s[0]) == (50, 150)


def test_progress_of_a_query_reaches_1() -> None:
    heard: list[float] = []
    lab().runs(0, 1, heard.append)
    assert heard[-1] == 1.0


def test_settings_tell_the_weights() -> None:
    settings = lab(Rules(weights={"Age": 1000, "QOS": 500})).settings()
    assert settings.weight_sum == 1500
    assert "gres/gpu:h100" in settings.tracked


def test_a_longer_limit_becomes_the_partitions_max_time() -> None:
    sim = lab(Rules(max_time_s=600))
    assert sim.job(submit(sim)).spec.time_limit_s == 600
    assert {partition.max_min for partition in sim.settings().partitions} == {10}


def test_every_write_that_arrives_is_counted() -> None:
    sim = lab()
    job_id = submit(sim)
    write(sim, job_id, rank=5, why="test")
    write(sim, 77, rank=5)
    assert [change.job_id for change in sim.writes] == [job_id, 77]


def test_thousands_of_jobs_are_no_burden() -> None:
    """Counts, not time: 800 jobs all run, hundreds of them waiting at once, and all is given back."""
    sim = lab(Rules(bf_job_part_count_reserve=5))
    rng = np.random.default_rng(1)
    for _ in range(800):
        sim.submit(
            JobSpec(gpus=int(rng.integers(1, 9)), duration_s=int(rng.integers(10, 600)), time_limit_s=900)
        )
        sim.advance(int(rng.integers(0, 60)))
    sim.advance(10**6)
    assert len(sim.starts) == 800
    assert not (sim.read().nodes.used > 0).any()

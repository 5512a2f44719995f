"""Who starts when in the simulated cluster: statements of SLURM.md 3, 4, 6 and 12 that were tried on the real one."""

from __future__ import annotations

import pytest

from slurmfair.sim import After, JobSpec, Rules
from slurmfair.slurm.parse import BaseState
from tests.sim_lab import HOUR_S, fill, lab, started, submit, write

NO_BACKFILL = Rules(backfill=False)


def test_a_batch_job_is_pending_first_and_starts_one_second_later() -> None:
    sim = lab()
    job_id = submit(sim)
    assert sim.job(job_id).state == BaseState.PENDING
    sim.advance(1)
    assert sim.job(job_id).state == BaseState.RUNNING


def test_jobs_start_strictly_by_priority_as_slots_fall_free() -> None:
    sim = lab()
    fill(sim, 8, 8, 8, 8, duration_s=100)
    ids = [submit(sim, rank=rank, gpus=8, duration_s=50) for rank in (1000, 9000, 5000, 7000, 3000, 8000)]
    sim.advance(400)
    order = [job_id for job_id in started(sim) if job_id in ids]
    assert order == [ids[1], ids[5], ids[3], ids[2], ids[4], ids[0]]


def three_nodes_full(rules: Rules | None = None) -> tuple[dict[str, int], list[str]]:
    """Repeat the experiment of SLURM.md 6: three nodes full for an hour; return ids and who has started after 5 min."""
    sim = lab(rules)
    fill(sim, 8, 8, 8)
    asked = {
        "HEAD": {"rank": 5000, "nodes": 2, "gpus": 16, "time_limit_s": HOUR_S},
        "L120": {"rank": 4900, "gpus": 8, "time_limit_s": 2 * HOUR_S},
        "QB120": {"rank": 4800, "gpus": 8, "time_limit_s": 2 * HOUR_S, "partition": "interactive"},
        "L30": {"rank": 4700, "gpus": 8, "time_limit_s": HOUR_S // 2},
    }
    ids = {name: submit(sim, **what) for name, what in asked.items()}
    sim.advance(300)
    return ids, [name for name, job_id in ids.items() if job_id in started(sim)]


def test_backfill_starts_a_lower_job_on_the_free_node_while_the_head_waits() -> None:
    assert three_nodes_full()[1] == ["L120"]


def test_without_backfill_nothing_starts_behind_a_blocked_head_and_the_node_idles() -> None:
    assert three_nodes_full(NO_BACKFILL)[1] == []


def test_a_blocked_head_closes_its_nodes_to_other_partitions_too_until_it_is_held() -> None:
    sim = lab(NO_BACKFILL)
    fill(sim, 8)
    head = submit(sim, rank=5000, nodes=4, gpus=32)
    other = submit(sim, rank=4000, gpus=8, partition="interactive")
    sim.advance(100)
    assert other not in started(sim)
    assert sim.job(head).reason == "Resources"
    write(sim, head, hold=True)
    sim.advance(5)
    assert other in started(sim)


def test_partition_tier_beats_priority() -> None:
    sim = lab(interactive=10)
    ids = fill(sim, 8, 8, 8, 8, duration_s=50)
    low = submit(sim, rank=5000, gpus=8)
    high = submit(sim, rank=10, gpus=8, partition="interactive")
    sim.advance(60)
    assert started(sim)[len(ids) :] == [high, low]


def test_a_big_head_keeps_its_planned_start_while_a_short_job_uses_a_node_in_between() -> None:
    sim = lab()
    fill(sim, 8, duration_s=600)
    fill(sim, 8, 8, 8, duration_s=HOUR_S)
    head = submit(sim, rank=5000, nodes=3, gpus=24, time_limit_s=HOUR_S)
    sim.advance(620)
    planned_s = sim.job(head).planned_s
    short = submit(sim, rank=100, gpus=8, time_limit_s=600, duration_s=600)
    sim.advance(60)
    assert short in started(sim)
    assert sim.job(head).planned_s == planned_s
    sim.advance(HOUR_S)
    assert (planned_s, head) in sim.starts or (planned_s + 1, head) in sim.starts


def test_a_later_job_that_would_delay_the_reserved_one_does_not_start() -> None:
    sim = lab()
    fill(sim, 8, 8, 8, duration_s=HOUR_S)
    head = submit(sim, rank=5000, nodes=4, gpus=32, time_limit_s=HOUR_S)
    long = submit(sim, rank=4000, gpus=8, time_limit_s=2 * HOUR_S)
    short = submit(sim, rank=3000, gpus=8, time_limit_s=HOUR_S // 2)
    sim.advance(100)
    assert short in started(sim)
    assert long not in started(sim) and head not in started(sim)


def test_held_jobs_do_not_count_in_the_depth_of_backfill() -> None:
    sim = lab(Rules(bf_max_job_test=5, queue_depth=5))
    fill(sim, 8, 8, 8)
    blocked = [submit(sim, rank=5000 + i, nodes=2, gpus=16, time_limit_s=60) for i in range(10)]
    last = submit(sim, rank=10, gpus=8, time_limit_s=60)
    sim.advance(100)
    assert last not in started(sim)
    for job_id in blocked[:6]:
        write(sim, job_id, hold=True)
    sim.advance(100)
    assert last in started(sim)


def test_a_reservation_beyond_the_backfill_window_is_not_made() -> None:
    sim = lab(Rules(bf_window_s=600))
    fill(sim, 8, duration_s=HOUR_S)
    head = submit(sim, rank=5000, nodes=4, gpus=32)
    long = submit(sim, rank=10, gpus=8)
    sim.advance(100)
    assert sim.job(head).planned_s == 0
    assert long in started(sim)


def test_a_started_array_task_is_split_off_with_a_new_id_and_the_remainder_keeps_the_arrays_id() -> None:
    sim = lab()
    fill(sim, 8, 8, 8, 6)
    array = submit(sim, gpus=1, array=tuple(range(6)))
    sim.advance(5)
    record = sim.job(array)
    assert (record.state, record.array_id, record.tasks) == (BaseState.PENDING, array, (2, 3, 4, 5))
    tasks = [sim.job(job_id) for job_id in started(sim)[-2:]]
    assert [(task.array_id, task.array_task) for task in tasks] == [(array, 0), (array, 1)]
    assert array not in {task.job_id for task in tasks}


def test_the_last_remaining_task_is_the_record_with_the_arrays_id() -> None:
    sim = lab()
    array = submit(sim, gpus=1, array=(3, 4, 5))
    sim.advance(5)
    assert (sim.job(array).state, sim.job(array).array_task) == (BaseState.RUNNING, 5)


def test_split_tasks_inherit_the_priority_at_that_moment() -> None:
    sim = lab()
    array = submit(sim, rank=400, gpus=1, array=(0, 1))
    sim.advance(5)
    assert sim.job(started(sim)[0]).priority == 400
    assert sim.job(started(sim)[0]).job_id != array


def test_a_throttled_array_reads_job_array_task_limit_and_blocks_nobody() -> None:
    sim = lab()
    array = submit(sim, rank=900, gpus=1, array=tuple(range(8)), throttle=2)
    other = submit(sim, rank=5, gpus=1)
    sim.advance(5)
    assert sim.job(array).reason == "JobArrayTaskLimit"
    assert len(started(sim)) == 3 and other in started(sim)


def test_hold_and_release_apply_to_all_waiting_tasks_while_running_ones_go_on() -> None:
    sim = lab()
    array = submit(sim, gpus=1, array=tuple(range(8)), throttle=2, duration_s=100)
    sim.advance(5)
    write(sim, array, hold=True)
    sim.advance(300)
    assert len(started(sim)) == 2
    write(sim, array, release=True)
    sim.advance(5)
    assert len(started(sim)) == 4


def test_only_backfill_starts_heterogeneous_jobs_and_all_components_at_once() -> None:
    sim = lab()
    ids = sim.submit_het([JobSpec(gpus=8), JobSpec(gpus=0, cpus=4, partition="cpu")])
    sim.advance(20)
    assert started(sim) == []
    sim.advance(20)
    assert started(sim) == ids
    assert len({time_s for time_s, _ in sim.starts}) == 1
    assert {sim.job(job_id).het_id for job_id in ids} == {ids[0]}


def test_a_heterogeneous_head_stops_the_main_scheduler_for_its_partition() -> None:
    sim = lab(NO_BACKFILL)
    sim.submit_het([JobSpec(), JobSpec(partition="cpu", gpus=0)])
    other = submit(sim)
    sim.advance(100)
    assert other not in started(sim)
    assert sim.job(other).reason == "Priority"


def test_holding_one_component_blocks_the_whole_heterogeneous_job() -> None:
    sim = lab()
    leader, second = sim.submit_het([JobSpec(), JobSpec()])
    write(sim, second, hold=True)
    sim.advance(100)
    assert started(sim) == []
    write(sim, second, release=True)
    sim.advance(60)
    assert started(sim) == [leader, second]


def test_a_job_of_two_partitions_runs_in_one_of_them_and_both_are_back_after_a_requeue() -> None:
    sim = lab()
    job_id = submit(sim, partition="interactive,train")
    sim.advance(5)
    assert sim.job(job_id).partition in ("interactive", "train")
    sim.admin.requeue(job_id)
    assert set(sim.job(job_id).spec.partitions) == {"interactive", "train"}
    sim.advance(200)
    assert started(sim) == [job_id, job_id]


def test_a_dependent_job_starts_after_its_parent_and_never_if_the_parent_failed() -> None:
    sim = lab()
    good, bad = submit(sim, duration_s=50), submit(sim, duration_s=500, time_limit_s=50)
    child, orphan = submit(sim, after=(After(good),)), submit(sim, after=(After(bad),))
    anyway = submit(sim, after=(After(bad, "any"),))
    sim.advance(60)
    assert child in started(sim) and anyway in started(sim)
    assert orphan not in started(sim)
    assert sim.job(orphan).reason == "DependencyNeverSatisfied"
    assert sim.job(bad).state == BaseState.TIMEOUT


def test_a_child_of_an_array_waits_for_its_last_task() -> None:
    sim = lab()
    array = submit(sim, gpus=1, array=(0, 1, 2), throttle=1, duration_s=50)
    child = submit(sim, after=(After(array),))
    sim.advance(150)
    assert child not in started(sim)
    sim.advance(10)
    assert child in started(sim)


def test_a_job_with_a_begin_time_starts_then() -> None:
    sim = lab()
    job_id = submit(sim, begin_s=sim.now_s + 500)
    sim.advance(499)
    assert started(sim) == []
    sim.advance(2)
    assert started(sim) == [job_id]


def test_a_partition_that_is_down_accepts_jobs_and_starts_none() -> None:
    sim = lab()
    sim.admin.set_partition("train", up=False)
    job_id = submit(sim)
    sim.advance(100)
    assert (sim.job(job_id).reason, started(sim)) == ("PartitionDown", [])
    sim.admin.set_partition("train", up=True)
    sim.advance(5)
    assert started(sim) == [job_id]


def test_a_lost_node_requeues_its_jobs_and_takes_none_until_it_is_back() -> None:
    sim = lab()
    safe, lost = submit(sim, gpus=8, gpu_type="h100"), submit(sim, gpus=8, requeue=False)
    sim.advance(5)
    sim.admin.lose_node("gpu01")
    sim.admin.lose_node("gpu02")
    assert sim.job(safe).state == BaseState.PENDING
    assert sim.job(lost).state == BaseState.NODE_FAIL
    more = [submit(sim, rank=rank, gpus=8) for rank in (30, 20, 10)]
    sim.advance(60)
    assert [job_id in started(sim) for job_id in more] == [True, True, False]
    sim.admin.resume_node("gpu01")
    sim.advance(5)
    assert more[2] in started(sim)


def test_a_drained_node_finishes_its_jobs_and_takes_no_new_one() -> None:
    sim = lab()
    first = submit(sim, gpus=8, duration_s=50)
    sim.advance(5)
    sim.admin.drain_node("gpu01")
    for _ in range(4):
        submit(sim, gpus=8, duration_s=1000)
    sim.advance(100)
    assert sim.job(first).state == BaseState.COMPLETED
    assert len(started(sim)) == 4


def test_a_suspended_job_runs_as_long_as_it_would_have() -> None:
    sim = lab()
    job_id = submit(sim, duration_s=100)
    sim.advance(31)
    sim.admin.suspend(job_id)
    assert sim.read().jobs.priority.tolist() == [0]
    sim.advance(500)
    sim.admin.resume(job_id)
    sim.advance(69)
    assert sim.job(job_id).state == BaseState.RUNNING
    sim.advance(1)
    job = sim.job(job_id)
    assert (job.state, job.suspended_s, job.end_s - job.start_s) == (BaseState.COMPLETED, 500, 600)


def test_a_cancelled_job_is_gone_whether_it_waited_or_ran() -> None:
    sim = lab()
    running = submit(sim, gpus=8, nodes=1)
    sim.advance(5)
    waiting = submit(sim, hold=True)
    assert sim.owner.cancel(running) == sim.owner.cancel(waiting) == 0
    assert sim.owner.cancel(running) == 2084
    assert not (sim.read().nodes.used > 0).any()


def test_slurm_forgets_ended_jobs_after_min_job_age() -> None:
    sim = lab()
    submit(sim, duration_s=10)
    sim.advance(200)
    assert len(sim.read().jobs) == 1
    sim.advance(200)
    assert len(sim.read().jobs) == 0


def test_a_node_takes_no_job_during_its_epilog() -> None:
    sim = lab(Rules(epilog_s=20))
    fill(sim, 8, 8, 8, duration_s=500)
    fill(sim, 8, duration_s=50)
    waiting = submit(sim, gpus=8)
    sim.advance(55)
    nodes = sim.read().nodes
    row = nodes.name.index("gpu04")
    assert nodes.state[row].startswith("IDLE+COMPLETING")
    assert (bool(nodes.counts[row]), bool(nodes.free[row])) == (True, False)
    assert waiting not in started(sim)
    sim.advance(20)
    assert waiting in started(sim)


def test_typed_gpus_are_found_where_they_are() -> None:
    sim = lab()
    a100 = submit(sim, gpus=4, gpu_type="a100")
    too_many = submit(sim, gpus=8, gpu_type="h100", nodes=4, name="32 on 28")
    sim.advance(5)
    assert sim.job(a100).state == BaseState.RUNNING
    nodes = sim.read().nodes
    assert nodes.gpu_used[nodes.name.index("gpu04")][0] == ("a100", 4)
    assert sim.job(too_many).state == BaseState.RUNNING


def test_an_exclusive_job_takes_whole_nodes() -> None:
    sim = lab()
    job_id = submit(sim, gpus=1, nodes=2, exclusive=True)
    sim.advance(5)
    jobs = sim.read().jobs
    assert jobs.held_resources[0].tolist() == [16, 128, 1_024_000]
    assert jobs.wanted[0, 0] == 1
    assert sim.job(job_id).state == BaseState.RUNNING


def test_what_no_node_could_hold_is_refused_at_submission() -> None:
    with pytest.raises(ValueError, match="not available"):
        submit(lab(), gpus=9)


def test_a_job_of_more_nodes_than_the_partition_has_waits_for_ever_and_blocks_nobody() -> None:
    sim = lab()
    big = submit(sim, rank=900, nodes=5, gpus=40)
    small = submit(sim, rank=1)
    sim.advance(60)
    assert (sim.job(big).reason, started(sim)) == ("PartitionConfig", [small])


def test_the_same_calls_give_the_same_course() -> None:
    def course() -> list[tuple[int, int]]:
        sim = lab()
        for i in range(60):
            submit(sim, rank=1 + i * 37 % 23, gpus=1 + i % 8, duration_s=50 + i * 13, time_limit_s=2000)
            sim.advance(i % 7)
        sim.advance(5000)
        return sim.starts

    first = course()
    assert len(first) == 60
    assert first == course()

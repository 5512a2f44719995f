"""What a blocked FIFO head stops on a real Slurm: its GPU type, what Slurm cannot place, an array's tasks."""

from __future__ import annotations

from typing import Any

from slurmfair.model import Outcome
from tests.live.policies import gpu_pool, quota
from tests.live.site import Site

POLICY = gpu_pool(
    quota("vision", deserved=16),
    quota("speech", deserved=16),
    pool=(
        "place_grace: 3s",
        "policy: fifo",
        "fifo_scope: quota",
    ),
)


def test_with_scope_gres_type_a_blocked_head_stops_only_jobs_that_ask_its_type(site: Site) -> None:
    site.write_policy(POLICY)
    filler = site.fill(4, "eve", 600, "--gpus=a100:1") + site.fill(27, "eve", 600, "--gpus=h100:1")
    site.start()
    large, a100, h100 = site.submit_many([["--gpus=h100:8", "-N1"], ["--gpus=a100:1"], ["--gpus=h100:2"]])
    site.wait(lambda: site.held_by_us([large, a100, h100]) == [a100, h100], "both wait with scope quota")
    assert site.row(a100)["blocker"] == large
    site.end(*filler[:4], filler[4])
    site.always(lambda: not site.starts([a100, h100]), "nobody passes the head", 4)
    site.reload(POLICY.replace("fifo_scope: quota", "fifo_scope: gres_type"))
    site.wait(lambda: site.running([a100]), "another type may go")
    assert site.held_by_us([large, h100]) == [h100]
    assert site.row(h100)["blocker"] == large


def test_a_job_that_counts_as_fitting_and_does_not_start_is_a_blocked_head_after_place_grace(
    site: Site,
) -> None:
    site.write_policy(POLICY)
    hogs = site.submit_many(
        [["--gpus=1", "-c64", f"--nodelist={node}"] for node in ("gpu01", "gpu02", "gpu03")], user="eve"
    )
    site.wait(lambda: len(site.running(hogs)) == 3, "three nodes without a CPU to spare")
    site.start()
    stuck = site.submit("--gpus=h100:5", "-N1")
    site.wait(lambda: site.outcome(stuck) == Outcome.STARTS, "counts as fitting")
    behind = site.submit("--gpus=h100:6", "-N1")
    site.wait(lambda: site.outcome(stuck) == Outcome.PLACEMENT, "Slurm did not place it", 30)
    site.wait(lambda: site.held_by_us([stuck, behind]) == [behind], "the head is blocked and stays open")
    small = site.submit("--gpus=h100:5", "-N1")
    site.wait(lambda: site.held_by_us([small]) == [small], "so is everybody behind it")
    site.end(hogs[0])
    site.wait(lambda: site.running([stuck]), "it starts on the node that became free")
    site.wait(lambda: site.row(behind)["position"] == 1, "the next one is the head")


def test_an_array_in_a_fifo_quota_is_one_head_until_its_last_task_has_started(site: Site) -> None:
    site.write_policy(POLICY)
    wall = site.wall()
    site.start()
    array = site.submit("--gpus=4", "-N1", "--array=0-4")
    behind = site.submit("--gpus=1")
    site.wait(lambda: site.held_by_us([behind]) == [behind], "the next job waits for the whole array")
    site.end(wall[-1])
    site.wait(lambda: len(site.array_tasks(array)) == 2, "two tasks fit")
    first = site.array_tasks(array)
    site.end(*first)
    site.wait(lambda: len(set(site.array_tasks(array)) - set(first)) == 2, "two more")
    site.wait_cycles(2)
    assert site.held_by_us([behind]) == [behind], "one task is left"
    site.end(*site.array_tasks(array))
    site.wait(lambda: site.running([behind]), "the job behind starts with the last task")
    site.wait(lambda: len(site.array_tasks(array)) == 1, "the last task")


def requeued(site: Site, *causes: str) -> tuple[list[int], dict[str, Any]]:
    """Return three whole-node jobs, the first of which ran and waits again, and its row before it ran."""
    site.write_policy(POLICY)
    wall = site.wall()
    site.start()
    jobs = site.submit_many([["--gpus=8", "-N1", "--requeue"]] * 3)
    site.wait(lambda: site.held_by_us(jobs) == jobs[1:], "in line")
    before = site.row(jobs[0])
    site.end(wall[0])
    site.wait(lambda: site.running(jobs[:1]), "the first runs")
    submitted = site.lab.show_job(jobs[0])["SubmitTime"]
    for cause in causes:
        site.lab.run(["scontrol", *cause.format(job=jobs[0]).split()])
    site.wait(lambda: site.lab.show_job(jobs[0])["SubmitTime"] > submitted, "Slurm dates its submission anew")
    return jobs, before


def test_a_job_that_lost_its_node_keeps_its_place_and_starts_its_age_anew(site: Site) -> None:
    try:
        (first, second, third), before = requeued(
            site,
            "update nodename=gpu01 state=drain reason=test",  # so that it does not come back by itself
            "update nodename=gpu01 state=down reason=test",
        )
        site.wait(lambda: site.row(first).get("waiting_s", 0) > before["waiting_s"], "it waits again", 30)
    finally:
        site.lab.run(["scontrol", "update", "nodename=gpu01", "state=resume"])
    after = site.row(first)
    assert after["order_s"] == before["order_s"]
    assert [site.row(job)["position"] for job in (first, second, third)] == [1, 2, 3]
    site.wait(lambda: site.running([first]), "it runs again, before the others")


def test_a_job_that_somebody_requeued_goes_to_the_end_of_the_line(site: Site) -> None:
    (first, second, third), before = requeued(site, "requeue {job}")
    site.wait(lambda: site.running([second]), "the second takes the room")
    site.wait(lambda: site.row(first).get("position") == 2, "accounting tells whose requeue it was", 120)
    after = site.row(first)
    assert before["order_s"] <= site.row(third)["order_s"] < after["order_s"] == after["submit_s"]

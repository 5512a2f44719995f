"""Limits on a real Slurm: arrays never pass them, a job that can never fit is parked until its limit is raised."""

from __future__ import annotations

from slurmfair.model import Outcome
from slurmfair.unfit import SURE_AFTER
from tests.live.policies import gpu_pool, quota
from tests.live.site import Site


def policy(**vision: object) -> str:
    return gpu_pool(quota("vision", **vision, policy="fifo"), quota("speech", deserved=16))


def test_a_parked_job_stops_nobody_and_starts_after_its_limit_is_raised(site: Site) -> None:
    site.write_policy(policy(deserved=4, limit=4))
    wall = site.wall()
    site.start()
    large, small = site.submit_many([["--gpus=6", "-N1"], ["--gpus=3", "-N1"]])
    site.wait(lambda: site.outcome(large) == Outcome.PARKED, "parked")
    site.wait(lambda: site.held_by_us([large, small]) == [large], "held, and nobody behind it")
    site.end(*wall)
    site.wait(lambda: site.running([small]), "the one behind it starts")
    parked = site.row(large)
    site.reload(policy(deserved=4, limit=12))
    site.wait(lambda: site.running([large]), "it starts within the new limit")
    assert parked["position"] == 0


def test_an_array_never_passes_the_limit_of_its_quota_and_keeps_its_own_throttle(site: Site) -> None:
    site.write_policy(policy(deserved=4, limit=8))
    filler = site.fill(32, user="eve")
    site.start()
    array = site.submit("--gpus=1", "--array=0-49%20", seconds=3)
    site.wait(
        lambda: site.lab.show_job(array).get("ArrayTaskThrottle") == "8", "eight may start once there is room"
    )
    site.end(*filler)
    at_once: list[int] = []
    throttles: set[int] = set()

    def look() -> bool:
        jobs = site.lab.squeue("--states=all")
        mine = [job for job in jobs if job["array_job_id"]["number"] == array]
        states = [job["job_state"][0] for job in mine]
        throttles.update(job["array_max_tasks"]["number"] for job in mine)
        at_once.append(states.count("RUNNING"))
        waiting = [job for job in mine if job["array_task_string"]]
        assert states.count("PENDING") <= len(waiting) <= 1, "we never split an array"
        return states.count("COMPLETED") == 50

    site.wait(look, "all tasks have run", 120, every_s=0.1)
    assert max(at_once) == 8
    assert throttles == {8, 20}
    shown = {job.get("ArrayTaskThrottle") for job in site.lab.show_jobs(array)}
    assert shown == {"20"}, "its own throttle, to the end"


def test_a_job_that_can_never_fit_is_cancelled_where_the_policy_says_so(site: Site) -> None:
    """Of an array the tasks that wait; those that run go on."""

    def limited(limit: int) -> str:
        return policy(on_never_fit="cancel", deserved=2, limit=limit)

    site.write_policy(limited(8))
    wall = site.wall()
    site.start()
    array = site.submit("--gpus=4", "-N1", "--array=0-4")
    fits, large = site.submit_many([["--gpus=2", "-N1"], ["--gpus=12", "-N2"]])
    site.wait(lambda: site.states([large]) == ["CANCELLED"], "larger than the limit")
    assert site.held_by_us([fits]) == [fits]
    site.wait(lambda: site.lab.show_job(array).get("ArrayTaskThrottle") == "2", "two tasks may start")
    site.end(*wall)
    site.wait(lambda: len(site.array_tasks(array)) == 2, "as many tasks as the limit bears")
    tasks = site.array_tasks(array)
    site.reload(limited(3))
    site.wait(lambda: site.states([array]) == ["CANCELLED"], "a task is larger than the new limit")
    site.wait_cycles(2)
    assert site.array_tasks(array) == tasks
    assert site.states([fits]) == ["PENDING"]
    site.reload(limited(1))
    site.wait_cycles(SURE_AFTER - 2)
    site.reload(limited(3))
    site.wait_cycles(SURE_AFTER)
    assert site.states([fits]) == ["PENDING"], "a limit that was wrong for some cycles"

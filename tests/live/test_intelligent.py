"""Intelligent on a real Slurm: a high job stalls the low lane, low jobs age, a policy switch re-judges who waits."""

from __future__ import annotations

from slurmfair.model import UNSET_S
from tests.live.policies import LEVELS, gpu_pool, quota
from tests.live.site import Site

AGING_S = 3


def policy(name: str) -> str:
    return gpu_pool(
        quota("vision", deserved=16, policy=name),
        quota("speech", deserved=16),
        pool=("aging_interval: 3s",),
        top=(LEVELS,),
    )


WHOLE_NODE = ("--gpus=8", "-N1")


def test_a_blocked_high_job_stalls_the_low_lane_and_lets_it_go_when_it_leaves(site: Site) -> None:
    site.write_policy(policy("intelligent"))
    filler = site.fill(31, user="eve")
    site.start()
    large, small = site.submit(*WHOLE_NODE), site.submit("--gpus=1")
    site.wait(lambda: site.running([small]), "low jobs are traversed: the small one passes the large one")
    assert not site.held_by_us([large])
    high = site.submit(*WHOLE_NODE, "--qos=urgent")
    site.wait(lambda: site.held_by_us([large, high]) == [large], "the low lane is held")
    later = site.submit("--gpus=1")
    site.wait(lambda: site.held_by_us([later]) == [later], "a low job is held")
    site.end(filler[0])
    site.always(lambda: not site.running([later, large]), "nobody passes the high job", 7)
    site.lab.run(["scancel", str(high)])
    site.wait(lambda: site.running([later]), "the low lane is free again")
    assert not site.held_by_us([large, later])


def test_ageing_from_1_to_6_is_published_moves_a_job_to_the_front_and_survives_a_restart(site: Site) -> None:
    site.write_policy(policy("intelligent"))
    site.fill(30, user="eve")
    site.start()
    old = site.submit(*WHOLE_NODE, "--qos=scavenger")
    site.wait(lambda: site.outcome(old) is not None, "in the queue")
    seen: list[float] = []

    def look() -> bool:
        row = site.row(old)
        assert row["base"] == 1
        assert row["effective"] == min(6, 1 + (row["now_s"] - row["waiting_s"]) // AGING_S)
        if seen[-1:] != [row["effective"]]:
            seen.append(row["effective"])
        return row["effective"] >= 4

    site.wait(look, "three steps older")
    site.stop()
    site.start()
    site.wait(lambda: look() and seen[-1] == 6, "the cap")
    assert seen == sorted(seen)
    assert seen[0] <= 2
    assert len(seen) >= 4
    normal = site.submit(*WHOLE_NODE)
    site.wait(lambda: site.outcome(normal) is not None, "a job of priority 5 arrives")
    assert (site.row(old)["position"], site.row(normal)["position"]) == (1, 2)
    site.always(lambda: look() and seen[-1] == 6, "the cap is kept", AGING_S + 1)


def test_a_policy_switch_by_reload_re_judges_who_waits_and_leaves_who_runs(site: Site) -> None:
    site.write_policy(policy("round_robin"))
    filler = site.fill(31, user="eve")
    site.start()
    running = site.submit("--gpus=1")
    site.wait(lambda: site.running([running]), "one runs")
    large, half = site.submit(*WHOLE_NODE), site.submit("--gpus=4", "-N1")
    site.wait_cycles(2)
    assert not site.held_by_us([large, half])
    record = site.records([running])
    site.reload(policy("balance"))
    site.wait(lambda: site.held_by_us([large, half]) == [half], "a window of one")
    first = site.row(large)
    assert first["first_attempt_s"] != UNSET_S
    site.wait_cycles(2)
    site.reload(policy("fifo"))
    small = site.submit("--gpus=1")
    site.wait(lambda: site.held_by_us([half, small]) == [half, small], "behind the head")
    site.end(filler[0])
    switched = site.row(large)
    assert switched["first_attempt_s"] > first["first_attempt_s"], "each switch begins a fresh phase"
    assert (switched["order_s"], switched["waiting_s"]) == (first["order_s"], first["waiting_s"])
    site.reload(policy("round_robin"))
    site.wait(lambda: site.running([small]), "the small job passes again")
    assert not site.held_by_us([large, half])
    assert site.records([running]) == record

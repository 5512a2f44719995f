"""FIFO and Round Robin on a real Slurm: who starts, who is held, and when."""

from __future__ import annotations

from tests.live.policies import gpu_pool, quota
from tests.live.site import Site


def policy(name: str) -> str:
    return gpu_pool(quota("vision", deserved=16, policy=name), quota("speech", deserved=16, policy=name))


BACKFILL_S = 2  # bf_interval of the lab
SLOW_S = 4  # what a busy machine may add to a cycle


def test_fifo_holds_jobs_behind_a_blocked_head_through_six_backfill_cycles(site: Site) -> None:
    site.write_policy(policy("fifo"))
    fillers = site.fill(32, user="eve")
    site.start()
    head = site.submit("--gpus=8", "-N1", "--time=1:00:00", user="ann")
    site.wait_cycles(2)
    smaller = site.submit_many([["--gpus=1", "--time=1"]] * 5, user="bob", seconds=20)
    site.wait(lambda: len(site.held_by_us(smaller)) == 5, "five held")
    site.end(*fillers[:7])  # one short of a node
    site.always(lambda: not site.starts([head, *smaller]), "nobody passes the head", 6 * BACKFILL_S + 2)
    site.end(*fillers[7:])
    site.wait(lambda: len(site.starts([head, *smaller])) == 6, "all start")
    assert site.starts([head, *smaller])[0] == head
    turn_s = {job: at_s for job, at_s, what, _ in site.decisions() if what.startswith("release")}
    head_s, *others_s = site.start_s([head, *smaller])
    for job, start_s in zip(smaller, others_s, strict=True):
        assert turn_s[job] <= head_s + site.interval_s + SLOW_S, "let go within a cycle of its turn"
        assert start_s <= turn_s[job] + BACKFILL_S + SLOW_S, "started within a cycle of Slurm"


def test_a_prefix_of_ten_fitting_jobs_starts_in_one_cycle(site: Site) -> None:
    site.write_policy(policy("fifo"))
    ids = site.submit_many([["--gpus=2", "--hold"]] * 10, user="ann")
    site.lab.run(["scontrol", "release", *map(str, ids)])
    site.once()
    site.wait(lambda: len(site.running(ids)) == 10, "ten started", 15)


def test_round_robin_starts_the_five_at_once(site: Site) -> None:
    site.write_policy(policy("round_robin"))
    filler = site.fill(28, user="eve")
    site.start()
    head = site.submit("--gpus=8", "-N1", "--time=1:00:00", user="ann")
    site.wait_cycles(2)
    smaller = site.submit_many([["--gpus=1", "--time=2:00:00"]] * 5, user="bob")
    site.wait(lambda: len(site.running(smaller)) == 4, "the four that fit", 10)
    assert not site.held_by_us([head, *smaller])
    assert site.states([head]) == ["PENDING"]
    site.end(filler[0])
    site.wait(lambda: len(site.running(smaller)) == 5, "the fifth", 10)

"""Quotas side by side on a real Slurm: hold-back lets a gang in, and one quota's limit or head stops no other."""

from __future__ import annotations

import random

import pytest

from slurmfair.model import Outcome
from tests.live.policies import gpu_pool, quota
from tests.live.site import Site

POLICY = gpu_pool(
    quota("vision", deserved=16),
    quota("speech", deserved=16),
    pool=("policy: fifo",),
)


@pytest.mark.usefixtures("gated")
def test_a_quota_at_its_limit_or_with_a_blocked_head_stops_no_other(site: Site) -> None:
    site.write_policy(POLICY.replace("[vision]}, deserved: 16", "[vision]}, deserved: 4, limit: 4"))
    wall = site.wall()
    site.start()
    vision = site.submit_many([["--gpus=1"]] * 6)
    site.wait(lambda: site.held_by_us(vision) == vision[1:], "all behind the head are held")
    site.end(*wall)
    site.wait(lambda: len(site.running(vision)) == 4, "four within the limit")
    site.wait(lambda: len(site.held_by_us(vision)) == 2, "two over it")
    site.wait(lambda: site.outcome(vision[4]) == Outcome.LIMIT, "the fifth at the limit")
    assert site.outcome(vision[5]) == Outcome.BEHIND
    speech = site.submit_many([["--gpus=7", "-N1"]] * 5, user="eve")
    site.wait(lambda: len(site.running(speech)) == 3, "speech takes the other nodes")
    site.wait(lambda: site.outcome(speech[3]) in (Outcome.CAPACITY, Outcome.PLACEMENT), "its head is blocked")
    site.end(vision[0])
    site.wait(lambda: site.running([vision[4]]), "vision goes on behind the blocked head of speech")
    assert site.held_by_us(vision) == [vision[5]]


def test_hold_back_lets_a_gang_in_against_a_stream_of_small_jobs(site: Site) -> None:
    site.write_policy(POLICY)
    chance = random.Random(3)
    site.start()
    stay = site.submit_many(
        [["--gpus=1", f"--nodelist={node}"] for node in ("gpu03", "gpu04") * 8], user="eve"
    )
    go = [
        ["--gpus=1", f"--nodelist={node}", f"--wrap=exec sleep {chance.randint(12, 20)}"]
        for node in ("gpu01", "gpu02") * 8
    ]
    stream = stay + site.lab.submit_many(go, user="eve")
    site.wait(lambda: len(site.running(stream)) == 32, "the pool is full")
    more = site.submit_many([["--gpus=1"]] * 6, user="eve")
    gang = site.submit("-N2", "--gres=gpu:h100:8", user="ann")
    site.wait(lambda: site.row(gang).get("reserved"), "room is kept for the gang")
    site.wait(lambda: site.running([gang]), "the gang starts when the sixteen have ended", 60)
    assert len(site.running(stream)) == 16
    assert not site.starts(more), "nobody of the stream has passed the gang"


def test_a_short_job_that_cannot_delay_the_gang_runs_while_room_is_kept(site: Site) -> None:
    site.write_policy(POLICY)
    site.start()
    spare = site.submit_many([["--gpus=1", "--nodelist=gpu04"]] * 6, user="eve")
    long = site.submit_many([["--gpus=1", "--time=30"]] * 26, user="eve")
    site.wait(lambda: len(site.running(spare + long)) == 32, "the pool is full, for half an hour")
    head, short, late = site.submit_many(
        [["--gpus=8", "-N1"], ["--gpus=1", "--time=1"], ["--gpus=1", "--time=2:00:00"]], user="eve"
    )
    site.wait(lambda: site.held_by_us([short, late]) == [short, late], "behind the head")
    gang = site.submit("-N2", "--gres=gpu:h100:8", user="ann")
    site.wait(lambda: site.row(gang).get("reserved"), "room is kept for the gang")
    site.end(head, *spare)
    site.wait(lambda: site.running([short]), "the short one starts", 30)
    site.wait(lambda: site.outcome(late) == Outcome.HELD_BACK, "the long one leaves room")
    assert site.held_by_us([late, gang]) == [late]
    site.always(lambda: not site.running([gang, late]), "the gang waits for its room", 6)

"""Quotas side by side on a real Slurm: hold-back lets a gang in, and one quota's limit or head stops no other."""

from __future__ import annotations

import random

from slurmfair.model import Outcome
from tests.live.site import Site

POLICY = """
version: 1
cycle: {interval: {interval}}
pools:
  gpu:
    partitions: [train, interactive]
    resource: gres/gpu
    policy: fifo
    quotas:
      vision: {match: {accounts: [vision]}, deserved: 16}
      speech: {match: {accounts: [speech]}, deserved: 16}
"""


def test_a_quota_at_its_limit_or_with_a_blocked_head_stops_no_other(site: Site) -> None:
    site.write_policy(POLICY.replace("[vision]}, deserved: 16", "[vision]}, deserved: 4, limit: 4"))
    site.start()
    vision = site.submit_many([["--gpus=1"]] * 6)
    site.wait(lambda: len(site.running(vision)) == 4, "four within the limit")
    site.wait(lambda: len(site.held_by_us(vision)) == 2, "two over it")
    assert site.outcome(vision[4]) == Outcome.LIMIT
    assert site.outcome(vision[5]) == Outcome.BEHIND
    speech = site.submit_many([["--gpus=7", "-N1"]] * 6, user="eve")
    site.wait(lambda: len(site.running(speech)) == 4, "speech takes what is left")
    site.wait(lambda: site.outcome(speech[4]) in (Outcome.CAPACITY, Outcome.PLACEMENT), "its head is blocked")
    site.end(vision[0])
    site.wait(lambda: site.running([vision[4]]), "vision goes on behind the blocked head of speech")
    assert site.held_by_us(vision) == [vision[5]]


def test_hold_back_lets_a_gang_in_against_a_stream_of_small_jobs(site: Site) -> None:
    site.write_policy(POLICY)
    chance = random.Random(3)
    lengths_s = [chance.randint(10, 22) for _ in range(32)]
    site.start()
    stream = site.lab.submit_many(
        [["--gpus=1", f"--wrap=exec sleep {length_s}"] for length_s in lengths_s], user="eve"
    )
    site.wait(lambda: len(site.running(stream)) == 32, "the pool is full")
    waiting = site.submit_many([["--gpus=1"]] * 12, user="eve", seconds=20)
    gang = site.submit("-N2", "--gres=gpu:h100:8", user="ann")
    site.wait(lambda: site.row(gang).get("reserved"), "room is kept for the gang")
    begun = site.starts(waiting)
    short = site.submit_many([["--gpus=1", "--time=1"]] * 2, user="eve", seconds=3)
    site.wait(lambda: site.starts([gang]), "the gang starts", 90)
    jobs = site.jobs()
    gang_s = jobs[gang]["start_time"]["number"]
    passed = [one for one in site.starts(waiting) if jobs[one]["start_time"]["number"] < gang_s]
    assert passed == begun, "nobody of the stream has passed the gang"
    site.wait(lambda: len(site.starts(waiting)) == 12, "the stream goes on beside the gang", 60)
    assert len(site.starts(short)) == 2


def test_short_jobs_that_cannot_delay_the_gang_run_while_room_is_kept(site: Site) -> None:
    site.write_policy(POLICY.replace("policy: fifo", "policy: round_robin"))
    site.start()
    long = site.submit_many([["--gpus=1", "--time=30"]] * 20, user="eve")
    site.wait(lambda: len(site.running(long)) == 20, "twenty run for half an hour")
    gang = site.submit("-N2", "--gres=gpu:h100:8", user="ann")
    site.wait(lambda: site.row(gang).get("reserved"), "room is kept for the gang")
    late = site.submit_many([["--gpus=1", "--time=2:00:00"]] * 2, user="eve")
    short = site.submit_many([["--gpus=1", "--time=1"]] * 2, user="eve", seconds=5)
    site.wait(lambda: len(site.starts(short)) == 2, "the short ones start", 30)
    assert site.held_by_us(late) == late
    assert [site.outcome(one) for one in late] == [Outcome.HELD_BACK] * 2
    assert site.row(late[0])["blocker"] in (gang, -1)
    assert not site.starts([gang, *late])

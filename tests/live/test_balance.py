"""Balance on a real Slurm: the window opens by one a timeout, a fresh urgent job closes it, a restart keeps it."""

from __future__ import annotations

import itertools
import time

from slurmfair.model import UNSET_S
from tests.live.policies import gpu_pool, quota
from tests.live.site import Site

TIMEOUT_S = 4
POLICY = gpu_pool(
    quota("vision", deserved=16),
    quota("speech", deserved=16),
    pool=(
        "policy: balance",
        "balance_timeout: 4s",
    ),
    top=("job_priority: {qos: {urgent: 9, normal: 5}}",),
)
WHOLE_NODE = ("--gpus=8", "-N1")


def held_one_after_another(site: Site, jobs: list[int], until_held: list[int]) -> list[list[int]]:
    """Return which of the jobs carried our hold, each set once, until the last one is seen."""
    seen: list[list[int]] = []

    def look() -> bool:
        held = site.held_by_us(jobs)
        if not seen or seen[-1] != held:
            seen.append(held)
        return held == until_held and len(seen) > 1

    site.wait(look, f"held {until_held}", 60)
    return seen


def test_the_window_opens_by_one_a_timeout_as_far_as_the_first_that_fits(site: Site) -> None:
    site.write_policy(POLICY)
    filler = site.fill(32, user="eve")
    site.start()
    jobs = site.submit_many([WHOLE_NODE] * 3 + [("--gpus=1",)])
    first, second, third, small = jobs
    site.wait(lambda: site.held_by_us(jobs) == jobs[1:], "only the head may start")
    site.end(*filler[:2])
    assert held_one_after_another(site, jobs, []) == [jobs[1:], jobs[2:], jobs[3:], []]
    site.wait(lambda: site.running(jobs) == [small], "the small job, once the window reaches it")
    tried = [site.row(job)["first_attempt_s"] for job in (first, second, third)]
    gaps = [after - before for before, after in itertools.pairwise(tried)]
    assert all(gap >= TIMEOUT_S for gap in gaps), gaps


def test_a_fresh_urgent_job_closes_the_window_until_its_own_timeout(site: Site) -> None:
    site.write_policy(POLICY)
    filler = site.fill(32, user="eve")
    site.start()
    first, second = site.submit_many([WHOLE_NODE] * 2)
    site.wait(lambda: site.held_by_us([first, second]) == [second], "window of one")
    site.wait(lambda: not site.held_by_us([first, second]), "window of two")
    site.wait(lambda: site.row(second)["first_attempt_s"] != UNSET_S, "second tried")
    site.wait(lambda: site.row(second)["now_s"] - site.row(second)["first_attempt_s"] >= TIMEOUT_S, "expired")
    urgent = site.submit(*WHOLE_NODE, "--qos=urgent")
    small = site.submit("--gpus=1")
    jobs = [first, second, small]
    site.wait(lambda: site.held_by_us([urgent, *jobs]) == jobs, "all behind the urgent one held")
    site.end(filler[0])
    # Then all marks are old, and the window jumps to its full width: nobody is held any more.
    assert held_one_after_another(site, jobs, []) == [jobs, []]
    site.wait(lambda: site.running([urgent, *jobs]) == [small], "the small job starts")


def test_an_outage_moves_the_timers_and_keeps_the_ages(site: Site) -> None:
    site.write_policy(POLICY.replace("balance_timeout: 4s", "balance_timeout: 12s"))
    filler = site.fill(32, user="eve")
    site.start()
    head, small = site.submit_many([WHOLE_NODE, ("--gpus=1",)])
    site.wait(lambda: site.held_by_us([small]) == [small], "behind the head")
    site.end(filler[0])
    site.wait(lambda: site.row(head)["first_attempt_s"] != UNSET_S, "head tried")
    site.stop()
    before = site.row(head)
    time.sleep(10)  # an outage: longer than two cycles and some seconds
    assert site.held_by_us([small]) == [small], "holds stay while the daemon is away"
    site.start()
    after = site.row(head)
    moved_s = after["first_attempt_s"] - before["first_attempt_s"]
    assert 9 <= moved_s <= after["now_s"] - before["now_s"]
    assert (after["waiting_s"], after["order_s"]) == (before["waiting_s"], before["order_s"])
    assert site.held_by_us([small]) == [small], "the head's timeout has not come yet"
    site.wait(lambda: site.running([small]), "the rest of the timeout", 40)
    assert site.row(head)["first_attempt_s"] == after["first_attempt_s"]

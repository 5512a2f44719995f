"""Situations from public bug reports that are about order (CASES 18, 19, 21, 23, 30, 35)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from slurmfair.config import QueuePolicy
from tests.one_quota import OneQuota, Pass
from tests.small_pool import J, Pool, Q, job, one_kind

FIFO = QueuePolicy(name="fifo")
BY_TYPE = replace(FIFO, fifo_scope="gres_type")
A100, H100 = 1, 2


def test_case_18_a_fifo_head_that_can_never_run_blocks_nobody_and_returns_to_its_place() -> None:
    jobs = job("J1", "a", 24), job("J2", "a", 4)
    made = one_kind({"a": Q(share=64, limit=16, policy=FIFO)}, 64).decide(*jobs)
    assert made.outcomes == {"J1": "PARKED", "J2": "STARTS"}
    raised = one_kind({"a": Q(share=64, limit=32, policy=FIFO)}, 64).decide(*jobs)
    assert raised.by_name(raised.decision.position) == {"J1": 1, "J2": 2}
    assert raised.outcomes == {"J1": "STARTS", "J2": "STARTS"}


@pytest.mark.parametrize(
    ("policy", "outcomes", "blockers"),
    [
        (BY_TYPE, {"J1": "CAPACITY", "J2": "STARTS", "J3": "BEHIND"}, {"J3": "J1"}),
        (FIFO, {"J1": "CAPACITY", "J2": "BEHIND", "J3": "BEHIND"}, {"J2": "J1", "J3": "J1"}),
    ],
)
def test_case_19_a_fifo_head_blocks_its_gpu_type_or_the_quota(
    policy: QueuePolicy, outcomes: dict[str, str], blockers: dict[str, str]
) -> None:
    pool = Pool({"a": Q(share=64, policy=policy)}, [[0], [8]], [8, 8])
    made = pool.decide(
        J("J1", "a", 8, kinds=(0,), gpu_type=H100),
        J("J2", "a", 1, kinds=(1,), gpu_type=A100),
        J("J3", "a", 1, kinds=(0,), gpu_type=H100),
    )
    assert made.outcomes == outcomes and made.blockers == blockers


@dataclass
class Stream:
    """16 GPUs; a 1-GPU job of ten minutes each 30 s for ever, and one 16-GPU job submitted at once."""

    quota: OneQuota
    ends: list[tuple[int, str]] = field(default_factory=list)

    def until(self, last_s: int) -> int | None:
        """Return when the large job started, None for never."""
        self.quota.submit("big", 16, 8)
        for now_s in range(0, last_s, 30):
            self.quota.now_s = now_s
            for end_s, name in [one for one in self.ends if one[0] <= now_s]:
                self.quota.end(name)
                self.ends.remove((end_s, name))
            self.quota.submit(f"s{now_s}", 1, 5)
            if "big" in self.step(now_s).dequeued:
                return now_s
        return None

    def step(self, now_s: int) -> Pass:
        made = self.quota.make_pass()
        self.ends += [(now_s + 600, name) for name in made.dequeued]
        return made


def stream(**settings: Any) -> Stream:
    quota = OneQuota(16, 16, QueuePolicy(**settings))
    quota.running = {f"old{n}": 1 for n in range(8)}
    return Stream(quota, [(300 + n, f"old{n}") for n in range(8)])


def test_case_21_under_round_robin_a_large_job_may_starve() -> None:
    assert stream(name="round_robin").until(4 * 3600) is None


def test_case_21_under_balance_the_window_is_one_until_the_timeout() -> None:
    one = stream(name="balance")
    assert one.until(300) is None
    assert not any(name.startswith("s") for name in one.quota.running)
    one = stream(name="balance")
    one.quota.running["forever"] = 1  # the large job cannot start before its timeout
    assert one.until(331) is None
    assert any(name.startswith("s") for name in one.quota.running)


def test_case_21_under_intelligent_a_high_job_is_never_passed() -> None:
    one = stream(name="intelligent")
    assert one.until(3600) == 330  # when the last of the jobs that ran before has ended
    assert list(one.quota.running) == ["big"]


def test_case_21_under_fair_share_the_large_job_gets_its_turn_within_one_job_length() -> None:
    """`b` is owed the pool; the stream of `a` is held back until its 10-minute jobs have ended."""
    held, waiting, free, ends = 0, 0, 16, []
    for now_s in range(0, 7200, 30):
        ended = sum(1 for end_s in ends if end_s == now_s)
        held, free, waiting = held - ended, free + ended, waiting + 1
        quotas = {"a": Q(share=0 if now_s >= 1800 else 16, held=held), "b": Q(share=16)}
        big = [job("big", "b", 16)] if now_s >= 1800 else []
        made = one_kind(quotas, free).decide(*big, *(job(f"s{n}", "a", 1) for n in range(waiting)))
        if big and made.outcomes["big"] == "STARTS":
            assert now_s <= 1800 + 600
            return
        begun = int(made.decision.starts.sum())
        held, free, waiting = held + begun, free - begun, waiting - begun
        ends += [now_s + 600] * begun
    raise AssertionError("the large job never started")


def test_case_23_ties_are_stable_and_no_queue_takes_everything() -> None:
    """Two identical queues, jobs of one second with ids alternating; the answer is the same in every cycle."""
    jobs = [job(str(101 + n), "ab"[n % 2], 1, order_s=7) for n in range(20)]
    seen = set()
    for _ in range(1000):  # a restart in the middle changes nothing: there is no state
        made = one_kind({"a": Q(share=5), "b": Q(share=5)}, 10).decide(*jobs)
        seen.add(tuple(made.attempts))
    assert len(seen) == 1
    assert seen.pop()[:10] == tuple(str(101 + n) for n in range(10))
    assert (made.allocated("a"), made.allocated("b")) == (5, 5)


def test_case_30_a_quota_below_its_deserved_gets_the_top_order_on_a_full_cluster() -> None:
    quotas = {"a": Q(share=8, deserved=8), "b": Q(share=8, deserved=4, held=16)}
    made = one_kind(quotas, 0).decide(
        *(job(f"b{n}", "b", 1, order_s=1) for n in range(3)),
        *(job(f"a{n}", "a", 1, order_s=9) for n in range(8)),
    )
    assert made.out[:8] == [f"a{n}" for n in range(8)]
    assert made.reserved == ["a0"] and made.outcomes["b0"] == "CAPACITY"


def test_case_30_idle_machines_are_used_beyond_the_deserved_quota() -> None:
    quotas = {"a": Q(share=4, deserved=4, held=4)}
    assert one_kind(quotas, 20).decide(job("fifth", "a", 1)).outcomes == {"fifth": "STARTS"}


def test_case_35_nobody_is_held_on_an_empty_cluster_without_competing_demand() -> None:
    quotas = {"a": Q(share=0), "b": Q(share=8)}
    made = one_kind(quotas, 8).decide(*(job(f"a{n}", "a", 1) for n in range(8)))
    assert set(made.outcomes.values()) == {"STARTS"}

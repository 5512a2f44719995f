"""Settings of the policies that the worked examples do not reach."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import pytest

from slurmfair.config import PolicyName, QueuePolicy
from slurmfair.model import UNSET_S
from slurmfair.policy import POLICIES
from tests.one_quota import OneQuota
from tests.small_pool import J, Made, Pool, Q, job, one_kind

BALANCE = QueuePolicy(name="balance")
INTELLIGENT = QueuePolicy(name="intelligent")
LATE_S = 600  # a first attempt that has expired at 1000


def full(policy: QueuePolicy, *jobs: J, now_s: int = 1000) -> Made:
    """Return a pass in which nothing fits."""
    return one_kind({"a": Q(share=8, held=8, policy=policy)}, 0, now_s=now_s).decide(*jobs)


def roomy(policy: QueuePolicy, free: int, *jobs: J, now_s: int = 1000) -> Made:
    return one_kind({"a": Q(share=8, held=8, policy=policy)}, free, now_s=now_s).decide(*jobs)


def test_every_policy_name_of_the_configuration_has_a_function() -> None:
    assert set(POLICIES) == set(get_args(PolicyName))


@pytest.mark.parametrize("name", ["fifo", "round_robin", "balance"])
def test_order_submit_is_pure_order_of_submission(name: str) -> None:
    policy = QueuePolicy(name=name, order="submit")  # type: ignore[arg-type]
    made = roomy(
        policy, 2, J("first", "a", 1, priority=1, order_s=1), J("second", "a", 1, priority=9, order_s=2)
    )
    assert made.attempts == ["first", "second"]
    assert made.by_name(made.decision.effective) == {"first": 1, "second": 9}


def test_order_submit_keeps_the_lanes_of_intelligent() -> None:
    policy = replace(INTELLIGENT, order="submit")
    jobs = [J("low", "a", 1, priority=1, order_s=1), J("h7", "a", 1, priority=7, order_s=2)]
    made = roomy(
        policy, 3, *jobs, J("h9", "a", 1, priority=9, order_s=3), J("low6", "a", 1, priority=6, order_s=4)
    )
    assert made.attempts == ["h7", "h9", "low", "low6"]


# -- Balance -------------------------------------------------------------------------------------------


def test_max_window_caps_the_window_however_many_have_expired() -> None:
    jobs = [job(name, "a", 1, order_s=n, first_attempt_s=LATE_S) for n, name in enumerate("bcde")]
    assert full(BALANCE, *jobs).attempts == ["b", "c", "d", "e"]
    made = full(replace(BALANCE, max_window=2), *jobs)
    assert made.attempts == ["b", "c"] and made.blockers == {"d": "c", "e": "c"}


def test_max_window_belongs_to_balance_alone() -> None:
    jobs = [job(name, "a", 1) for name in "bcd"]
    assert len(full(QueuePolicy(name="round_robin", max_window=1), *jobs).attempts) == 3


def test_a_window_slides_onto_the_next_when_one_starts() -> None:
    jobs = [job("b", "a", 3, first_attempt_s=LATE_S), job("c", "a", 1), job("d", "a", 1), job("e", "a", 1)]
    made = roomy(replace(BALANCE, max_window=2), 2, *jobs)
    assert made.outcomes == {"b": "CAPACITY", "c": "STARTS", "d": "STARTS", "e": "CAPACITY"}


def test_expiry_is_inclusive_and_a_clock_set_back_expires_nothing() -> None:
    jobs = job("b", "a", 1, first_attempt_s=700), job("c", "a", 1)
    assert full(BALANCE, *jobs, now_s=1000).attempts == ["b", "c"]
    assert full(BALANCE, *jobs, now_s=999).attempts == ["b"]
    assert full(BALANCE, *jobs, now_s=100).attempts == ["b"]


def test_an_array_that_makes_progress_has_a_new_timer_and_closes_the_queue() -> None:
    jobs = job("array", "a", 2, tasks=3, first_attempt_s=LATE_S), job("next", "a", 1)
    made = roomy(BALANCE, 3, *jobs)
    assert made.starts == {"array": 1, "next": 0} and made.blockers == {"next": "array"}
    assert made.by_name(made.decision.first_attempt_s) == {"array": 1000, "next": UNSET_S}
    made = roomy(BALANCE, 7, *jobs)
    assert made.starts == {"array": 3, "next": 1}
    assert made.by_name(made.decision.first_attempt_s)["array"] == UNSET_S


def test_by_gpu_type_each_type_has_a_window_of_its_own() -> None:
    policy = replace(BALANCE, fifo_scope="gres_type")
    jobs = [
        job("x1", "a", 1, gpu_type=1),
        job("y1", "a", 1, gpu_type=2, first_attempt_s=LATE_S),
        job("x2", "a", 1, gpu_type=1),
        job("y2", "a", 1, gpu_type=2),
        job("y3", "a", 1, gpu_type=2),
    ]
    made = full(policy, *jobs)
    assert made.attempts == ["x1", "y1", "y2"] and made.blockers == {"x2": "x1", "y3": "y2"}


# -- Intelligent ---------------------------------------------------------------------------------------


def test_lanes_do_not_block_each_other_without_high_blocks_low() -> None:
    policy = replace(INTELLIGENT, high_blocks_low=False)
    jobs = [
        job("h1", "a", 1, priority=8),
        job("h2", "a", 1, priority=7),
        job("l1", "a", 1),
        job("l2", "a", 1),
    ]
    made = full(policy, *jobs)
    assert made.attempts == ["h1", "l1", "l2"] and made.blockers == {"h2": "h1"}


def test_linear_ageing_keeps_the_order_of_neighbours() -> None:
    """What I9 shows for steps does not happen: L3 stays ahead of nobody it has not caught up with."""
    policy = replace(INTELLIGENT, aging_mode="linear")
    jobs = job("L3", "a", 1, priority=3, order_s=0), job("L4", "a", 1, priority=4, order_s=1800)
    for now_s in (3600, 5400, 7200, 10799):
        made = full(policy, *jobs, now_s=now_s)
        assert made.attempts == ["L4", "L3"]
        assert made.by_name(made.decision.effective)["L3"] == pytest.approx(min(6, 3 + now_s / 3600))


def test_a_low_job_above_the_cap_keeps_its_base() -> None:
    policy = replace(INTELLIGENT, aging_cap=3)
    made = full(policy, job("five", "a", 1, priority=5), job("one", "a", 1, priority=1), now_s=10**6)
    assert made.by_name(made.decision.effective) == {"five": 5, "one": 3}


def test_a_cap_at_or_above_the_threshold_is_brought_below_it() -> None:
    made = full(replace(INTELLIGENT, aging_cap=9), job("old", "a", 1, priority=1), now_s=10**6)
    assert made.by_name(made.decision.effective) == {"old": 6}


def test_a_waiting_time_in_the_future_does_not_lower_a_priority() -> None:
    made = full(INTELLIGENT, job("j", "a", 1, priority=4, waiting_since_s=9000))
    assert made.by_name(made.decision.effective) == {"j": 4}


GUARD = replace(INTELLIGENT, starvation_guard_s=100.0)


@pytest.mark.parametrize(("leading_since_s", "blocked"), [(900, True), (901, False), (UNSET_S, False)])
def test_the_guard_turns_the_first_low_job_at_the_cap_into_a_head(
    leading_since_s: int, blocked: bool
) -> None:
    jobs = job("old", "a", 3, priority=6, leading_since_s=leading_since_s), job("small", "a", 1, priority=6)
    made = roomy(GUARD, 2, *jobs)
    assert made.outcomes["small"] == ("BEHIND" if blocked else "STARTS")
    assert made.by_name(made.decision.leading_since_s)["old"] == (
        1000 if leading_since_s == UNSET_S else leading_since_s
    )


def test_only_the_first_at_the_cap_leads_and_only_with_a_guard() -> None:
    jobs = [
        job("high", "a", 3, priority=7),
        job("second", "a", 3, priority=6, order_s=5, leading_since_s=3),
        job("first", "a", 3, priority=6, order_s=4),
        job("fresh", "a", 3, priority=5, order_s=1, waiting_since_s=1000),
    ]
    made = full(GUARD, *jobs)
    leads = {"high": UNSET_S, "second": UNSET_S, "first": 1000, "fresh": UNSET_S}
    assert made.by_name(made.decision.leading_since_s) == leads
    below = full(GUARD, job("young", "a", 3, priority=5, waiting_since_s=1000))
    assert below.by_name(below.decision.leading_since_s) == {"young": UNSET_S}
    without = full(INTELLIGENT, *jobs)
    assert set(without.decision.leading_since_s.tolist()) == {UNSET_S}


def test_a_job_that_led_before_but_is_first_no_longer_is_no_head() -> None:
    jobs = [
        job("first", "a", 3, priority=6, order_s=1),
        job("led", "a", 3, priority=6, order_s=2, leading_since_s=10),
        job("small", "a", 1, priority=6, order_s=3),
    ]
    assert roomy(GUARD, 2, *jobs).outcomes == {"first": "CAPACITY", "led": "CAPACITY", "small": "STARTS"}


def test_whoever_starts_hands_the_lead_to_the_next() -> None:
    jobs = job("first", "a", 1, priority=6, leading_since_s=10), job("next", "a", 3, priority=6)
    made = roomy(GUARD, 2, *jobs)
    assert made.by_name(made.decision.leading_since_s) == {"first": UNSET_S, "next": 1000}


def test_an_array_that_makes_progress_does_not_starve() -> None:
    jobs = job("array", "a", 2, priority=6, tasks=3, leading_since_s=10), job("small", "a", 1, priority=6)
    made = roomy(GUARD, 3, *jobs)
    assert made.starts == {"array": 1, "small": 1}
    assert made.by_name(made.decision.leading_since_s)["array"] == 1000


def test_the_guard_is_remembered_from_pass_to_pass() -> None:
    quota = OneQuota(8, 8, replace(GUARD, aging_interval_s=10.0))
    quota.running = {"half": 4}
    quota.submit("old", 8, 1)
    for now_s in (0, 50, 149):
        quota.now_s = now_s
        quota.submit(f"s{now_s}", 1, 1)
        assert quota.make_pass().dequeued == [f"s{now_s}"]  # at the cap from 50 on, so head from 150 on
    quota.now_s = 150
    quota.submit("late", 1, 1)
    assert quota.make_pass().dequeued == []


# -- never fits ----------------------------------------------------------------------------------------


def test_what_can_never_fit_is_parked_and_stops_nobody() -> None:
    policy = QueuePolicy(name="fifo", on_never_fit="park")
    made = Pool({"a": Q(share=8, limit=2, policy=policy)}, [[4]], [4]).decide(
        J("never", "a", 3), J("ok", "a", 1)
    )
    assert made.outcomes == {"never": "PARKED", "ok": "STARTS"}

"""One cycle after another, without a cluster: what is carried over, let go, held, and tried anew."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from slurmfair.cycle import Cycle, pause_since
from slurmfair.memory import Memory
from slurmfair.model import UNSET_S, Outcome
from slurmfair.slurm.parse import tag_of
from slurmfair.standing import Standing
from tests.cycles import FREE, GATE, HELD, HOLD, POLICY, change_of, cycle, full, running
from tests.tables import NOW_S

WHOLE = {"wanted": (8, 1, 1)}


def outcome(found: Cycle, job_id: int) -> Outcome:
    queue = found.pools[0].queue
    return Outcome(int(found.pools[0].decision.outcome[queue.entry_id == job_id][0]))


def first_attempt_s(memory: Memory, job_id: int) -> int:
    timers = memory.pools["gpu"].timers
    return int(timers.first_attempt_s[timers.seen.entry_id == job_id][0])


def waiting_since_s(memory: Memory, job_id: int) -> int:
    timers = memory.pools["gpu"].timers
    return int(timers.waiting_since_s[timers.seen.entry_id == job_id][0])


def standing(found: Cycle, job_id: int) -> Standing:
    rows = found.snapshot.reading.jobs.job_id == job_id
    return Standing(int(found.snapshot.standing[rows][0]))


# -- timers ------------------------------------------------------------------------------------------------


def test_a_blocked_head_keeps_its_first_attempt_from_cycle_to_cycle() -> None:
    first = cycle({"job_id": 1} | WHOLE, nodes=full())
    assert first_attempt_s(first.memory, 1) == NOW_S
    second = cycle({"job_id": 1} | WHOLE, nodes=full(), memory=first.memory, now_s=NOW_S + 10)
    assert first_attempt_s(second.memory, 1) == NOW_S


@pytest.mark.parametrize(("gap_s", "pause_s"), [(10, 0), (25, 0), (26, 26), (3600, 3600), (-40, -40)])
def test_a_pause_is_a_gap_of_more_than_two_cycles_or_a_clock_set_back(gap_s: int, pause_s: int) -> None:
    assert pause_since(NOW_S, NOW_S + gap_s, interval_s=10) == pause_s
    assert pause_since(None, NOW_S, interval_s=10) == 0


@pytest.mark.parametrize("pause_s", [3600, -40])
def test_a_pause_moves_first_attempts_and_leaves_waiting_times(pause_s: int) -> None:
    first = cycle({"job_id": 1} | WHOLE, nodes=full())
    after = cycle({"job_id": 1} | WHOLE, nodes=full(), memory=first.memory, now_s=NOW_S + pause_s)
    assert first_attempt_s(after.memory, 1) == NOW_S + pause_s
    assert waiting_since_s(after.memory, 1) == waiting_since_s(first.memory, 1)


def test_a_timeout_runs_out_only_while_the_daemon_tries() -> None:
    rows = [{"job_id": 1} | WHOLE, {"job_id": 2}]
    memory = cycle(*rows, nodes=full(15)).memory
    after = cycle(*rows, nodes=full(15), memory=memory, now_s=NOW_S + 1000)
    assert outcome(after, 2) == Outcome.BEHIND, "the pause does not count"
    for passed_s in range(10, 310, 10):
        after = cycle(*rows, nodes=full(15), memory=after.memory, now_s=NOW_S + 1000 + passed_s)
        assert (outcome(after, 2) == Outcome.STARTS) == (passed_s >= 300)


def test_a_requeued_job_keeps_its_order_time_though_it_ran_before_anybody_looked() -> None:
    first = cycle(running(1, 8, submit_s=NOW_S - 100, eligible_s=NOW_S - 98))
    back = {"job_id": 1, "submit_s": NOW_S + 5, "restarts": 1}
    waits = cycle(
        back | {"eligible_s": NOW_S + 30, "begin_s": NOW_S + 30}, memory=first.memory, now_s=NOW_S + 10
    )
    assert len(waits.pools[0].queue) == 0
    rows = [back | {"eligible_s": NOW_S + 30}, {"job_id": 2, "submit_s": NOW_S - 50}]
    after = cycle(*rows, memory=waits.memory, now_s=NOW_S + 40)
    assert after.pools[0].queue.order_s.tolist() == [NOW_S - 100, NOW_S - 50]
    assert waiting_since_s(after.memory, 1) == NOW_S + 40


def test_a_job_whose_dependency_is_met_enters_at_that_moment() -> None:
    bound = {"job_id": 1, "submit_s": NOW_S - 20, "eligible_s": 0, "dependent": True, "reason": "Dependency"}
    first = cycle(bound)
    after = cycle(bound | {"dependent": False, "reason": "None"}, memory=first.memory, now_s=NOW_S + 10)
    assert after.pools[0].queue.order_s.tolist() == [NOW_S + 10]


# -- reasons that our own writes hide ----------------------------------------------------------------------


def test_a_reason_that_our_write_blanked_is_remembered_until_slurm_gives_one() -> None:
    first = cycle({"job_id": 1, "reason": "QOSGrpGRES"}, {"job_id": 2})
    assert standing(first, 1) == Standing.SITE_LIMIT
    (change,) = first.changes
    written = replace(change, job_id=1)
    memory = first.memory_after([written])
    blank = cycle({"job_id": 1, "reason": "None"}, memory=memory, now_s=NOW_S + 10)
    assert standing(blank, 1) == Standing.SITE_LIMIT
    still = cycle({"job_id": 1, "reason": "None"}, memory=blank.memory, now_s=NOW_S + 20)
    assert standing(still, 1) == Standing.SITE_LIMIT
    told = cycle({"job_id": 1, "reason": "Resources"}, memory=still.memory, now_s=NOW_S + 30)
    assert standing(told, 1) == Standing.OPEN
    later = cycle({"job_id": 1, "reason": "None"}, memory=told.memory, now_s=NOW_S + 40)
    assert standing(later, 1) == Standing.OPEN


def test_what_our_write_released_is_not_taken_for_held() -> None:
    first = cycle({"job_id": 1} | HELD)
    (change,) = first.changes
    assert change.release
    memory = first.memory_after([change])
    after = cycle(
        {
            "job_id": 1,
            "reason": "None",
            "site_factor": change.rank,
            "priority": change.rank,
            "admin_comment": FREE,
        },
        memory=memory,
        now_s=NOW_S + 10,
    )
    assert standing(after, 1) == Standing.OPEN
    assert after.changes == ()


# -- holds that nobody accounts for ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fields",
    [
        {"partition": "elsewhere"},
        {"account": "physics"},
        {"reservation": "course"},
    ],
)
def test_a_hold_of_ours_outside_our_queues_is_released(fields: dict[str, str]) -> None:
    change = change_of(cycle({"job_id": 1} | HELD | fields), 1)
    assert change is not None
    assert (change.release, change.hold, change.tag) == (True, False, FREE)


@pytest.mark.parametrize(
    "fields",
    [
        {"priority": 0, "reason": "JobHeldAdmin"},
        {"priority": 0, "reason": "JobHeldUser", "admin_comment": HOLD},
        {"priority": 0, "reason": "JobHeldAdmin", "admin_comment": HOLD, "cron": True},
        {"priority": 50, "admin_comment": HOLD},
    ],
)
def test_other_peoples_holds_are_left_alone_outside_our_queues(fields: dict[str, object]) -> None:
    assert cycle({"job_id": 1, "account": "physics"} | fields).changes == ()


def test_a_job_that_started_before_our_hold_reached_it_is_released() -> None:
    change = change_of(cycle(running(1, priority=0, admin_comment=f"ticket {HOLD}")), 1)
    assert change is not None
    assert (change.release, change.tag) == (True, f"ticket {FREE}")


def test_stray_holds_count_against_the_budget() -> None:
    rows = [{"job_id": i, "account": "physics"} | HELD for i in range(1, 6)] + [{"job_id": 9}]
    tight = replace(POLICY, cycle=replace(POLICY.cycle, write_budget=2))
    found = cycle(*rows, config=tight)
    assert [change.job_id for change in found.changes] == [1, 2]
    assert found.left_over == 1


# -- heterogeneous jobs ------------------------------------------------------------------------------------


def test_the_components_of_a_heterogeneous_job_share_a_place_and_a_rank() -> None:
    found = cycle(
        {"job_id": 10, "het_id": 10, "wanted": (4, 1, 1)},
        {"job_id": 11, "het_id": 10, "wanted": (2, 1, 1)},
        {"job_id": 12},
    )
    ranks = {change.job_id: change.rank for change in found.changes}
    assert ranks[10] == ranks[11] != ranks[12]


def test_all_components_of_a_heterogeneous_job_are_held_or_none() -> None:
    found = cycle(
        {"job_id": 10, "het_id": 10, "wanted": (6, 1, 1)},
        {"job_id": 11, "het_id": 10, "wanted": (4, 1, 1)},
    )
    assert outcome(found, 10) == Outcome.PARKED, "ten GPUs are more than the limit of eight"
    assert [(change.job_id, change.hold) for change in found.changes] == [(10, True), (11, True)]


# -- jobs that Slurm does not place ------------------------------------------------------------------------


def open_job(job_id: int, **more: object) -> dict[str, object]:
    return {"job_id": job_id, "priority": 10**9, "site_factor": 10**9} | more


def test_a_job_that_slurm_does_not_start_counts_as_blocked_after_place_grace_until_more_is_free() -> None:
    memory = Memory()
    for passed_s in (0, 10, 20, 29):
        found = cycle(open_job(1), nodes=full(14), memory=memory, now_s=NOW_S + passed_s)
        assert outcome(found, 1) == Outcome.STARTS
        memory = found.memory
    for passed_s in (30, 40):
        found = cycle(open_job(1), nodes=full(14), memory=memory, now_s=NOW_S + passed_s)
        assert outcome(found, 1) == Outcome.PLACEMENT
        assert "1 jobs could start by our count" in found.warnings[0]
        memory = found.memory
    less = cycle(open_job(1), nodes=full(15), memory=memory, now_s=NOW_S + 50)
    assert outcome(less, 1) == Outcome.PLACEMENT
    more = cycle(open_job(1), nodes=full(13), memory=less.memory, now_s=NOW_S + 60)
    assert outcome(more, 1) == Outcome.STARTS
    assert not more.warnings
    again = cycle(open_job(1), nodes=full(13), memory=more.memory, now_s=NOW_S + 89)
    assert outcome(again, 1) == Outcome.STARTS, "a new grace from the retry on"


def test_the_policy_treats_a_job_that_is_not_placed_as_any_other_blocked_one() -> None:
    rows = [open_job(1, account="llm-pretrain"), {"job_id": 2, "account": "llm-pretrain"}]
    first = cycle(*rows, nodes=full(14))
    assert outcome(first, 2) == Outcome.STARTS
    stuck = cycle(*rows, nodes=full(14), memory=first.memory, now_s=NOW_S + 20)
    stuck = cycle(*rows, nodes=full(14), memory=stuck.memory, now_s=NOW_S + 40)
    assert outcome(stuck, 1) == Outcome.PLACEMENT
    assert outcome(stuck, 2) == Outcome.BEHIND
    change = change_of(stuck, 2)
    assert change is not None and change.hold
    assert change_of(stuck, 1) is None or not change_of(stuck, 1).hold  # type: ignore[union-attr]


def test_time_spent_held_is_not_time_in_which_slurm_could_have_started_a_job() -> None:
    memory = Memory()
    for passed_s in (0, 20, 40):
        found = cycle({"job_id": 1} | HELD, nodes=full(14), memory=memory, now_s=NOW_S + passed_s)
        assert outcome(found, 1) == Outcome.STARTS
        memory = found.memory


def test_an_array_of_which_tasks_start_is_not_stuck() -> None:
    memory = Memory()
    for passed_s in range(0, 100, 10):
        waiting = 90 - passed_s // 10
        array = open_job(10, array_id=10, tasks_waiting=waiting)
        found = cycle(array, nodes=full(14), memory=memory, now_s=NOW_S + passed_s)
        assert outcome(found, 10) == Outcome.STARTS
        memory = found.memory
    for passed_s, expected in ((110, Outcome.STARTS), (120, Outcome.PLACEMENT)):
        found = cycle(
            open_job(10, array_id=10, tasks_waiting=81),
            nodes=full(14),
            memory=memory,
            now_s=NOW_S + passed_s,
        )
        assert outcome(found, 10) == expected
        memory = found.memory


# -- arrays that are let go in part ------------------------------------------------------------------------


def array(waiting: int, throttle: int = 0, **more: object) -> dict[str, object]:
    return {"job_id": 10, "array_id": 10, "tasks_waiting": waiting, "tasks_throttle": throttle} | more


def tasks(n: int, throttle: int) -> list[dict[str, object]]:
    return [running(11 + i, array_id=10, array_task=i, tasks_throttle=throttle) for i in range(n)]


def test_an_array_within_its_limit_goes_out_without_a_bound() -> None:
    change = change_of(cycle(array(8) | HELD), 10)
    assert change is not None
    assert (change.release, change.throttle) == (True, None)


def test_an_array_larger_than_its_limit_goes_out_with_running_and_admitted_tasks_as_its_bound() -> None:
    change = change_of(cycle(array(50, 20) | HELD, *tasks(3, 20), nodes=full(3)), 10)
    assert change is not None
    assert (change.release, change.throttle) == (True, 8)
    assert change.tag == f"{FREE} slurmfair:throttle=8,was=20"


def test_an_array_that_waits_for_room_is_open_with_a_bound_as_far_as_its_limit_goes() -> None:
    found = cycle(array(50) | HELD, nodes=full())
    assert outcome(found, 10) == Outcome.CAPACITY
    change = change_of(found, 10)
    assert change is not None
    assert (change.release, change.throttle) == (True, 8)


def test_an_array_at_its_limit_is_held_and_gets_its_own_throttle_back() -> None:
    text = f"{FREE} slurmfair:throttle=8,was=20"
    found = cycle(
        array(42, 8, reason="JobArrayTaskLimit", admin_comment=text, priority=10**9, site_factor=10**9),
        *tasks(8, 8),
        nodes=full(8),
    )
    assert outcome(found, 10) == Outcome.LIMIT
    change = change_of(found, 10)
    assert change is not None
    assert (change.hold, change.throttle, change.tag) == (True, 20, HOLD)


def test_an_array_at_the_users_own_throttle_is_in_no_queue() -> None:
    found = cycle(array(30, 4, reason="JobArrayTaskLimit"), *tasks(4, 4), nodes=full(4))
    assert len(found.pools[0].queue) == 0
    assert found.changes == ()


@pytest.mark.parametrize(
    "fields",
    [
        {
            "state": 1,
            "tasks_waiting": 1,
            "array_task": 9,
            "held_resources": (1, 1, 1),
        },  # its last task has started
        {"priority": 0, "reason": "JobHeldUser"},
        {"reason": "QOSGrpGRES"},
        {"account": "physics"},
    ],
)
def test_a_bound_of_ours_on_an_array_outside_our_queues_is_taken_off(fields: dict[str, object]) -> None:
    text = f"x {FREE} slurmfair:throttle=8,was=0"
    change = change_of(cycle(array(3, 8, admin_comment=text) | fields), 10)
    assert change is not None
    assert (change.throttle, change.tag, change.hold, change.release) == (0, f"x {FREE}", False, False)


def test_an_array_that_ended_keeps_what_it_has() -> None:
    text = f"{FREE} slurmfair:throttle=8,was=0"
    assert cycle(array(1, 8, admin_comment=text, state=3)).changes == ()


def test_a_gated_array_is_taken_over_or_released_with_its_bound() -> None:
    gated = {"priority": 0, "reason": "JobHeldUser", "admin_comment": GATE}
    change = change_of(cycle(array(50) | gated), 10)
    assert change is not None
    assert (change.release, change.throttle, tag_of(change.tag or "").value) == (True, 8, FREE)


# -- what a cycle says -------------------------------------------------------------------------------------


def test_every_record_is_shown_with_the_rank_that_it_has_or_gets() -> None:
    found = cycle(
        {"job_id": 1}, {"job_id": 2} | WHOLE, {"job_id": 3, "account": "physics", "site_factor": 77}
    )
    ranks = dict(zip(found.snapshot.reading.jobs.job_id.tolist(), found.rank.tolist(), strict=True))
    assert ranks[1] == next(change.rank for change in found.changes if change.job_id == 1)
    assert ranks[3] == 77
    assert found.n_waiting == 2


def test_a_pool_without_capacity_and_promises_beyond_it_are_told() -> None:
    down = replace(full(0), counts=np.array([False, False]), free=np.array([False, False]))
    warnings = cycle({"job_id": 1}, nodes=down).warnings
    assert any("no capacity in partitions train" in text for text in warnings)
    assert any("deserved 16 > capacity 0" in text for text in warnings)


def test_the_first_attempt_of_a_job_that_starts_stays_unset() -> None:
    assert first_attempt_s(cycle({"job_id": 1}).memory, 1) == UNSET_S

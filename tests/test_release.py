"""Letting go of our own holds and bounds, and only of ours."""

from __future__ import annotations

import numpy as np

from slurmfair.model import Change
from slurmfair.release import releases, silent_for_s, stays_closed
from tests.cycles import FREE, GATE, HELD, HOLD, POLICY
from tests.tables import jobs_of

WHY = "all holds of slurmfair are released"
BOUND = f"ticket {FREE} slurmfair:throttle=4,was=0"


def test_our_holds_and_the_gates_are_released_ids_ascending() -> None:
    gated = {"priority": 0, "reason": "JobHeldUser", "admin_comment": GATE}
    jobs = jobs_of({"job_id": 3} | HELD, {"job_id": 1} | gated, {"job_id": 2})
    assert releases(jobs) == (
        Change(1, release=True, tag=FREE, why=WHY),
        Change(3, release=True, tag=FREE, why=WHY),
    )


def test_nobody_elses_hold_is_touched() -> None:
    jobs = jobs_of(
        {"job_id": 1, "priority": 0, "reason": "JobHeldAdmin"},
        {"job_id": 2, "priority": 0, "reason": "JobHeldUser", "admin_comment": HOLD},
        {"job_id": 3, "priority": 0, "reason": "JobHeldUser"},
        {
            "job_id": 4,
            "priority": 0,
            "reason": "JobHeldAdmin",
            "reason_text": "License",
            "admin_comment": HOLD,
        },
        {"job_id": 5, "priority": 7, "admin_comment": HOLD},
    )
    assert releases(jobs) == ()


def test_an_array_that_was_let_go_in_part_gets_its_own_throttle_back() -> None:
    array = {"array_id": 9, "tasks_waiting": 5, "tasks_throttle": 4, "admin_comment": BOUND}
    jobs = jobs_of({"job_id": 9} | array, {"job_id": 10, "array_task": 0, "state": 1} | array)
    assert releases(jobs) == (Change(9, throttle=0, tag=f"ticket {FREE}", why=WHY),)
    ended = jobs_of({"job_id": 9, "state": 3} | array)
    assert releases(ended) == ()
    changed = jobs_of({"job_id": 9} | array | {"tasks_throttle": 6})
    assert releases(changed) == ()


def test_strict_quotas_stay_closed() -> None:
    jobs = jobs_of({"job_id": 1} | HELD, {"job_id": 2} | HELD)
    assert [change.job_id for change in releases(jobs, np.array([True, False]))] == [2]
    assert stays_closed(POLICY, jobs).tolist() == [False, False]


def test_silence_is_counted_from_the_last_cycle_or_the_first_question_and_is_never_negative() -> None:
    assert silent_for_s(100, 40, 0) == 60
    assert silent_for_s(100, None, 90) == 10
    assert silent_for_s(100, 130, 0) == 0

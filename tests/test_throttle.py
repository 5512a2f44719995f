"""How many tasks of an array run at once: the user's own bound, ours on top of it, and back again."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from slurmfair.model import JobTable
from slurmfair.slurm.parse import Throttle, Waits, throttle_of, with_throttle
from slurmfair.standing import WAITS, reason_classes
from slurmfair.throttle import (
    LEAVE,
    restored,
    startable_tasks,
    text_with_throttle,
    throttles_of,
    wanted_throttle,
    without_ours,
)
from tests.tables import jobs_of

NOTE = "slurmfair:free slurmfair:throttle=8,was=20"


def array(
    waiting: int = 40, throttle: int = 8, comment: str = NOTE, running: int = 8, **more: object
) -> JobTable:
    """Return an array of id 10 with some running tasks, and a plain job of id 99."""
    lead = {
        "job_id": 10,
        "array_id": 10,
        "tasks_waiting": waiting,
        "tasks_throttle": throttle,
        "admin_comment": comment,
    }
    tasks = [
        {
            "job_id": 11 + i, "array_id": 10, "array_task": i, "state": 1, "tasks_throttle": throttle,
            "admin_comment": comment, "held_resources": (1, 1, 1),
        }
        for i in range(running)
    ]  # fmt: skip
    return jobs_of(lead | more, *tasks, {"job_id": 99, "admin_comment": comment})


def wanted(jobs: JobTable, tasks: int, may_start: int, row: int = 0) -> int:
    found = wanted_throttle(
        jobs, throttles_of(jobs), np.array([row]), np.array([tasks]), np.array([may_start])
    )
    return int(found[0])


def test_our_bound_hides_the_users_own_for_the_whole_array_and_for_nobody_else() -> None:
    throttles = throttles_of(array())
    assert throttles.own.tolist() == [20] * 9 + [0]
    assert throttles.ours.tolist() == [8] * 9 + [0]
    assert throttles.noted.tolist() == [True] + [False] * 9
    assert throttles.at_work.tolist() == [8] * 9 + [0]


def test_a_bound_that_somebody_changed_is_the_arrays_own_from_then_on() -> None:
    jobs = array(throttle=5)
    throttles = throttles_of(jobs)
    assert throttles.own[0] == 5
    assert not throttles.ours.any()
    assert wanted(jobs, tasks=0, may_start=0) == 5, "written once more, so that the note goes"
    assert restored(jobs, throttles, 0, "").tag == "slurmfair:free"


def test_a_note_on_a_task_that_was_split_off_says_nothing() -> None:
    jobs = jobs_of(
        {"job_id": 12, "array_id": 10, "array_task": 3, "tasks_throttle": 8, "admin_comment": NOTE}
    )
    throttles = throttles_of(jobs)
    assert not throttles.noted.any()
    assert wanted(jobs, tasks=1, may_start=0) == LEAVE


def test_the_user_lets_start_what_his_own_bound_leaves_whatever_ours_is() -> None:
    jobs = array()
    assert startable_tasks(jobs, throttles_of(jobs)).tolist()[0] == 12
    free = array(comment="slurmfair:free slurmfair:throttle=8,was=0")
    assert startable_tasks(free, throttles_of(free)).tolist()[0] == 40


def test_suspended_tasks_count_as_slurm_counts_them() -> None:
    jobs = jobs_of(
        {"job_id": 10, "array_id": 10, "tasks_waiting": 5, "tasks_throttle": 3},
        {"job_id": 11, "array_id": 10, "array_task": 0, "state": 2},
        {"job_id": 12, "array_id": 10, "array_task": 1, "state": 1},
        {"job_id": 13, "array_id": 10, "array_task": 2, "state": 3},
    )
    assert startable_tasks(jobs, throttles_of(jobs)).tolist()[0] == 1


def test_a_task_that_only_our_bound_keeps_back_waits_its_turn() -> None:
    limited = array(reason="JobArrayTaskLimit")
    reasons = without_ours(limited, reason_classes(limited), throttles_of(limited))
    assert WAITS[reasons[0]] is Waits.TURN
    own = array(reason="JobArrayTaskLimit", comment="")
    reasons = without_ours(own, reason_classes(own), throttles_of(own))
    assert WAITS[reasons[0]] is Waits.CLEARS
    held = array(reason="JobHeldUser", priority=0)
    reasons = without_ours(held, reason_classes(held), throttles_of(held))
    assert WAITS[reasons[0]] is Waits.HELD


def test_a_part_goes_out_with_running_and_admitted_tasks_together() -> None:
    jobs = array(comment="", throttle=0, running=3)
    assert wanted(jobs, tasks=40, may_start=5) == 8
    assert text_with_throttle("ticket 4", 8, 0) == "ticket 4 slurmfair:free slurmfair:throttle=8,was=0"


def test_the_own_bound_comes_back_when_all_may_start_or_none() -> None:
    assert wanted(array(), tasks=12, may_start=12) == 20
    assert wanted(array(), tasks=12, may_start=0) == 20
    assert text_with_throttle(NOTE, 20, 20) == "slurmfair:free"


def test_nothing_is_written_while_the_bound_is_right() -> None:
    assert wanted(array(running=6), tasks=14, may_start=2) == LEAVE
    assert wanted(array(comment="", throttle=20), tasks=12, may_start=12) == LEAVE
    assert wanted(array(), tasks=1, may_start=1, row=9) == LEAVE, "a plain job has no bound"


@given(
    own=st.integers(0, 30),
    running=st.integers(0, 10),
    waiting=st.integers(1, 50),
    share=st.floats(0, 1),
)
def test_what_goes_out_is_read_back_as_ours_and_lets_start_what_was_admitted(
    own: int, running: int, waiting: int, share: float
) -> None:
    before = array(waiting, own, "note of a colleague", running)
    tasks = int(startable_tasks(before, throttles_of(before))[0])
    admitted = int(share * tasks)
    bound = wanted(before, tasks, admitted)
    if not 0 < admitted < tasks:
        assert bound == LEAVE
        return
    assert bound == running + admitted
    text = text_with_throttle("note of a colleague", bound, own)
    after = array(waiting, bound, text, running)
    throttles = throttles_of(after)
    assert (throttles.own[0], throttles.ours[0]) == (own, bound)
    assert startable_tasks(after, throttles)[0] == tasks
    assert wanted(after, tasks, admitted) == LEAVE
    assert with_throttle(text, None) == "note of a colleague slurmfair:free"
    assert throttle_of(text) == Throttle(bound, own)

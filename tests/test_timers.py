"""What is remembered of each entry, and what resets it: every line of the table in SEMANTICS 3."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmfair.model import UNSET_S
from slurmfair.timers import (
    LOOK_DELAY_S,
    Remembered,
    Seen,
    advance,
    after_pass,
    after_pause,
    eligible_since,
    nothing_remembered,
)  # fmt: skip
from tests.small_pool import Q, job, one_kind

PATHS = ("a", "b")
POLICIES = ("fifo", "fifo")
ENTERED_S, TRIED_S, NOW_S = 100, 150, 500


def seen(*rows: dict[str, Any], path: tuple[str, ...] = PATHS, policy: tuple[str, ...] = POLICIES) -> Seen:
    """Return what Slurm shows; what a row leaves out is that of a plain job that waits in quota a."""
    usual = {
        "entry_id": 7,
        "submit_s": 90,
        "leaf": 0,
        "job_priority": 5,
        "need": (1, 1, 1),
        "restarts": 0,
        "user_requeued_s": UNSET_S,
        "user_held": False,
        "bound": False,
        "since_s": ENTERED_S,
    }
    kinds = {"leaf": np.int32, "user_held": np.bool_, "bound": np.bool_}
    columns = {
        name: np.array([{**usual, **row}[name] for row in rows], kinds.get(name, np.int64)) for name in usual
    }
    columns["need"] = columns["need"].reshape(len(rows), 3)
    return Seen(**columns, path=path, policy=policy)


def memory(**row: Any) -> Remembered:
    """Return the memory of one entry that entered at 100 and failed first at 150."""
    first = advance(nothing_remembered(), seen(row), ENTERED_S)
    tried = np.array([TRIED_S])
    return replace(first, first_attempt_s=tried, leading_since_s=tried)


def times(memory: Remembered, row: int = 0) -> tuple[int, int, int]:
    return (
        int(memory.order_s[row]),
        int(memory.waiting_since_s[row]),
        int(memory.first_attempt_s[row]),
    )


KEEP, NOW, CLEAR = "keep", "now", "clear"
VALUES = [
    {KEEP: ENTERED_S, NOW: NOW_S},
    {KEEP: ENTERED_S, NOW: NOW_S},
    {KEEP: TRIED_S, CLEAR: UNSET_S},
]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        pytest.param({}, {"restarts": 1}, (KEEP, NOW, CLEAR), id="system requeue"),
        pytest.param({}, {"restarts": 1, "user_requeued_s": NOW_S}, (NOW, NOW, CLEAR), id="user requeue"),
        pytest.param(
            {"restarts": 1},
            {"restarts": 1, "user_requeued_s": NOW_S},
            (NOW, KEEP, KEEP),
            id="a user's, as is known later",
        ),
        pytest.param({}, {"user_held": True}, (KEEP, KEEP, KEEP), id="user hold alone"),
        pytest.param({}, {"job_priority": 6}, (KEEP, KEEP, CLEAR), id="priority changed"),
        pytest.param({}, {"need": (2, 1, 1)}, (KEEP, KEEP, CLEAR), id="need raised"),
        pytest.param({}, {"need": (1, 1, 0)}, (KEEP, KEEP, CLEAR), id="need lowered"),
        pytest.param({}, {"leaf": 1}, (KEEP, NOW, CLEAR), id="moved to another quota"),
        pytest.param({}, {}, (KEEP, KEEP, KEEP), id="nothing, or our own hold and release"),
        pytest.param({}, {"since_s": 400}, (KEEP, KEEP, KEEP), id="Slurm's clock begun anew by our hold"),
        pytest.param(
            {"restarts": 1, "user_requeued_s": ENTERED_S - 1},
            {"restarts": 2, "user_requeued_s": ENTERED_S - 1},
            (KEEP, NOW, CLEAR),
            id="system requeue after one that a user asked for, or another job of this id",
        ),
    ],
)
def test_the_reset_table(
    before: dict[str, Any], after: dict[str, Any], expected: tuple[str, str, str]
) -> None:
    got = advance(memory(**before), seen(after), NOW_S)
    assert times(got) == tuple(values[word] for values, word in zip(VALUES, expected, strict=True))
    assert (got.leading_since_s[0] == UNSET_S) == (expected[2] == CLEAR)


def test_a_release_from_a_users_hold_is_a_new_place() -> None:
    held = advance(memory(), seen({"user_held": True}), 300)
    assert times(held) == (ENTERED_S, ENTERED_S, TRIED_S)
    assert times(advance(held, seen({}), NOW_S)) == (NOW_S, NOW_S, UNSET_S)


def test_a_dependency_that_is_met_lets_the_job_enter_now() -> None:
    waits = advance(nothing_remembered(), seen({"bound": True, "since_s": 0}), ENTERED_S)
    assert times(waits) == (UNSET_S, UNSET_S, UNSET_S)
    assert times(advance(waits, seen({"since_s": 0}), NOW_S)) == (NOW_S, NOW_S, UNSET_S)


def test_the_time_that_slurm_gives_is_taken_for_the_first_entry() -> None:
    late = advance(nothing_remembered(), seen({"since_s": 480}), NOW_S)
    assert times(late) == (480, 480, UNSET_S)
    ahead = advance(nothing_remembered(), seen({"since_s": 501}), NOW_S)
    assert times(ahead) == (NOW_S, NOW_S, UNSET_S)


def test_a_second_dependency_keeps_the_place() -> None:
    bound = advance(memory(), seen({"bound": True}), 300)
    assert times(advance(bound, seen({}), NOW_S)) == (ENTERED_S, NOW_S, UNSET_S)


def test_a_job_that_is_held_from_the_start_enters_at_its_release() -> None:
    held = advance(nothing_remembered(), seen({"user_held": True}), ENTERED_S)
    assert times(held) == (UNSET_S, UNSET_S, UNSET_S)
    assert times(advance(held, seen({"since_s": 0}), NOW_S)) == (NOW_S, NOW_S, UNSET_S)


def test_a_preempted_job_keeps_its_order_time_through_its_run() -> None:
    running = advance(memory(), seen({"bound": True}), 300)
    assert times(advance(running, seen({"restarts": 1}), NOW_S)) == (ENTERED_S, NOW_S, UNSET_S)


def test_a_requeued_job_is_the_same_although_slurm_dates_its_submission_anew() -> None:
    back = advance(memory(), seen({"restarts": 1, "submit_s": 300}), NOW_S)
    assert times(back) == (ENTERED_S, NOW_S, UNSET_S)
    bound = advance(memory(), seen({"restarts": 1, "submit_s": 300, "bound": True}), NOW_S - 5)
    assert times(advance(bound, seen({"restarts": 1, "submit_s": 300}), NOW_S)) == (ENTERED_S, NOW_S, UNSET_S)


def test_another_job_with_a_reused_id_is_a_stranger() -> None:
    other = advance(memory(), seen({"submit_s": 480, "since_s": 480}), NOW_S)
    assert times(other) == (480, 480, UNSET_S)


@pytest.mark.parametrize(
    ("eligible_s", "watched", "ours", "expected"),
    [
        pytest.param(0, False, False, 90, id="Slurm has not looked at it"),
        pytest.param(92, False, False, 90, id="Slurm's first look is not its place"),
        pytest.param(92, True, False, 92, id="we saw that something kept it back"),
        pytest.param(0, True, False, 0, id="so we did, and Slurm has not looked at it since"),
        pytest.param(
            91 + LOOK_DELAY_S, False, False, 91 + LOOK_DELAY_S, id="something kept it back before our time"
        ),
        pytest.param(400, False, True, 90, id="we held it, and lost our memory"),
    ],
)
def test_a_job_is_eligible_from_its_submission_unless_something_kept_it_back(
    eligible_s: int, watched: bool, ours: bool, expected: int
) -> None:
    given = np.array([90]), np.array([eligible_s]), np.array([watched]), np.array([ours])
    assert eligible_since(*given).tolist() == [expected]


def test_a_switch_of_the_policy_clears_first_attempts_of_that_quota_only() -> None:
    rows = {"entry_id": 7}, {"entry_id": 8, "leaf": 1}
    before = advance(nothing_remembered(), seen(*rows), ENTERED_S)
    before = replace(before, first_attempt_s=np.array([TRIED_S, TRIED_S]))
    after = advance(before, seen(*rows, policy=("balance", "fifo")), NOW_S)
    assert after.first_attempt_s.tolist() == [UNSET_S, TRIED_S]
    assert after.order_s.tolist() == [ENTERED_S, ENTERED_S]


def test_a_reload_that_renumbers_quotas_moves_nobody() -> None:
    after = advance(memory(), seen({"leaf": 2}, path=("new", "b", "a"), policy=("fifo",) * 3), NOW_S)
    assert times(after) == (ENTERED_S, ENTERED_S, TRIED_S)


def test_a_quota_that_is_gone_has_moved_its_jobs() -> None:
    after = advance(memory(), seen({"leaf": 0}, path=("b",), policy=("fifo",)), NOW_S)
    assert times(after) == (ENTERED_S, NOW_S, UNSET_S)


def test_the_same_id_with_another_submission_is_another_job() -> None:
    assert times(advance(memory(), seen({"submit_s": 400, "since_s": 400}), NOW_S)) == (400, 400, UNSET_S)


def test_others_that_come_and_go_change_nothing() -> None:
    after = advance(memory(), seen({"entry_id": 3}, {}, {"entry_id": 9}), NOW_S)
    assert times(after, 1) == (ENTERED_S, ENTERED_S, TRIED_S)
    gone = advance(after, seen({"entry_id": 3}, {"entry_id": 9}), NOW_S + 1)
    assert gone.seen.entry_id.tolist() == [3, 9] and len(gone) == 2
    assert times(advance(gone, seen({"since_s": 0}), NOW_S + 2)) == (NOW_S + 2, NOW_S + 2, UNSET_S)


def test_after_a_pass_the_timers_are_those_of_the_decision() -> None:
    made = one_kind({"a": Q(share=4)}, 1).decide(job("one", "a", 1), job("two", "a", 1))
    rows = {"entry_id": 7}, {"entry_id": 8}, {"entry_id": 9}
    before = advance(nothing_remembered(), seen(*rows), ENTERED_S)
    after = after_pass(before, np.array([0, 2]), made.decision)
    assert after.first_attempt_s.tolist() == [UNSET_S, UNSET_S, 1000]
    assert before.first_attempt_s.tolist() == [UNSET_S] * 3


def test_an_outage_moves_first_attempts_but_not_waiting_times() -> None:
    after = after_pause(memory(), 60)
    assert times(after) == (ENTERED_S, ENTERED_S, TRIED_S + 60)
    assert after.leading_since_s[0] == TRIED_S + 60
    untried = advance(nothing_remembered(), seen({}), ENTERED_S)
    assert times(after_pause(untried, 60)) == (ENTERED_S, ENTERED_S, UNSET_S)


def test_a_clock_set_back_moves_first_attempts_back() -> None:
    assert times(after_pause(memory(), -40)) == (ENTERED_S, ENTERED_S, TRIED_S - 40)


@given(
    st.lists(st.integers(1, 40), unique=True, max_size=20),
    st.lists(st.integers(1, 40), unique=True, max_size=20),
)
def test_whoever_was_there_before_keeps_his_times(before: list[int], after: list[int]) -> None:
    old, new = sorted(before), sorted(after)
    first = advance(nothing_remembered(), seen(*({"entry_id": n, "since_s": 100 + n} for n in old)), 300)
    second = advance(first, seen(*({"entry_id": n, "since_s": 0} for n in new)), NOW_S)
    assert second.order_s.tolist() == [100 + n if n in old else NOW_S for n in new]

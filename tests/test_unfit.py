"""Which jobs that can never fit are cancelled (`on_never_fit: cancel`), and when not yet."""

import numpy as np

from slurmfair.unfit import SURE_AFTER, Unfit, found_unfit, nothing_unfit, to_cancel

EVERY_S = 10
SURE_S = SURE_AFTER * EVERY_S


def passes(*found: tuple[int, list[int]]) -> Unfit:
    """Return the memory after passes at these moments with these ids found."""
    unfit = nothing_unfit()
    for now_s, ids in found:
        unfit = found_unfit(unfit, np.array(ids, np.int64), now_s)
    return unfit


def cancelled(unfit: Unfit, now_s: int) -> list[int]:
    ids = np.arange(1, 10)
    return ids[to_cancel(unfit, ids, EVERY_S, now_s)].tolist()


def test_an_entry_is_cancelled_only_after_a_row_of_passes_found_it_unfit() -> None:
    unfit = passes((0, [3]), (SURE_S - 1, [3, 2]))
    assert cancelled(unfit, SURE_S - 1) == []
    unfit = found_unfit(unfit, np.array([2, 3]), SURE_S)
    assert cancelled(unfit, SURE_S) == [3]
    assert unfit.since_s.tolist() == [SURE_S - 1, 0]


def test_one_pass_that_finds_room_for_it_begins_the_row_anew() -> None:
    assert cancelled(passes((0, [3]), (30, []), (60, [3]), (SURE_S + 50, [3])), SURE_S + 50) == []
    assert cancelled(passes((0, [3]), (30, [3]), (SURE_S, [3])), SURE_S) == [3]


def test_a_clock_that_was_set_back_makes_the_wait_begin_anew() -> None:
    unfit = passes((1000, [3]), (500, [3]))
    assert unfit.since_s.tolist() == [500]
    assert cancelled(unfit, 500 + SURE_S - 1) == []


def test_after_a_restart_nothing_is_known() -> None:
    assert cancelled(nothing_unfit(), 10**9) == []

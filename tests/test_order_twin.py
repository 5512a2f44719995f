"""The kernel agrees with the slow model of tests/reference.py on pools that hypothesis makes."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings

from slurmfair.order import rank_order
from tests.reference import order_out
from tests.strategies import PoolCase, ageing, contended, pools


def check_agreement(case: PoolCase) -> None:
    made, decision = case.slowly(), case.decide()

    def column(name: str) -> list[object]:
        return [getattr(entry, name) for entry in made.entries]

    assert decision.effective.tolist() == column("effective")
    assert decision.position.tolist() == column("position")
    assert decision.outcome.tolist() == column("outcome")
    assert decision.starts.tolist() == column("starts")
    assert decision.attempt.tolist() == column("attempt")
    assert decision.blocker.tolist() == column("blocker")
    assert decision.first_attempt_s.tolist() == column("first_attempt_s")
    assert decision.reserved.tolist() == column("reserved")
    assert decision.allocated.tolist() == made.allocated
    assert decision.room_s.tolist() == [made.room_s(entry) for entry in made.entries]
    assert decision.leading_since_s.tolist() == [made.leading_since(entry) for entry in made.entries]
    made.open_up()
    assert decision.may_start.tolist() == column("may_start")
    assert decision.place_open.tolist() == column("place_open")
    assert rank_order(decision, case.queue).tolist() == order_out(made)
    assert np.array_equal(np.sort(rank_order(decision, case.queue)), np.flatnonzero(decision.open))


@settings(max_examples=300, deadline=None)
@given(pools())
def test_the_kernel_decides_as_the_slow_model(case: PoolCase) -> None:
    check_agreement(case)


@settings(max_examples=300, deadline=None)
@given(contended())
def test_the_kernel_holds_back_as_the_slow_model(case: PoolCase) -> None:
    check_agreement(case)


@settings(max_examples=200, deadline=None)
@given(ageing())
def test_the_kernel_guards_against_starvation_as_the_slow_model(case: PoolCase) -> None:
    check_agreement(case)

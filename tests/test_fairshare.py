"""Division: the worked examples of SEMANTICS 7.9, cases, and laws against the slow model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from math import inf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurmfair.fairshare import divided, rounded, scaled
from slurmfair.model import Floats, Quotas
from tests import reference_share as reference
from tests import small_pool
from tests.small_pool import job, one_kind
from tests.trees import Q, column, division_of, quotas_of, shares


def about(*values: float | Fraction) -> object:
    return pytest.approx([float(value) for value in values], rel=1e-12, abs=1e-12)


def part(above: int, below: int = 1) -> Fraction:
    return Fraction(above, below)


def three_to_one(u_a: float | Fraction, u_b: float | Fraction) -> tuple[Q, Q]:
    return Q("a", weight=3, u=float(u_a)), Q("b", weight=1, u=float(u_b))


# -- SEMANTICS 7.9 ---------------------------------------------------------------------------------------


def test_t1_the_published_example_ends_at_60_to_40() -> None:
    division = division_of(100, *three_to_one(0.9, 0.1))
    assert column(division.due) == about(part(3, 4), part(1, 4))
    assert column(division.corrected) == about(part(3, 5), part(2, 5))
    assert column(division.effective) == about(part(3, 5), part(2, 5))
    assert column(division.share) == about(60, 40)


@pytest.mark.parametrize(
    ("k", "a", "b"),
    [
        (0, part(3, 4), part(1, 4)),
        (0.25, part(57, 80), part(23, 80)),
        (0.5, part(27, 40), part(13, 40)),
        (2, part(9, 20), part(11, 20)),
        (5, part(0), part(1)),
        (10, part(0), part(1)),
    ],
)
def test_t2_k_sets_how_far_the_weight_is_corrected(k: float, a: Fraction, b: Fraction) -> None:
    assert column(division_of(100, *three_to_one(0.9, 0.1), k=k).effective) == about(a, b)


@pytest.mark.parametrize("k", [0, 1, 5])
def test_t3_without_history_the_plain_weights_hold(k: float) -> None:
    assert column(division_of(100, *three_to_one(0, 0), k=k).effective) == about(part(3, 4), part(1, 4))


@pytest.mark.parametrize("k", [1, 5])
def test_t4_use_as_due_changes_nothing(k: float) -> None:
    division = division_of(100, *three_to_one(0.75, 0.25), k=k)
    assert column(division.effective) == about(part(3, 4), part(1, 4))


def test_t5_an_idle_cluster_corrects_less() -> None:
    half = division_of(100, *three_to_one(part(9, 20), part(1, 20)))
    assert column(half.corrected) == about(part(21, 20), part(9, 20))
    assert column(half.effective) == about(part(7, 10), part(3, 10))
    tenth = division_of(100, *three_to_one(part(9, 100), part(1, 100)))
    assert column(tenth.effective) == about(part(141, 190), part(49, 190))


def blog(u_llm: float, u_vision: float, llm_wants: float = 1000, k: float = 1.0) -> list[float]:
    """The story of LLM, who holds 10 and waits for 50, and Vision, who holds 70 of 100."""
    llm = Q("llm", deserved=30, u=u_llm, wants=llm_wants)
    return shares(100, llm, Q("vision", deserved=20, u=u_vision), k=k)


def test_t8_the_waiting_gang_becomes_entitled() -> None:
    division = division_of(100, Q("llm", deserved=30), Q("vision", deserved=20, u=5 / 7))
    assert column(division.corrected) == about(1, part(2, 7))
    assert column(division.effective) == about(part(7, 9), part(2, 9))
    assert blog(0, 5 / 7)[0] == pytest.approx(620 / 9)
    assert blog(0, 5 / 7, llm_wants=60) == about(60, 40)
    assert blog(0, 5 / 7, k=0) == about(55, 45)


def test_t8b_the_other_bases_correct_more_and_less() -> None:
    assert blog(0, 1) == about(80, 20)
    assert blog(0.1, 0.7) == about(67.5, 32.5)


@pytest.mark.parametrize(("u_llm", "u_vision", "k"), [(0, 5 / 7, 7 / 23), (0, 1, 1 / 5), (0.1, 0.7, 5 / 14)])
def test_t8_smallest_k_that_entitles_the_gang(u_llm: float, u_vision: float, k: float) -> None:
    assert blog(u_llm, u_vision, k=k)[0] == pytest.approx(60)
    assert blog(u_llm, u_vision, k=k * 0.999)[0] < 60


def test_t9_use_within_deserved_does_not_count_unless_all_counts() -> None:
    a, b = Q("a", deserved=50, wants=100), Q("b", wants=100, u=1)
    assert shares(100, a, b) == about(100, 0)
    assert shares(100, replace(a, u=0.5), replace(b, u=0.5)) == about(75, 25)


def test_t10_history_counts_only_within_a_priority() -> None:
    a = Q("a", priority=200, wants=10, u=0.9)
    others = Q("b", weight=3, u=0.09), Q("c", weight=1, u=0.01)
    assert shares(40, a, *others) == about(10, part(423, 19), part(147, 19))
    assert shares(40, replace(a, wants=50), *others) == about(40, 0, 0)


def test_t11_what_a_capped_quota_leaves_is_divided_afresh() -> None:
    rows = Q("a", weight=2, u=0.5, wants=10), Q("b", u=0.25), Q("c")
    division = division_of(60, *rows)
    assert column(division.effective) == about(part(2, 5), part(1, 5), part(2, 5))
    assert column(division.share) == about(10, 18, 32)
    assert division.rounds == 2


def test_t12_what_nobody_wants_stays_unassigned() -> None:
    rows = (
        Q("a", deserved=10, weight=0, wants=50),
        Q("b", limit=25, u=0.5),
        Q("c", deserved=5, wants=8),
    )
    assert shares(50, *rows) == about(10, 25, 8)


def nested(u_x1: float, u_x2: float) -> list[float]:
    return shares(
        100,
        Q("x", deserved=40, u=0.75),
        Q("y", deserved=20, u=0.25),
        Q("x1", deserved=20, weight=3, u=u_x1, parent="x"),
        Q("x2", deserved=20, weight=1, u=u_x2, parent="x"),
    )


def test_t13_children_divide_what_their_parent_was_given() -> None:
    assert nested(0.9, 0.1) == about(50, 50, 26, 24)
    assert nested(0.27, 0.03) == about(50, 50, part(463, 17), part(387, 17))


@pytest.mark.parametrize(
    ("w", "k", "u"),
    [(2, k, u) for k, u in ((1, 1), (2, 3 / 4), (4, 5 / 8), (10, 11 / 20))]
    + [(4, k, u) for k, u in ((0.5, 3 / 4), (1, 1 / 2), (2, 3 / 8), (4, 5 / 16), (10, 11 / 40))],
)
def test_t15_the_share_of_the_first_round_ends_at_w_times_1_plus_k_over_k(w: int, k: float, u: float) -> None:
    others = [Q(f"b{i}") for i in range(w - 1)]
    assert division_of(100, Q("a", u=u), *others, k=k).corrected[0, 0] == 0
    assert division_of(100, Q("a", u=u - 1e-6), *others, k=k).corrected[0, 0] > 0


def test_t15_half_a_k_never_takes_all_from_one_of_two() -> None:
    assert shares(100, Q("a", u=1), Q("b"), k=0.5)[0] > 0


@pytest.mark.parametrize(
    ("k", "expected"),
    [(0.5, (0.8377, 0.7808, 0.7538)), (1, (0.8112, 0.7650, 0.7509)), (4, (0.7566, 0.7502, 0.7500))],
)
def test_t16_under_steady_demand_use_goes_to_what_is_due(k: float, expected: tuple[float, ...]) -> None:
    hour = 0.5 ** (1 / 24)
    used, seen = 1.0, {}
    for hours in range(1, 97):
        share = shares(1, *three_to_one(used, 1 - used), k=k)[0]
        used = used * hour + share * (1 - hour)
        seen[hours] = used
    assert [seen[24], seen[48], seen[96]] == pytest.approx(expected, abs=5e-5)


def test_t17_a_minute_of_history_is_no_history() -> None:
    assert column(division_of(1, Q("a", u=1), Q("b")).effective) == about(0, 1)
    floored = division_of(1, Q("a", u=1 / 60), Q("b"))
    assert column(floored.effective) == about(part(59, 119), part(60, 119))


def test_t18_rounding_keeps_the_sum() -> None:
    pair = quotas_of([Q("b"), Q("c")])
    assert column(rounded(pair, np.array([[423 / 19], [147 / 19]]))) == [22, 8]
    three = quotas_of([Q("a"), Q("b"), Q("c")])
    assert column(rounded(three, np.full((3, 1), 10 / 3))) == [4, 3, 3]
    youngest_first = rounded(three, np.full((3, 1), 10 / 3), seniority=np.array([2, 1, 0]))
    assert column(youngest_first) == [3, 3, 4]


def test_t19_a_newcomer_is_served_first() -> None:
    rows = Q("a", u=0.5), Q("b", u=0.5), Q("c")
    assert column(division_of(1, *rows).effective) == about(part(1, 6), part(1, 6), part(2, 3))
    assert column(division_of(1, *rows, k=2).effective) == about(0, 0, 1)


def test_t20_a_zero_weight_never_strands_capacity() -> None:
    assert shares(50, Q("a", u=1), Q("b", wants=10)) == about(40, 10)


def test_t23_deserved_beyond_capacity_is_given_in_full_and_said() -> None:
    division = division_of(50, Q("a", deserved=40), Q("b", deserved=30))
    assert column(division.share) == about(40, 30)
    assert division.short.any()
    assert division.short[0, 0] == 20


# -- cases -----------------------------------------------------------------------------------------------


def test_case_1_weight_zero_without_use_stays_last() -> None:
    division = division_of(8, Q("scav", weight=0), Q("a", u=0.4))
    assert column(division.share) == about(0, 8)
    assert column(division.effective) == about(0, 1)
    assert shares(8, Q("scav", weight=0, deserved=2), Q("a", u=0.4)) == about(2, 6)
    assert np.isfinite(division.corrected).all()


@pytest.mark.parametrize(("k", "expected"), [(0, (15, 5)), (1, (12, 8)), (10, (0, 20))])
def test_case_2_ninety_to_ten(k: float, expected: tuple[float, float]) -> None:
    a, b = (replace(q, wants=20) for q in three_to_one(0.9, 0.1))
    assert shares(20, a, b, k=k) == about(*expected)
    with_deserved = shares(24, replace(a, deserved=2, wants=22), replace(b, deserved=2, wants=22), k=k)
    assert with_deserved == about(*(share + 2 for share in expected))


@pytest.mark.parametrize(
    ("capacity", "weights", "expected"),
    [(10, (1, 1, 1), [4, 3, 3]), (7, (2, 1, 1), [3, 2, 2]), (1, (1, 1, 1), [1, 0, 0])],
)
def test_case_3_whole_gpus_add_up(capacity: float, weights: Sequence[int], expected: list[float]) -> None:
    rows = [Q(f"q{i}", weight=w) for i, w in enumerate(weights)]
    share = division_of(capacity, *rows).share
    whole = column(rounded(quotas_of(rows), share))
    assert whole == expected
    assert sum(whole) == capacity


def test_case_10_no_capacity_is_no_share() -> None:
    division = division_of(0, Q("a", deserved=4, wants=0), Q("b", wants=8))
    assert column(division.share) == [0, 0]
    assert not division.short.any()


def test_case_16_a_burst_is_charged_as_it_is_ordered_and_leaves_no_residue() -> None:
    owed = shares(10, Q("a", wants=100), Q("b", wants=5))
    assert owed == about(5, 5)
    pool = one_kind({"a": small_pool.Q(share=owed[0]), "b": small_pool.Q(share=owed[1])}, 10)
    burst = [job(f"a{n:03}", "a", 1, order_s=n) for n in range(100)]
    late = [job(f"b{n}", "b", 1, order_s=500) for n in range(5)]
    first = pool.decide(*burst, *late)
    assert (first.allocated("a"), first.allocated("b")) == (5, 5)
    cancelled = [one for one in burst if one.name != "a000"]
    for _ in range(1000):
        again = pool.decide(*cancelled, *late)
    assert (again.allocated("a"), again.allocated("b")) == (5, 5)
    nobody = pool.decide(*late)
    assert (nobody.allocated("a"), nobody.allocated("b")) == (0, 5)


def test_case_26_demand_scales_what_is_shown_not_what_is_used() -> None:
    org, prot = Q("org", deserved=6, wants=6), Q("prot", deserved=4, wants=2)
    division = division_of(7, org, prot)
    assert column(division.share) == about(6, 2)
    quotas = quotas_of([org, prot])
    shown = scaled(quotas, division.share, np.array([7.0]))
    assert column(shown) == about(5.25, 1.75)
    assert column(rounded(quotas, shown)) == [5, 2]
    assert column(division_of(7, Q("a", deserved=10000, wants=9)).share) == about(9)


def test_case_26_scaling_goes_down_the_tree() -> None:
    rows = Q("a", deserved=8), Q("b", deserved=8), Q("a1", deserved=6, parent="a"), Q("a2", parent="a")
    division = division_of(8, *rows)
    shown = scaled(quotas_of(rows), division.share, np.array([8.0]))
    assert column(shown) == about(4, 4, 3.5, 0.5)


def test_case_27_priority_then_weight() -> None:
    rows = (
        Q("a", deserved=1, priority=2, weight=1, wants=1),
        Q("b", deserved=1, priority=1, weight=2, wants=3),
        Q("c", priority=1, weight=1, wants=2),
    )
    assert shares(5, *rows) == about(1, 3, 1)


# -- rules without a number ------------------------------------------------------------------------------


def test_a_limit_binds_even_where_more_is_deserved() -> None:
    assert shares(10, Q("a", deserved=8, limit=3), Q("b")) == about(3, 7)


def test_unlimited_deserved_is_the_whole_of_what_is_divided() -> None:
    assert shares(10, Q("a", deserved=inf), Q("b")) == about(10, 0)


def test_usage_above_one_in_sum_falls_back_to_plain_weights() -> None:
    assert shares(16, Q("a", u=1), Q("b", u=1), k=2) == about(8, 8)
    assert shares(16, Q("a", u=1), Q("b", u=1), k=2, preset="kai") == about(0, 0)


def test_resources_are_divided_each_on_its_own() -> None:
    quotas = quotas_of([Q("a"), Q("b")])
    both = replace(
        quotas,
        deserved=np.array([[2.0, 0.0], [0.0, 0.0]]),
        limit=np.full((2, 2), inf),
        weight=np.array([[1.0, 3.0], [1.0, 1.0]]),
        resources=(0, 1),
    )
    got = divided(both, np.array([10.0, 100.0]), np.full((2, 2), 500.0), np.zeros((2, 2)), 1.0).share
    assert got.tolist() == [[6, 75], [4, 25]]


def test_whole_units_may_have_any_size() -> None:
    quotas = quotas_of([Q("a"), Q("b"), Q("c")])
    wants, used = np.full((3, 1), 100.0), np.zeros((3, 1))
    got = divided(quotas, np.array([40.0]), wants, used, 1.0, unit=np.array([4.0])).share
    assert column(got) == [16, 12, 12]


def test_rounded_children_add_up_to_their_rounded_parent() -> None:
    rows = Q("a"), Q("b"), Q("a1", parent="a"), Q("a2", parent="a"), Q("b1", wants=2.5, parent="b")
    share = division_of(7, *rows).share
    assert column(rounded(quotas_of(rows), share)) == [4, 3, 2, 2, 2]


def test_an_array_of_the_wrong_shape_is_refused() -> None:
    quotas = quotas_of([Q("a"), Q("b")])
    with pytest.raises(ValueError, match="shape"):
        divided(quotas, np.array([1.0]), np.zeros((3, 1)), np.zeros((2, 1)), 1.0)
    with pytest.raises(ValueError, match="seniority"):
        rounded(quotas, np.zeros((2, 1)), seniority=np.arange(3))


def test_no_quotas_is_no_shares() -> None:
    empty = quotas_of([])
    none = replace(empty, deserved=np.zeros((0, 1)), limit=np.zeros((0, 1)))
    assert divided(none, np.array([8.0]), np.zeros((0, 1)), np.zeros((0, 1)), 1.0).share.shape == (0, 1)


# -- laws ------------------------------------------------------------------------------------------------

few = st.integers(0, 20)
quarters = st.integers(0, 80).map(lambda n: n / 4)


@st.composite
def trees(draw: st.DrawFn) -> list[Q]:
    """Draw quotas in up to three levels; usages of a group may add up to more than 1."""
    rows: list[Q] = []
    for i in range(draw(st.integers(1, 12))):
        parent = draw(st.sampled_from(["", *(q.name for q in rows if q.name.count(".") < 2)]))
        rows.append(
            Q(
                name=f"{parent}.{i}" if parent else str(i),
                deserved=draw(few),
                limit=draw(st.one_of(st.just(inf), few)),
                weight=draw(st.sampled_from([0, 1, 1, 2, 3])),
                priority=draw(st.sampled_from([50, 100, 100, 200])),
                wants=draw(quarters),
                u=draw(st.integers(0, 8)) / 8,
                parent=parent,
            )
        )
    return rows


strengths = st.sampled_from([0.0, 0.25, 1.0, 2.0, 10.0])


def slow(rows: Sequence[Q]) -> list[reference.Node]:
    def bound(value: float) -> Fraction | None:
        return None if value == inf else Fraction(value)

    return [
        reference.Node(
            q.name,
            q.parent or None,
            bound(q.deserved),
            bound(q.limit),
            Fraction(q.weight),
            q.priority,
            Fraction(q.wants),
            Fraction(q.u),
            age,
        )
        for age, q in enumerate(rows)
    ]


@settings(deadline=None)
@given(trees(), few, strengths)
def test_the_kernel_agrees_with_the_slow_model(rows: list[Q], capacity: float, k: float) -> None:
    expected = reference.division(slow(rows), Fraction(capacity), Fraction(k))
    assert shares(capacity, *rows, k=k) == about(*(expected[q.name] for q in rows))


@settings(deadline=None)
@given(trees(), few, strengths)
def test_whole_units_agree_with_the_slow_model_of_kai(rows: list[Q], capacity: float, k: float) -> None:
    expected = reference.kai_division(slow(rows), Fraction(capacity), Fraction(k))
    got = shares(capacity, *rows, k=k, preset="kai")
    assert got == pytest.approx([float(expected[q.name]) for q in rows], rel=1e-9, abs=1e-9)


@settings(deadline=None)
@given(trees(), few, strengths)
def test_shares_never_add_up_to_more_than_there_is(rows: list[Q], capacity: float, k: float) -> None:
    division = division_of(capacity, *rows, k=k)
    for parent in {q.parent for q in rows}:
        group = [i for i, q in enumerate(rows) if q.parent == parent]
        at = [i for i, q in enumerate(rows) if q.name == parent]
        amount = division.share[at[0], 0] if at else capacity
        given_out = sum(division.share[i, 0] for i in group)
        short = division.short[at[0] + 1 if at else 0, 0]
        assert given_out <= amount + short + 1e-9


@settings(deadline=None)
@given(trees(), few, strengths)
def test_nobody_gets_more_than_he_wants_or_may_have(rows: list[Q], capacity: float, k: float) -> None:
    for q, share in zip(rows, shares(capacity, *rows, k=k), strict=True):
        assert 0 <= share <= min(q.wants, q.limit)


@settings(deadline=None)
@given(trees(), few, strengths)
def test_nothing_is_left_over_while_a_quota_with_weight_wants_more(
    rows: list[Q], capacity: float, k: float
) -> None:
    top = [q for q in rows if not q.parent]
    got = shares(capacity, *rows, k=k)
    hungry = any(
        q.weight > 0 and share < min(q.wants, q.limit) - 1e-9
        for q, share in zip(rows, got, strict=True)
        if not q.parent
    )
    left = capacity - sum(share for q, share in zip(rows, got, strict=True) if not q.parent)
    assert not top or not hungry or left <= 1e-9


@settings(deadline=None)
@given(st.data(), trees(), few, strengths)
def test_the_order_of_the_quotas_does_not_matter(
    data: st.DataObject, rows: list[Q], capacity: float, k: float
) -> None:
    order = data.draw(st.permutations(range(len(rows))))
    order.sort(key=lambda i: rows[i].name.count("."))  # parents stay in front
    shuffled = [rows[i] for i in order]
    expected = dict(zip((q.name for q in rows), shares(capacity, *rows, k=k), strict=True))
    assert shares(capacity, *shuffled, k=k) == about(*(expected[q.name] for q in shuffled))


@settings(deadline=None)
@given(st.data(), trees(), few, strengths)
def test_the_order_of_the_quotas_does_not_matter_for_whole_units(
    data: st.DataObject, rows: list[Q], capacity: float, k: float
) -> None:
    order = data.draw(st.permutations(range(len(rows))))
    order.sort(key=lambda i: rows[i].name.count("."))

    def by_name(order: Sequence[int]) -> dict[str, float]:
        chosen = [rows[i] for i in order]
        request, used = np.array([[q.wants] for q in chosen]), np.array([[q.u] for q in chosen])
        got = divided(
            quotas_of(chosen), np.array([capacity]), request, used, k, "kai", seniority=np.array(order)
        ).share
        return dict(zip((q.name for q in chosen), column(got), strict=True))

    assert by_name(order) == pytest.approx(by_name(range(len(rows))), rel=1e-12)


@settings(deadline=None)
@given(trees(), few, strengths)
def test_rounding_moves_no_share_by_a_unit_and_keeps_the_sums(
    rows: list[Q], capacity: float, k: float
) -> None:
    quotas, share = quotas_of(rows), division_of(capacity, *rows, k=k).share
    whole = rounded(quotas, share)
    assert (whole == np.rint(whole)).all()
    assert (abs(whole - share) < 1).all()
    top = quotas.parent == -1
    assert whole[top].sum() == np.floor(share[top].sum() + 1e-9)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_shares_are_finite_whatever_the_use(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = 40
    quotas = Quotas(
        tuple(map(str, range(n))),
        np.full(n, -1, dtype=np.int32),
        rng.integers(0, 5, (n, 1)).astype(float),
        np.full((n, 1), inf),
        rng.choice([0.0, 1e-12, 1.0, 1e12], n),
        np.full(n, 1),
        (0,),
    )
    used: Floats = rng.choice([0.0, 1e-300, 1e-12, 1.0, 1e6], (n, 1))
    division = divided(quotas, np.array([1000.0]), np.full((n, 1), 1e9), used, 10.0)
    for values in (division.share, division.due, division.corrected, division.effective):
        assert np.isfinite(values).all()
    assert division.share.sum() <= 1000 * (1 + 1e-9)

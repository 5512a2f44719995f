"""Usage: the worked examples of SEMANTICS 7.9, cases, and the history against the slow model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf, log

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurmfair.config import FairShare, Window
from slurmfair.events import exactly, nodes_of
from slurmfair.ledger import Ledger
from slurmfair.model import UNSET_S, Quotas
from slurmfair.runs import Pauses, run_keys
from slurmfair.steps import NO_STEPS, Steps, forgotten_steps, noted
from slurmfair.usage import History, Integrals, advance, allocated, trusted, usage
from tests import reference_usage as reference
from tests.trees import DAY_S, HOUR_S, T0_S, Q, Run, column, division_of, gpu_steps, ledger, looked, quotas_of

GPUH = 3600.0


def settings_of(
    size_h: float, half_life_h: float = 0.0, basis: str = "surplus", floor_h: float = 0.0
) -> FairShare:
    return FairShare(
        window=Window("sliding", size_h * HOUR_S),
        half_life_s=half_life_h * HOUR_S,
        usage=basis,  # type: ignore[arg-type]
        min_history_s=floor_h * HOUR_S,
    )


def flat(*names: str, deserved: float = 0.0) -> Quotas:
    return quotas_of([Q(name, deserved=deserved) for name in names])


def integrals(
    runs: Sequence[Run], quotas: Quotas, steps: Steps, fairshare: FairShare, now_s: int = T0_S
) -> Integrals:
    return advance(None, ledger(now_s, *runs), steps, quotas, fairshare, now_s)[1]


def ago(hours: float) -> int:
    return T0_S - round(hours * HOUR_S)


# -- SEMANTICS 7.9 ---------------------------------------------------------------------------------------


def test_t6_total_usage_is_over_the_whole_pool() -> None:
    fairshare = settings_of(10, basis="total")
    got = integrals([Run("a", 4, ago(6), T0_S)], flat("a"), gpu_steps(10), fairshare)
    assert usage(got, fairshare)[0, 0] == pytest.approx(6 / 25, rel=1e-12)


def test_t7_decay_inside_a_window() -> None:
    run, fairshare = Run("a", 8, ago(2), ago(1)), settings_of(2, half_life_h=1)
    got = integrals([run], flat("a"), gpu_steps(10), fairshare)
    assert got.over_quota[0, 0] / GPUH == pytest.approx(2 / log(2), rel=1e-12)
    assert got.over_quota[0, 0] / GPUH == pytest.approx(2.8853900818, abs=1e-10)
    assert got.surplus[0, 0] / GPUH == pytest.approx(10.8202128067, abs=1e-10)
    assert usage(got, fairshare)[0, 0] == pytest.approx(4 / 15, rel=1e-12)
    plain = settings_of(2)
    got = integrals([run], flat("a"), gpu_steps(10), plain)
    assert usage(got, plain)[0, 0] == pytest.approx(2 / 5, rel=1e-12)


@pytest.mark.parametrize(
    ("basis", "expected"),
    [("surplus", (0, 5 / 7)), ("surplus_consumed", (0, 1)), ("total", (1 / 10, 7 / 10))],
)
def test_t8_only_use_beyond_deserved_counts_against_the_surplus(
    basis: str, expected: tuple[float, float]
) -> None:
    quotas = quotas_of([Q("llm", deserved=30), Q("vision", deserved=20)])
    runs = [Run("llm", 10, ago(300)), Run("vision", 70, ago(300))]
    fairshare = settings_of(168, basis=basis)
    got = integrals(runs, quotas, gpu_steps(100), fairshare)
    assert column(usage(got, fairshare)) == pytest.approx(expected)
    assert got.surplus[0, 0] == pytest.approx(70 * 168 * GPUH)


@pytest.mark.parametrize(("basis", "expected"), [("surplus", (0, 1)), ("total", (0.5, 0.5))])
def test_t9_use_of_ones_own_is_free(basis: str, expected: tuple[float, float]) -> None:
    quotas = quotas_of([Q("a", deserved=50), Q("b")])
    fairshare = settings_of(168, basis=basis)
    got = integrals([Run("a", 50, ago(200)), Run("b", 50, ago(200))], quotas, gpu_steps(100), fairshare)
    assert column(usage(got, fairshare)) == pytest.approx(expected)


def test_t13_children_are_measured_in_their_own_group() -> None:
    rows = Q("x", deserved=40), Q("x1", deserved=20, parent="x"), Q("x2", deserved=20, parent="x")
    fairshare = settings_of(10)
    runs = [Run("x1", 29, ago(10)), Run("x2", 21, ago(10))]
    got = integrals(runs, quotas_of(rows), gpu_steps(100), fairshare)
    assert column(usage(got, fairshare)) == pytest.approx([10 / 60, 0.9, 0.1])


def test_t14_a_job_across_the_edge_counts_with_the_part_inside() -> None:
    run, fairshare = Run("a", 10, T0_S - 8 * DAY_S, T0_S - 6 * DAY_S), settings_of(168)
    got = integrals([run], flat("a"), gpu_steps(100), fairshare)
    assert got.allocated[0, 0] == 240 * GPUH
    assert got.surplus[0, 0] == 16800 * GPUH
    assert usage(got, fairshare)[0, 0] == pytest.approx(1 / 70)


@pytest.mark.parametrize(("floor_h", "expected"), [(0.0, 1.0), (1.0, 1 / 60)])
def test_t17_a_warm_up_floor_keeps_a_minute_from_counting_as_a_history(
    floor_h: float, expected: float
) -> None:
    fairshare = FairShare(window=Window("tumbling", 7 * DAY_S, T0_S - 60), min_history_s=floor_h * HOUR_S)
    got = integrals([Run("a", 16, T0_S - 60)], flat("a", "b"), gpu_steps(16), fairshare)
    assert column(usage(got, fairshare)) == pytest.approx([expected, 0])


@pytest.mark.parametrize(
    ("half_life_h", "u", "effective"),
    [
        (0, (1 / 2, 1 / 2), (1 / 2, 1 / 2)),
        (24, (1 / 3, 2 / 3), (2 / 3, 1 / 3)),
        (12, (1 / 5, 4 / 5), (4 / 5, 1 / 5)),
    ],
)
def test_t21_decay_favours_who_was_served_longer_ago(
    half_life_h: float, u: tuple[float, float], effective: tuple[float, float]
) -> None:
    fairshare = settings_of(48, half_life_h)
    runs = [Run("a", 16, ago(48), ago(24)), Run("b", 16, ago(24))]
    got = usage(integrals(runs, flat("a", "b"), gpu_steps(16), fairshare), fairshare)
    assert column(got) == pytest.approx(u)
    division = division_of(16, Q("a", u=got[0, 0]), Q("b", u=got[1, 0]))
    assert column(division.effective) == pytest.approx(effective)


def test_t22_the_past_is_judged_by_what_was_deserved_then() -> None:
    steps = gpu_steps(100, {"a": [(0, 10), (ago(2), 4)]})
    got = integrals([Run("a", 10, ago(4))], flat("a", deserved=4), steps, settings_of(4))
    assert got.over_quota[0, 0] == 12 * GPUH


def test_a_running_job_counts_so_far() -> None:
    fairshare = settings_of(6, half_life_h=2)
    got = integrals([Run("a", 8, ago(3))], flat("a"), gpu_steps(16), fairshare)
    assert got.over_quota[0, 0] / GPUH == pytest.approx(14.9220050814, abs=1e-10)
    assert got.surplus[0, 0] / GPUH == pytest.approx(40.3954611449, abs=1e-10)
    assert usage(got, fairshare)[0, 0] == pytest.approx(0.3693980625, abs=1e-10)


# -- cases -----------------------------------------------------------------------------------------------


def test_case_5_the_smallest_samples_add_up() -> None:
    half_life_s = 30 * DAY_S
    fairshare = FairShare(window=Window("sliding", 365 * DAY_S), half_life_s=half_life_s)
    quotas, steps, history = flat("a"), gpu_steps(1), None
    for now_s in range(T0_S + 60, T0_S + DAY_S + 60, 60):
        history, got = advance(history, ledger(now_s, Run("a", 1, T0_S)), steps, quotas, fairshare, now_s)
        assert got.allocated[0, 0] > 0
    average = got.allocated[0, 0] * log(2) / half_life_s
    assert average == pytest.approx(0.02284, abs=1e-6)
    assert got.allocated[0, 0] == pytest.approx(86400 * 0.9885, rel=1e-4)


def test_case_6_use_that_has_decayed_away_is_exactly_nothing() -> None:
    run = Run("a", 100, T0_S - HOUR_S, T0_S)
    fairshare = FairShare(window=Window("sliding", 365 * DAY_S), half_life_s=60)
    quotas, steps = flat("a"), gpu_steps(100)
    history, got = advance(None, ledger(T0_S, run), steps, quotas, fairshare, T0_S)
    assert got.allocated[0, 0] == pytest.approx(100 * 60 / log(2), rel=1e-9)
    for days in (1, 2, 10, 30):
        now_s = T0_S + days * DAY_S
        history, got = advance(history, ledger(now_s, run), steps, quotas, fairshare, now_s)
        assert got.allocated[0, 0] == 0.0
        assert usage(got, fairshare)[0, 0] == 0.0
    assert np.isfinite(history.head.nodes).all()


def test_case_7_ten_billion_gpu_seconds_are_exact() -> None:
    rows = [Q("org"), *(Q(f"org.{i}", parent="org") for i in range(10))]
    runs = [Run(f"org.{i}", 4096, T0_S - 30 * DAY_S + 1) for i in range(10)]
    quotas, fairshare = quotas_of(rows), settings_of(24 * 40)
    got = integrals(runs, quotas, gpu_steps(50_000), fairshare)
    each = 4096 * (30 * DAY_S - 1)
    assert column(got.allocated) == [10 * each] + [each] * 10
    assert column(allocated(ledger(T0_S, *runs), quotas, T0_S - 40 * DAY_S, T0_S)) == column(got.allocated)


@pytest.mark.parametrize("basis", ["surplus", "surplus_consumed", "total"])
def test_case_10_no_capacity_in_the_whole_window(basis: str) -> None:
    fairshare, quotas = settings_of(168, basis=basis, floor_h=1), flat("a", "b")
    got = integrals([], quotas, gpu_steps(0), fairshare)
    assert column(usage(got, fairshare)) == [0, 0]
    returned = integrals([], quotas, gpu_steps([(0, 0), (T0_S, 8)]), fairshare)
    assert column(usage(returned, fairshare)) == [0, 0]
    assert column(division_of(8, Q("a"), Q("b")).share) == [4, 4]


def test_case_11_a_half_life_of_a_second_overflows_nowhere() -> None:
    fairshare = FairShare(half_life_s=1)
    got = integrals([Run("a", 8, ago(100))], flat("a"), gpu_steps(16), fairshare)
    assert got.allocated[0, 0] == pytest.approx(8 / log(2))
    assert usage(got, replace(fairshare, min_history_s=0))[0, 0] == pytest.approx(0.5)


def test_case_14_a_clock_that_steps_back_charges_nothing_twice() -> None:
    fairshare, quotas, steps = settings_of(168), flat("a", "b"), gpu_steps(16)
    runs = [Run("a", 8, T0_S), Run("b", 4, T0_S)]
    charged, history = [], None
    for after_s in (0, 300, 600, 0, 300, 600, 900, 900 + HOUR_S):
        now_s = T0_S + after_s
        history, got = advance(history, ledger(now_s, *runs), steps, quotas, fairshare, now_s)
        charged.append(column(got.allocated))
    assert charged == [[8.0 * s, 4.0 * s] for s in (0, 300, 600, 0, 300, 600, 900, 900 + HOUR_S)]


def test_case_14_a_run_from_the_future_waits_for_its_time() -> None:
    got = integrals(
        [Run("a", 8, T0_S + 50), Run("a", 8, T0_S + 20, T0_S + 30)], flat("a"), gpu_steps(8), settings_of(1)
    )
    assert got.allocated[0, 0] == 0


def test_case_17_long_jobs_are_seen_while_they_run_and_charged_once() -> None:
    fairshare, quotas, steps = settings_of(168), flat("a", "b"), gpu_steps(16)
    running = Run("a", 8, T0_S)
    history, got = advance(None, ledger(T0_S + HOUR_S, running), steps, quotas, fairshare, T0_S + HOUR_S)
    assert got.allocated[0, 0] == 8 * GPUH
    end_s = T0_S + 2 * HOUR_S
    ended = ledger(end_s + 60, replace(running, end_s=end_s))
    _, got = advance(history, ended, steps, quotas, fairshare, end_s + 60)
    assert got.allocated[0, 0] == 16 * GPUH


def test_case_37_one_user_in_two_accounts_and_an_account_that_is_gone() -> None:
    quotas = quotas_of([Q("sci"), Q("sci.bio", parent="sci"), Q("sci.chem", parent="sci")])
    runs = [Run("sci.bio", 4, ago(1)), Run("sci.chem", 4, ago(1)), Run("other.bio", 4, ago(1))]
    got = integrals(runs, quotas, gpu_steps(16), settings_of(1))
    assert column(got.held) == [8, 4, 4]
    fewer = quotas_of([Q("sci"), Q("sci.chem", parent="sci")])
    got = integrals(runs, fewer, gpu_steps(16), settings_of(1))
    assert column(got.allocated) == [8 * GPUH, 4 * GPUH]


# -- rules -----------------------------------------------------------------------------------------------


def test_suspended_time_does_not_count() -> None:
    start_s = ago(4)
    key = run_keys(np.array([1, 1]), np.array([start_s, start_s]))
    pauses = Pauses(key, np.array([ago(3), ago(1)]), np.array([ago(2), UNSET_S]))
    book = ledger(T0_S, Run("a", 8, start_s), pauses=pauses)
    quotas = flat("a")
    _, got = advance(None, book, gpu_steps(8), quotas, settings_of(4), T0_S)
    assert got.allocated[0, 0] == 16 * GPUH
    assert got.held[0, 0] == 0
    assert allocated(book, quotas, ago(4), T0_S)[0, 0] == 16 * GPUH
    assert allocated(book, quotas, ago(2.5), T0_S)[0, 0] == 8 * GPUH


def test_a_cron_window_starts_afresh_when_it_fires() -> None:
    fairshare = FairShare(window=Window("cron", cron="0 0 * * *"), min_history_s=0)
    midnight_s = T0_S - T0_S % DAY_S
    quotas, steps, runs = flat("a"), gpu_steps(8), [Run("a", 8, midnight_s - HOUR_S)]
    history, got = advance(None, ledger(midnight_s - 1, *runs), steps, quotas, fairshare, midnight_s - 1)
    assert got.allocated[0, 0] == 8 * (HOUR_S - 1)
    for after_s in (0, 1, 10, 299, 301, 3600):
        now_s = midnight_s + after_s
        history, got = advance(history, ledger(now_s, *runs), steps, quotas, fairshare, now_s)
        assert got.allocated[0, 0] == 8 * after_s


def test_a_longer_window_looks_further_back_at_once() -> None:
    runs, quotas, steps = [Run("a", 8, ago(48))], flat("a"), gpu_steps(8)
    history, got = advance(None, ledger(T0_S, *runs), steps, quotas, settings_of(1), T0_S)
    assert got.allocated[0, 0] == 8 * GPUH
    _, got = advance(history, ledger(T0_S, *runs), steps, quotas, settings_of(24), T0_S)
    assert got.allocated[0, 0] == 8 * 24 * GPUH


def test_another_half_life_counts_from_the_next_cycle() -> None:
    runs, quotas, steps = [Run("a", 8, ago(48))], flat("a"), gpu_steps(8)
    history, _ = advance(None, ledger(T0_S, *runs), steps, quotas, settings_of(24), T0_S)
    _, got = advance(history, ledger(T0_S, *runs), steps, quotas, settings_of(24, 1), T0_S)
    assert got.allocated[0, 0] / GPUH == pytest.approx(8 / log(2), rel=1e-6)


def test_a_changed_tree_is_seen_in_the_next_cycle() -> None:
    runs, steps = [Run("a", 8, ago(1)), Run("b", 4, ago(1))], gpu_steps(16)
    history, _ = advance(None, ledger(T0_S, *runs), steps, flat("a", "b"), settings_of(1), T0_S)
    _, got = advance(history, ledger(T0_S, *runs), steps, flat("b"), settings_of(1), T0_S)
    assert column(got.allocated) == [4 * GPUH]


def test_inner_quotas_may_hold_runs_of_their_own() -> None:
    quotas = quotas_of([Q("p", deserved=4), Q("p.a", deserved=2, parent="p")])
    got = integrals([Run("p", 4, ago(1)), Run("p.a", 4, ago(1))], quotas, gpu_steps(16), settings_of(1))
    assert column(got.allocated) == [8 * GPUH, 4 * GPUH]
    assert column(got.surplus) == [12 * GPUH, 6 * GPUH]


def test_several_resources_are_summed_each_on_its_own() -> None:
    quotas = replace(flat("a"), deserved=np.zeros((1, 2)), limit=np.full((1, 2), inf), resources=(1, 0))
    got = integrals([Run("a", 8, ago(1))], quotas, gpu_steps(16), settings_of(1))
    assert got.allocated.tolist() == [[0, 8 * GPUH]]
    assert got.capacity.tolist() == [0, 16 * GPUH]


def test_a_silent_source_is_flagged_and_then_no_longer_believed() -> None:
    known = np.array([[0.5]])
    assert not trusted(known, 300, 300).degraded
    assert trusted(known, 301, 300).degraded
    assert trusted(known, 3600, 300).usage[0, 0] == 0.5
    assert trusted(known, 3601, 300).usage[0, 0] == 0


def test_the_preset_kai_counts_everything_from_the_first_second() -> None:
    got = integrals(
        [Run("a", 8, ago(1))], flat("a", deserved=8), gpu_steps([(0, 0), (ago(1), 16)]), settings_of(168)
    )
    assert usage(got, FairShare(preset="kai"))[0, 0] == pytest.approx(0.5)
    assert usage(got, FairShare())[0, 0] == 0


def test_amounts_are_kept_in_steps_that_add_up_without_error() -> None:
    tenth = exactly(np.array([0.1]))[0]
    assert tenth == pytest.approx(0.1, abs=1e-11)
    assert sum([tenth] * 1000) - 1000 * tenth == 0


def test_the_quota_of_a_path_that_is_gone_is_the_nearest_above() -> None:
    quotas = quotas_of([Q("a"), Q("a.b", parent="a")])
    assert nodes_of(("a.b.c.d", "a.x", "a", "z", "a.b"), quotas).tolist() == [1, 0, 0, -1, 1]


def test_steps_are_noted_only_when_something_changed() -> None:
    one = noted(NO_STEPS, T0_S, {"": (8.0, 0.0, 0.0), "a": (2.0, 0.0, 0.0)})
    assert noted(one, T0_S + 10, {"": (8.0, 0.0, 0.0)}) is one
    two = noted(one, T0_S - 50, {"": (4.0, 0.0, 0.0), "a": (2.0, 0.0, 0.0)})
    assert (two.path, two.time_s.tolist()) == (("", "a", ""), [T0_S, T0_S, T0_S])


def test_a_pool_without_quotas_has_no_usage() -> None:
    none = replace(flat(), deserved=np.zeros((0, 1)), limit=np.zeros((0, 1)))
    got = integrals([Run("a", 8, ago(1))], none, gpu_steps(8), settings_of(1))
    assert usage(got, settings_of(1)).shape == (0, 1)


def test_steps_from_before_the_window_are_forgotten_when_they_are_many() -> None:
    flapping = gpu_steps([(T0_S + i, float(i)) for i in range(10)], {"a": [(0, 2.0)]})
    kept = forgotten_steps(flapping, T0_S + 7)
    assert list(zip(kept.path, kept.time_s.tolist(), strict=True)) == [
        ("a", 0), ("", T0_S + 7), ("", T0_S + 8), ("", T0_S + 9),
    ]  # fmt: skip
    assert noted(kept, T0_S + 20, {"": (9.0, 0.0, 0.0)}) is kept
    assert forgotten_steps(flapping, T0_S + 3) is flapping
    runs, quotas = [Run("a", 8, T0_S)], flat("a")
    now_s = T0_S + 20
    whole = integrals(runs, quotas, flapping, FairShare(window=Window("sliding", 13)), now_s)
    same(whole, integrals(runs, quotas, kept, FairShare(window=Window("sliding", 13)), now_s))


# -- laws ------------------------------------------------------------------------------------------------

PARENTS = {"a": "", "a.x": "a", "a.y": "a", "b": ""}
TREE = quotas_of([Q(name, parent=parent) for name, parent in PARENTS.items()])


@dataclass
class Past:
    """What happened on a cluster, as drawn by hypothesis."""

    runs: list[Run]
    deserved: dict[str, list[tuple[int, float]]]
    capacity: list[tuple[int, float]]
    fairshare: FairShare
    looks: list[int]

    def ledger(self, now_s: int, before: Ledger | None = None) -> Ledger:
        """Return the ledger after a look at a moment."""
        return looked(before or Ledger(), now_s, *self.runs)

    def steps(self, now_s: int) -> Steps:
        def known(levels: list[tuple[int, float]]) -> list[tuple[int, float]]:
            return [one for i, one in enumerate(levels) if i == 0 or one[0] <= now_s]

        return gpu_steps(
            known(self.capacity), {path: known(levels) for path, levels in self.deserved.items()}
        )


def levels(draw: st.DrawFn, most: int) -> list[tuple[int, float]]:
    times = draw(st.lists(st.integers(1, 40_000), max_size=3, unique=True))
    return [(0, float(draw(st.integers(0, most))))] + [
        (T0_S + time, draw(st.sampled_from([0.0, 1.5, 3.3, most]))) for time in sorted(times)
    ]


@st.composite
def pasts(draw: st.DrawFn) -> Past:
    runs = []
    for _ in range(draw(st.integers(0, 12))):
        start_s = T0_S + draw(st.integers(0, 40_000))
        length_s = draw(st.one_of(st.none(), st.integers(0, 30_000)))
        quota = draw(st.sampled_from(["a.x", "a.y", "b", "a"]))
        end_s = None if length_s is None else start_s + length_s
        runs.append(Run(quota, draw(st.integers(1, 16)), start_s, end_s))
    window = draw(
        st.sampled_from(
            [
                Window("sliding", 600),
                Window("sliding", 7200),
                Window("sliding", 10 * DAY_S),
                Window("tumbling", 5000, T0_S - 777),
                Window("cron", cron="*/30 * * * *"),
            ]
        )
    )
    half_life_s = draw(st.sampled_from([0.0, 30.0, 1000.0, 100_000.0]))
    return Past(
        runs,
        {name: levels(draw, 12) for name in PARENTS},
        levels(draw, 64),
        FairShare(window=window, half_life_s=half_life_s),
        sorted(draw(st.lists(st.integers(T0_S, T0_S + 60_000), min_size=1, max_size=12))),
    )


def same(one: Integrals, other: Integrals) -> None:
    for name in ("allocated", "over_quota", "surplus", "capacity", "held", "surplus_now", "capacity_now"):
        left, right = getattr(one, name), getattr(other, name)
        assert left == pytest.approx(right, rel=1e-9, abs=0), name


@settings(deadline=None)
@given(pasts())
def test_the_history_equals_the_slow_model_and_a_full_pass(past: Past) -> None:
    history: History | None = None
    book = Ledger()
    for now_s in past.looks:
        book, steps = past.ledger(now_s, book), past.steps(now_s)
        history, got = advance(history, book, steps, TREE, past.fairshare, now_s)
        history.log = history.log[: history.logged]  # no room left: it must grow
        same(got, advance(None, book, steps, TREE, past.fairshare, now_s)[1])
        spans = [
            reference.Span(run.quota, run.gpus, run.start_s, inf if run.end_s is None else run.end_s)
            for run in past.runs
        ]
        expected = reference.sums(
            spans, PARENTS, past.deserved, past.capacity, got.start_s, now_s, past.fairshare.half_life_s
        )
        close = {"rel": 1e-9, "abs": 1e-9}
        assert column(got.allocated) == pytest.approx(list(expected.allocated.values()), **close)
        assert column(got.over_quota) == pytest.approx(list(expected.over_quota.values()), **close)
        surplus = [expected.surplus[parent] for parent in PARENTS.values()]
        assert column(got.surplus) == pytest.approx(surplus, **close)
        assert got.capacity[0] == pytest.approx(expected.capacity, **close)


@settings(deadline=None)
@given(pasts())
def test_use_of_the_surplus_never_adds_up_to_more_than_the_surplus(past: Past) -> None:
    now_s = past.looks[-1]
    enough = gpu_steps(1000, past.deserved)  # as Slurm never allocates more than there is
    got = advance(None, past.ledger(now_s), enough, TREE, past.fairshare, now_s)[1]
    for group in set(got.group.tolist()):
        mine = got.group == group
        assert got.over_quota[mine].sum() <= got.surplus[mine][0, 0] * (1 + 1e-9)


@settings(deadline=None)
@given(pasts(), st.integers(1, 20_000), st.integers(1, 20_000))
def test_decaying_for_a_then_b_is_decaying_for_a_plus_b(past: Past, a: int, b: int) -> None:
    fairshare = FairShare(window=Window("sliding", 10 * DAY_S), half_life_s=5000)
    ended = [replace(run, end_s=run.end_s or T0_S + 60_000) for run in past.runs]
    now_s, steps = T0_S + 80_000, past.steps(T0_S + 80_000)
    history, first = advance(None, ledger(now_s, *ended), steps, TREE, fairshare, now_s)
    history, _ = advance(history, ledger(now_s + a, *ended), steps, TREE, fairshare, now_s + a)
    _, last = advance(history, ledger(now_s + a + b, *ended), steps, TREE, fairshare, now_s + a + b)
    assert last.allocated == pytest.approx(first.allocated * 0.5 ** ((a + b) / 5000), rel=1e-9)


@pytest.mark.parametrize("half_life_s", [0.0, 4 * HOUR_S, 30 * DAY_S])
def test_a_thousand_cycles_after_heavy_use_the_last_second_is_still_exact(half_life_s: float) -> None:
    """Heavy use leaves the window, a light one stays: nothing of the heavy one may be left behind."""
    fairshare = FairShare(window=Window("sliding", DAY_S), half_life_s=half_life_s)
    rng = np.random.default_rng(5)
    runs = [
        Run("a", 1000.0, T0_S + int(start), T0_S + int(start) + int(length))
        for start, length in zip(rng.integers(0, DAY_S, 300), rng.integers(1, 9000, 300), strict=True)
    ]
    quotas, steps, history = flat("a", "b", deserved=3.3), gpu_steps(500_000), None
    light = Run("a", 1.0, T0_S + 2 * DAY_S, T0_S + 2 * DAY_S + 1)
    book = Ledger()
    for now_s in range(T0_S, T0_S + 4 * DAY_S, 300):
        book = looked(book, now_s, *runs, light)
        history, got = advance(history, book, steps, quotas, fairshare, now_s)
        if now_s == T0_S + 2 * DAY_S + 10800:
            assert got.allocated[0, 0] == pytest.approx(0.5 ** (10800 / (half_life_s or inf)), rel=1e-4)
            same(got, advance(None, book, steps, quotas, fairshare, now_s)[1])
    same(got, advance(None, book, steps, quotas, fairshare, now_s)[1])
    assert got.allocated[0, 0] == 0
    assert history is not None
    assert history.origin_s < T0_S  # it was never built afresh


@settings(deadline=None)
@given(pasts())
def test_one_pass_over_the_runs_agrees_with_the_history(past: Past) -> None:
    now_s = past.looks[-1]
    got = advance(None, past.ledger(now_s), past.steps(now_s), TREE, past.fairshare, now_s)[1]
    direct = allocated(past.ledger(now_s), TREE, got.start_s, now_s, past.fairshare.half_life_s)
    assert direct == pytest.approx(got.allocated, rel=1e-9, abs=1e-280)


@settings(max_examples=30, deadline=None)
@given(pasts(), st.randoms(use_true_random=False))
def test_the_order_of_the_runs_does_not_matter(past: Past, random: object) -> None:
    now_s = past.looks[-1]
    got = advance(None, past.ledger(now_s), past.steps(now_s), TREE, past.fairshare, now_s)[1]
    past.runs = list(past.runs)
    random.shuffle(past.runs)  # type: ignore[attr-defined]
    same(got, advance(None, past.ledger(now_s), past.steps(now_s), TREE, past.fairshare, now_s)[1])


@pytest.mark.parametrize("half_lives", [500, 955, 1000, 1010, 1030])
def test_nothing_is_left_of_use_that_faded_inside_a_window_of_many_half_lives(half_lives: int) -> None:
    fairshare = FairShare(window=Window("sliding", half_lives * 60), half_life_s=60)
    run, quotas, steps, history, book = (
        Run("a", 1e12, T0_S, T0_S + 600),
        flat("a"),
        gpu_steps(0),
        None,
        Ledger(),
    )
    for now_s in range(T0_S, T0_S + half_lives * 60 + 2400, 1200):
        book = looked(book, now_s, run)
        history, got = advance(history, book, steps, quotas, fairshare, now_s)
        full = advance(None, book, steps, quotas, fairshare, now_s)[1]
        if now_s < T0_S + 900 * 60:
            same(got, full)
    assert got.allocated[0, 0] == full.allocated[0, 0] == 0

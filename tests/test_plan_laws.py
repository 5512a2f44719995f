"""Laws of a plan: as few writes as a brute-force search finds, and never worse when only half applied."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurmfair.config import Ranks
from slurmfair.ranks import RankScale, rank_scale, spread
from tests.test_plan import Record, applied, plan

SMALL = RankScale(low=20, high=70, spacing=5, step=5, behind=1)
ROOMY = RankScale(low=20, high=170, spacing=5, step=15, behind=1)


@st.composite
def queues(draw: st.DrawFn) -> list[Record]:
    """Return records in a random state; some places are shared, as by components of one job."""
    n = draw(st.integers(0, 8))
    places = draw(st.permutations(range(n)))
    records = []
    for i in range(n):
        state = draw(st.sampled_from(["open", "open", "open", "held", "gated", "pinned"]))
        waits = draw(st.sampled_from([False, False, False, True]))
        place = -1 if waits else places[i] - draw(st.integers(0, min(places[i], 1)))
        records.append(
            Record(
                job_id=100 + i,
                place=place,
                rank=draw(st.sampled_from([0, 1, 15, *range(18, 75, 4)])),
                held=state == "held",
                gated=state == "gated",
                pinned=draw(st.integers(1, 90)) if state == "pinned" else 0,
                partition=draw(st.sampled_from(["a", "a,b", "b"])),
            )
        )
    return records


def inside(records: list[Record], window: int, capacity: int) -> list[int]:
    """Return the places inside the window, worked out record by record."""
    seen: dict[str, int] = {}
    places: list[int] = []
    for place in sorted({r.place for r in records if r.place >= 0}):
        names = [name for r in records if r.place == place for name in r.partition.split(",")]
        if any(seen.get(name, 0) < window for name in names) and len(places) < capacity:
            places.append(place)
        for name in names:
            seen[name] = seen.get(name, 0) + 1
    return places


def fewest_writes(records: list[Record], window: int, scale: RankScale) -> int:
    """Return the fewest writes by trying every set of records that keep their rank."""
    places = inside(records, window, scale.capacity)
    forced, free = 0, []
    for r in records:
        closed = r.held or r.gated
        if r.place < 0:
            forced += not r.held
        elif closed or r.pinned or (r.place not in places and r.rank > scale.behind):
            forced += 1
        elif r.place in places:
            free.append((places.index(r.place), r.rank))
    for kept in range(len(free), -1, -1):
        if any(_possible(list(some), len(places), scale) for some in combinations(free, kept)):
            return forced + len(free) - kept
    raise AssertionError("keeping none is always possible")


def _possible(kept: list[tuple[int, int]], n_units: int, scale: RankScale) -> bool:
    """Tell whether all other units find ranks around the kept ones, by giving each the highest it can have."""
    fixed: dict[int, int] = {}
    for unit, rank in kept:
        if fixed.setdefault(unit, rank) != rank:
            return False
    bound = scale.high
    for unit in range(n_units):
        rank = fixed.get(unit, bound)
        if not scale.low <= rank <= bound:
            return False
        bound = rank - scale.spacing
    return True


@settings(max_examples=250)
@given(queues(), st.integers(1, 6))
def test_no_set_of_kept_ranks_needs_fewer_writes(records: list[Record], window: int) -> None:
    result = plan(records, SMALL, window)
    assert len(result.changes) == fewest_writes(records, window, SMALL)


@settings(max_examples=200)
@given(queues(), st.integers(1, 6))
def test_only_renumbering_for_later_arrivals_costs_more(records: list[Record], window: int) -> None:
    result = plan(records, ROOMY, window)
    fewest = fewest_writes(records, window, ROOMY)
    assert fewest <= len(result.changes) <= fewest + result.renumbered


@settings(max_examples=200)
@given(queues(), st.integers(1, 6))
def test_a_plan_reaches_the_wanted_order(records: list[Record], window: int) -> None:
    after = applied(records, plan(records, SMALL, window).changes)
    places = inside(records, window, SMALL.capacity)
    ranks = [{r.rank for r in after if r.place == place} for place in places]
    assert all(len(of_unit) == 1 for of_unit in ranks)
    flat = [rank for (rank,) in ranks]
    assert all(a - b >= SMALL.spacing for a, b in pairwise(flat))
    assert all(SMALL.low <= rank <= SMALL.high for rank in flat)
    assert all(r.priority <= SMALL.behind for r in after if r.place >= 0 and r.place not in places)
    assert all((r.priority == 0) == (r.place < 0) for r in after)


@settings(max_examples=200)
@given(queues(), st.integers(1, 6))
def test_a_second_plan_after_the_first_writes_nothing(records: list[Record], window: int) -> None:
    after = applied(records, plan(records, SMALL, window).changes)
    assert plan(after, SMALL, window).changes == ()


@settings(max_examples=200)
@given(queues(), st.integers(1, 6), st.integers(0, 10), st.integers(0, 10))
def test_no_first_part_of_a_plan_leaves_anything_worse(
    records: list[Record], window: int, budget: int, length: int
) -> None:
    after = applied(records, plan(records, SMALL, window, budget).changes[:length])
    places = inside(records, window, SMALL.capacity)
    for was, now in zip(records, after, strict=True):
        if was.place < 0:
            assert now.priority == 0 or was.priority > 0, "a record that must wait became startable"
    for better_was, better in zip(records, after, strict=True):
        if better.place not in places:
            continue
        for was, now in zip(records, after, strict=True):
            worse_place = now.place > better.place
            if worse_place and better.priority and now.priority > better.priority:
                assert better_was.priority < was.priority or better_was.priority == 0


@settings(max_examples=200)
@given(queues(), st.integers(1, 6), st.integers(1, 4))
def test_a_budget_spreads_the_same_writes_over_cycles(
    records: list[Record], window: int, budget: int
) -> None:
    whole = len(plan(records, SMALL, window).changes)
    written = 0
    while changes := plan(records, SMALL, window, budget).changes:
        assert len(changes) <= budget
        written += len(changes)
        records = applied(records, changes)
    assert written <= whole


@pytest.mark.parametrize(
    ("leaves", "arrives", "most"),
    [
        ((0, 1), (199, 200), 1.3),  # the first starts, the new one waits behind all: FIFO
        ((0, 1), (0, 200), 1.6),
        ((0, 200), (0, 200), 1.2),
        ((0, 1), (20, 21), 2.2),  # always the same place
        ((199, 200), (20, 21), 2.0),
        ((199, 200), (0, 1), 1.8),
        ((0, 20), (0, 50), 1.8),
    ],
)
def test_a_new_job_costs_about_one_write_wherever_it_enters(
    leaves: tuple[int, int], arrives: tuple[int, int], most: float
) -> None:
    rng = np.random.default_rng(5)
    scale = rank_scale(Ranks(), own_factors=0, window=200)
    rank, unit = np.zeros(200, np.int64), np.arange(200)
    writes = 0
    for _ in range(4000):
        ranks, _crowded = spread(unit, rank, rank > 0, 200, scale)
        writes += int((ranks != rank).sum())
        rank = np.insert(np.delete(ranks, rng.integers(*leaves)), rng.integers(*arrives), 0)
    assert writes - 200 < most * 4000

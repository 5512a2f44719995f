"""From an order to writes: who is held, released, ranked, in which order, and never twice."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pytest

from slurmfair.config import Ranks
from slurmfair.model import Change, Coded
from slurmfair.plan import Pending, Plan, plan_changes
from slurmfair.ranks import RankScale, looks_pinned, rank_scale, spread
from slurmfair.throttle import LEAVE

SCALE = rank_scale(Ranks(), own_factors=0, window=500)


@dataclass(frozen=True)
class Record:
    """One pending record as a test writes it down."""

    job_id: int
    place: int
    rank: int = 0
    held: bool = False
    gated: bool = False
    pinned: int = 0  # the priority that somebody pinned
    partition: str = "train"
    text: str = ""
    throttle: int = LEAVE  # to be written
    own_throttle: int = 0
    bound: int = 0  # as Slurm has it
    unwanted: bool = False

    @property
    def priority(self) -> int:
        """What Slurm computes without nice and own factors."""
        return 0 if self.held or self.gated else self.pinned or max(1, self.rank)


def coded(texts: list[str]) -> Coded:
    values = tuple(dict.fromkeys(texts))
    return Coded(np.array([values.index(t) for t in texts], np.int32), values)


def pending(records: list[Record]) -> Pending:
    def numbers(name: str) -> np.ndarray:
        return np.array([getattr(r, name) for r in records], np.int64)

    return Pending(
        job_id=numbers("job_id"),
        place=numbers("place"),
        unwanted=numbers("unwanted").astype(bool),
        held=numbers("held").astype(bool),
        gated=numbers("gated").astype(bool),
        pinned=numbers("pinned") > 0,
        rank=numbers("rank"),
        priority=numbers("priority"),
        partition=coded([r.partition for r in records]),
        admin_comment=coded([r.text for r in records]),
        throttle=numbers("throttle"),
        own_throttle=numbers("own_throttle"),
    )


def plan(records: list[Record], scale: RankScale = SCALE, window: int = 500, budget: int = 10**9) -> Plan:
    return plan_changes(pending(records), scale, window, budget)


def applied(records: list[Record], changes: tuple[Change, ...]) -> list[Record]:
    """What Slurm makes of the writes (SLURM.md 2 and 7)."""
    by_id = {r.job_id: r for r in records}
    for c in changes:
        r = by_id[c.job_id]
        if c.hold:
            r = replace(r, held=True, gated=False, pinned=0)
        if c.release:
            r = replace(r, held=False, gated=False, pinned=0)
        if c.rank is not None:
            r = replace(r, rank=c.rank)
        if c.tag is not None:
            r = replace(r, text=c.tag)
        if c.throttle is not None:
            r = replace(r, bound=c.throttle, throttle=LEAVE)
        by_id[c.job_id] = r
    return [by_id[r.job_id] for r in records]


def ranks_by_place(records: list[Record]) -> list[int]:
    return [r.rank for r in sorted(records, key=lambda r: r.place) if r.place >= 0]


def test_new_jobs_get_falling_ranks_in_the_wanted_order() -> None:
    records = [Record(1, 2), Record(2, 0), Record(3, 1)]
    after = applied(records, plan(records).changes)
    ranks = ranks_by_place(after)
    assert ranks == sorted(ranks, reverse=True)
    assert all(a - b >= SCALE.spacing for a, b in pairwise(ranks))
    assert SCALE.low <= ranks[-1] and ranks[0] <= SCALE.high


def test_nothing_is_written_when_nothing_changed() -> None:
    records = [Record(i, i, held=False) for i in range(20)] + [Record(100, -1)]
    after = applied(records, plan(records).changes)
    again = plan(after)
    assert again.changes == ()
    assert again.left_over == 0


def test_one_moved_job_costs_one_write() -> None:
    records = [Record(i, i) for i in range(50)]
    after = applied(records, plan(records).changes)
    order = [r.job_id for r in after]
    order.insert(3, order.pop(40))
    moved = [replace(r, place=order.index(r.job_id)) for r in after]
    changes = plan(moved).changes
    assert [c.job_id for c in changes] == [40]
    ranks = ranks_by_place(applied(moved, changes))
    assert ranks == sorted(ranks, reverse=True)


def test_a_job_that_must_wait_is_held_and_tagged_in_one_write() -> None:
    result = plan([Record(7, -1, rank=5000, text="ticket 12")])
    assert result.changes == (Change(7, hold=True, tag="ticket 12 slurmfair:hold", why="must wait"),)
    assert result.counts["hold"] == 1


def test_a_gated_job_that_must_wait_becomes_our_hold() -> None:
    (change,) = plan([Record(7, -1, gated=True, text="slurmfair:gate")]).changes
    assert (change.hold, change.release, change.rank, change.tag) == (True, False, None, "slurmfair:hold")


def test_what_is_to_be_cancelled_is_held_first_and_cancelled_once_held_after_all_other_writes() -> None:
    records = [Record(7, -1, unwanted=True), Record(8, -1, gated=True, unwanted=True), Record(9, 0)]
    first = plan(records)
    assert [(change.job_id, change.cancel) for change in first.changes] == [
        (7, False),
        (9, False),
        (8, False),
    ]
    after = plan([*applied(records, first.changes), Record(10, 1, rank=1)])
    assert [change for change in after.changes if change.job_id < 9] == [
        Change(7, cancel=True, why="can never start as it is, and on_never_fit is cancel"),
        Change(8, cancel=True, why="can never start as it is, and on_never_fit is cancel"),
    ]
    assert after.changes[0].job_id == 10
    assert after.counts["cancel"] == 2


def test_a_job_already_held_by_us_that_must_wait_is_left_alone() -> None:
    assert plan([Record(7, -1, rank=5000, held=True, text="slurmfair:hold")]).changes == ()


@pytest.mark.parametrize("closed", ["held", "gated"])
def test_release_tag_and_rank_go_out_in_one_write(closed: str) -> None:
    record = replace(Record(7, 0, text="a slurmfair:hold b"), **{closed: True})
    (change,) = plan([record]).changes
    assert change.release and not change.hold
    assert change.rank is not None and change.rank >= SCALE.low
    assert change.tag == "a slurmfair:free b"


def test_a_released_job_behind_the_window_keeps_no_old_rank() -> None:
    ahead = [Record(1, 0)]
    (change,) = (
        c for c in plan([*ahead, Record(2, 1, rank=10**9, held=True)], window=1).changes if c.job_id == 2
    )
    assert change.release and change.rank == 1


def test_a_pinned_job_is_unpinned_once() -> None:
    ranked = applied([Record(1, 0)], plan([Record(1, 0)]).changes)
    pinned = [replace(ranked[0], pinned=77)]
    (change,) = plan(pinned).changes
    assert change.release and change.rank is None and change.tag is None
    assert plan(applied(pinned, (change,))).changes == ()


def test_a_job_that_leaves_the_window_is_pushed_below_it() -> None:
    records = [Record(1, 1, rank=SCALE.high), Record(2, 0)]
    changes = plan(records, window=1).changes
    assert changes[0] == Change(1, rank=1, why="may start, place 2")
    assert changes[1].job_id == 2


def test_jobs_behind_the_window_are_not_ranked() -> None:
    records = [Record(i, i) for i in range(10)]
    assert [c.job_id for c in plan(records, window=4).changes] == [0, 1, 2, 3]


def test_every_partition_has_a_window_of_its_own() -> None:
    records = [
        Record(1, 0, partition="a"),
        Record(2, 1, partition="a"),
        Record(3, 2, partition="a,b"),
        Record(4, 3, partition="b"),
        Record(5, 4, partition="b"),
        Record(6, 5, partition="a"),
    ]
    assert {c.job_id for c in plan(records, window=2).changes} == {1, 2, 3, 4}


def test_components_of_a_heterogeneous_job_get_one_rank() -> None:
    records = [Record(1, 0), Record(10, 1), Record(11, 1, partition="cpu"), Record(3, 2)]
    after = {r.job_id: r.rank for r in applied(records, plan(records).changes)}
    assert after[1] > after[10] == after[11] > after[3]


def test_a_half_written_heterogeneous_job_costs_only_the_other_half() -> None:
    records = [Record(10, 0, rank=10**9), Record(11, 0)]
    (change,) = plan(records).changes
    assert change == Change(11, rank=10**9, why="may start, place 1")


def test_lowering_goes_first_from_the_worst_place_up_then_raising_from_the_best_down() -> None:
    records = [
        Record(1, 0, rank=10**9),
        Record(2, 1, rank=10**9 - 10**6),
        Record(3, 2, rank=10**9 - 2 * 10**6),
        Record(4, 5, rank=SCALE.high),  # stands too high, as does the next
        Record(5, 6, rank=SCALE.high - 5000),
        Record(6, 3, held=True),
        Record(7, 4, rank=10**6),
        Record(8, -1),
        Record(9, -1, gated=True),
    ]
    result = plan(records)
    assert [c.job_id for c in result.changes] == [8, 5, 4, 6, 9]
    counts = {"hold": 1, "demote": 2, "release": 1, "promote": 0, "take_over": 1, "throttle": 0}
    assert result.counts == counts | {"cancel": 0}


def test_jobs_nearest_to_a_start_are_held_first() -> None:
    records = [Record(1, -1), Record(2, -1, rank=9000), Record(3, -1, rank=8000)]
    assert [c.job_id for c in plan(records, budget=2).changes] == [2, 3]


def test_what_the_budget_cuts_is_counted_and_comes_in_the_next_cycles() -> None:
    records = [Record(i, i) for i in range(25)]
    first = plan(records, budget=10)
    assert (len(first.changes), first.left_over) == (10, 15)
    second = plan(applied(records, first.changes), budget=10)
    assert [c.job_id for c in second.changes] == list(range(10, 20))


def test_a_flood_of_holds_leaves_half_of_the_budget_to_starts() -> None:
    records = [Record(i, -1) for i in range(1000)] + [Record(5000 + i, i, held=True) for i in range(30)]
    result = plan(records, budget=20)
    assert result.counts["hold"] == 10
    assert [c.job_id for c in result.changes[10:]] == list(range(5000, 5010))


def test_no_budget_means_no_write() -> None:
    assert plan([Record(1, 0), Record(2, -1)], budget=0).changes == ()


def test_ranks_are_spaced_wider_than_slurms_own_factors_and_start_above_them() -> None:
    scale = rank_scale(Ranks(), own_factors=40_000, window=500)
    assert scale.spacing > 40_000 and scale.low > 40_000 + scale.behind
    records = [Record(i, i) for i in range(500)]
    ranks = ranks_by_place(applied(records, plan(records, scale).changes))
    assert all(a - b > 40_000 for a, b in pairwise(ranks))


def test_more_jobs_than_ranks_leave_the_last_ones_behind() -> None:
    scale = rank_scale(Ranks(), own_factors=400_000_000, window=500)
    records = [Record(i, i) for i in range(10)]
    after = ranks_by_place(applied(records, plan(records, scale).changes))
    assert after[: scale.capacity] == sorted(after[: scale.capacity], reverse=True)
    assert set(after[scale.capacity :]) == {0}
    assert 0 < scale.capacity < 10 and max(after) <= scale.high


def test_pinned_channel_leaves_unranked_jobs_at_slurms_own_factors() -> None:
    scale = rank_scale(Ranks(channel="priority"), own_factors=40_000, window=1)
    records = [Record(1, 0, rank=900), Record(2, 1, rank=40_000)]
    assert [c.job_id for c in plan(records, scale, window=1).changes] == [1]


def test_a_gap_that_is_too_small_renumbers_as_few_neighbours_as_possible() -> None:
    top = SCALE.high // 2
    records = [
        Record(1, 0, rank=top),
        Record(2, 2, rank=top - SCALE.spacing),
        Record(3, 3, rank=top - 10 * SCALE.spacing),
        Record(4, 4, rank=top - 11 * SCALE.spacing),
        Record(9, 1),
    ]
    result = plan(records)
    assert result.renumbered == 1
    assert {c.job_id for c in result.changes} in ({9, 1}, {9, 2})


def test_wanted_ranks_are_told_for_every_record() -> None:
    records = [Record(1, 0), Record(2, -1, rank=5000), Record(3, 1, rank=0)]
    result = plan(records, window=1, budget=0)
    assert result.rank[0] >= SCALE.low
    assert result.rank[1] == 0
    assert result.rank[2] == 0


def test_an_empty_queue_gives_an_empty_plan() -> None:
    assert plan([]).changes == ()


def test_a_priority_that_the_factors_cannot_give_looks_pinned() -> None:
    priority = np.array([5000, 5000, 97, 1, 0, 30_500])
    factor = np.array([5000, 100, 100, 0, 700, 500])
    nice = np.array([0, 0, 3, 50, 0, 0])
    assert looks_pinned(priority, factor, nice, 0).tolist() == [False, True, False, False, False, True]
    assert not looks_pinned(priority, factor, nice, 30_000)[5]


def test_first_ranks_leave_room_at_both_ends() -> None:
    none = np.zeros(0, np.int64)
    ranks, renumbered = spread(none, none, none.astype(bool), 500, SCALE)
    assert renumbered == 0
    assert SCALE.high - ranks[0] > 800 * SCALE.step
    assert ranks[-1] - SCALE.low > 800 * SCALE.step


def test_an_array_let_go_in_part_gets_release_rank_tag_and_bound_in_one_write() -> None:
    (change,) = plan(
        [Record(7, 0, held=True, text="ticket 5 slurmfair:hold", throttle=4, own_throttle=9)]
    ).changes
    assert (change.release, change.throttle) == (True, 4)
    assert change.rank is not None
    assert change.tag == "ticket 5 slurmfair:free slurmfair:throttle=4,was=9"


def test_an_array_that_must_wait_gets_its_own_throttle_back_with_the_hold() -> None:
    text = "slurmfair:free slurmfair:throttle=4,was=9"
    (change,) = plan([Record(7, -1, rank=10**9, text=text, throttle=9, own_throttle=9, bound=4)]).changes
    assert (change.hold, change.throttle, change.tag) == (True, 9, "slurmfair:hold")


def test_a_bound_on_an_open_array_goes_out_before_anything_rises() -> None:
    records = [Record(1, 0), Record(2, 1, rank=10**9, throttle=3), Record(3, 2, throttle=5)]
    changes = plan(records).changes
    assert [(c.job_id, c.throttle) for c in changes[:2]] == [(2, 3), (3, 5)]
    assert [c.rank for c in changes[:2]] == [None, None]
    assert {c.job_id: c.throttle for c in changes[2:]} == {1: None, 3: None}
    assert plan(applied(records, changes)).changes == ()


def test_a_bound_counts_against_the_budget() -> None:
    made = plan([Record(1, 0, rank=10**9, throttle=3), Record(2, 1, rank=10**8, throttle=3)], budget=1)
    assert (len(made.changes), made.left_over, made.counts["throttle"]) == (1, 1, 1)

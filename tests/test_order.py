"""One pass: what fits, what is held back, what is open, and the order that goes out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from slurmfair.config import FairShare, QueuePolicy
from slurmfair.model import UNSET_S
from slurmfair.order import is_open, order_jobs, rank_order
from tests.small_pool import NO_GUARD, J, Pool, Q, R, job, one_kind

FIFO = QueuePolicy(name="fifo")
BALANCE = QueuePolicy(name="balance")
INTELLIGENT = QueuePolicy(name="intelligent")


def one_quota(free: list[list[int]], sizes: list[int], quota: Q | None = None, **settings: object) -> Pool:
    return Pool({"a": quota or Q(share=100)}, free, sizes, **settings)  # type: ignore[arg-type]


# -- does it fit? --------------------------------------------------------------------------------------


def test_a_gang_does_not_fit_into_gpus_scattered_over_too_many_nodes() -> None:
    gang = J("gang", "a", 16, nodes=2)
    assert one_quota([[4, 4, 4, 4]], [8]).decide(gang).outcomes == {"gang": "PLACEMENT"}
    assert one_quota([[8, 0, 8, 0]], [8]).decide(gang).outcomes == {"gang": "STARTS"}


def test_jobs_take_the_nodes_with_the_least_to_spare() -> None:
    pool = one_quota([[8, 3, 4]], [8])
    made = pool.decide(J("small", "a", 3), J("middle", "a", 4), J("large", "a", 8))
    assert set(made.outcomes.values()) == {"STARTS"}


def test_a_job_over_several_nodes_takes_distinct_ones() -> None:
    pool = one_quota([[8]], [8], down=[1])
    assert pool.decide(J("gang", "a", 8, nodes=2)).outcomes == {"gang": "PLACEMENT"}


def test_a_job_uses_only_its_kinds_of_nodes() -> None:
    pool = one_quota([[0, 0], [4, 4]], [4, 4])
    made = pool.decide(J("first", "a", 2, kinds=(0,)), J("second", "a", 2, kinds=(1,)), J("any", "a", 2))
    assert made.outcomes == {"first": "CAPACITY", "second": "STARTS", "any": "STARTS"}


def test_cpus_count_beside_gpus() -> None:
    pool = one_quota([[8]], [8], cpus=10)
    made = pool.decide(J("wide", "a", 1, cpus=11), J("narrow", "a", 1, cpus=10), J("more", "a", 1, cpus=1))
    assert made.outcomes == {"wide": "CAPACITY", "narrow": "STARTS", "more": "CAPACITY"}


def test_a_job_without_gpus_starts_although_no_gpu_is_free() -> None:
    assert one_quota([[0]], [8]).decide(J("cpu", "a", 0, cpus=4)).outcomes == {"cpu": "STARTS"}


def test_a_job_without_gpus_is_not_stopped_by_a_full_gpu_limit() -> None:
    pool = one_quota([[4]], [8], Q(share=8, held=8, limit=4))
    assert pool.decide(J("cpu", "a", 0, cpus=4), J("gpu", "a", 1)).outcomes == {
        "cpu": "STARTS",
        "gpu": "LIMIT",
    }


def test_a_limit_of_an_ancestor_stops_and_the_leaf_beside_it_does_not() -> None:
    quotas = {"top": Q(share=20, held=6, limit=8), "top.a": Q(share=20, held=6), "b": Q(share=20)}
    made = one_kind(quotas, 10).decide(job("a1", "top.a", 2), job("a2", "top.a", 1), job("b1", "b", 4))
    assert made.outcomes == {"a1": "STARTS", "a2": "LIMIT", "b1": "STARTS"}
    assert (made.allocated("top"), made.allocated("top.a"), made.allocated("b")) == (8, 8, 4)


def test_what_slurm_did_not_place_in_time_fails_with_placement_and_stays_open() -> None:
    made = one_kind({"a": Q(share=9)}, 4).decide(job("late", "a", 1, unplaced=True), job("next", "a", 1))
    assert made.outcomes == {"late": "PLACEMENT", "next": "STARTS"}
    assert made.open == ["late", "next"] and made.out == ["next", "late"]


def test_an_unplaced_head_blocks_a_fifo_queue_as_any_blocked_head() -> None:
    made = one_kind({"a": Q(share=9, policy=FIFO)}, 4).decide(
        job("late", "a", 1, unplaced=True), job("next", "a", 1)
    )
    assert made.outcomes == {"late": "PLACEMENT", "next": "BEHIND"} and made.blockers == {"next": "late"}


# -- never fits ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "never",
    [
        J("never", "a", 9),  # over the limit
        J("never", "a", 2, cpus=1001),  # more CPUs than the pool has
        J("never", "a", 5, kinds=(1,)),  # more than its kind of nodes has
        J("never", "a", 5, nodes=1, kinds=(0,)),  # no node is that large
        J("never", "a", 8, nodes=4, kinds=(0,)),  # not that many nodes
    ],
)
def test_what_can_never_fit_is_parked_and_stops_nobody(never: J) -> None:
    pool = one_quota([[4, 4, 4], [4]], [4, 4], Q(share=16, limit=8, policy=FIFO))
    made = pool.decide(never, J("other", "a", 1))
    assert made.outcomes == {"never": "PARKED", "other": "STARTS"}
    assert made.by_name(made.decision.position) == {"never": 0, "other": 1}
    assert made.open == ["other"]


def test_nodes_that_are_down_block_but_do_not_park() -> None:
    pool = one_quota([[4]], [4], Q(share=16, policy=FIFO), down=[1])
    assert pool.decide(J("wide", "a", 8, nodes=2), J("next", "a", 1)).outcomes == {
        "wide": "CAPACITY",
        "next": "BEHIND",
    }


def test_parked_jobs_keep_their_first_attempt() -> None:
    pool = one_kind({"a": Q(share=9, limit=4)}, 8)
    made = pool.decide(job("never", "a", 5, first_attempt_s=3), job("new", "a", 6))
    assert made.by_name(made.decision.first_attempt_s) == {"never": 3, "new": UNSET_S}


# -- between quotas ------------------------------------------------------------------------------------


def test_comparison_is_made_at_the_children_of_the_lowest_common_ancestor() -> None:
    """x.a is far below its own share, but x as a whole is more over its share than y."""
    quotas = {
        "x": Q(share=10, held=12),
        "y": Q(share=10, held=10),
        "x.a": Q(share=8, held=0),
        "x.b": Q(share=2, held=12),
        "y.c": Q(share=1, held=10),
    }
    made = one_kind(quotas, 3).decide(job("a", "x.a", 1), job("b", "x.b", 1), job("c", "y.c", 1))
    assert made.attempts == ["c", "a", "b"]


def test_what_is_deserved_comes_before_what_is_within_the_share() -> None:
    """They differ only where more is deserved than there is (SEMANTICS 8, A21)."""
    quotas = {"a": Q(share=2, deserved=4, held=2), "b": Q(share=4)}
    assert one_kind(quotas, 2).decide(job("of_b", "b", 1), job("of_a", "a", 1)).attempts == ["of_a", "of_b"]


def test_a_quota_without_any_share_comes_last_and_nothing_is_infinite() -> None:
    """CASES 1: weight 0 and no usage must not jump to the front."""
    quotas = {"scav": Q(), "a": Q(share=4, held=4)}
    made = one_kind(quotas, 1).decide(job("s", "scav", 1, order_s=1), job("j", "a", 1, order_s=2))
    assert made.attempts == ["j", "s"] and made.outcomes == {"j": "STARTS", "s": "CAPACITY"}
    assert np.isfinite(made.decision.effective).all() and np.isfinite(made.decision.allocated).all()


def test_a_burst_does_not_take_everything_because_each_start_is_charged_at_once() -> None:
    """CASES 16: equal quotas, one with 100 jobs queued earlier, one with 5; ten GPUs end 5 to 5."""
    quotas = {"a": Q(share=5), "b": Q(share=5)}
    burst = [job(f"a{n}", "a", 1, order_s=n) for n in range(100)]
    made = one_kind(quotas, 10).decide(*burst, *(job(f"b{n}", "b", 1, order_s=500) for n in range(5)))
    assert (made.allocated("a"), made.allocated("b")) == (5, 5)
    assert made.attempts[:10] == ["a0", "b0", "a1", "b1", "a2", "b2", "a3", "b3", "a4", "b4"]


def test_the_name_closes_the_last_tie() -> None:
    quotas = {"b": Q(share=5), "a": Q(share=5)}
    assert one_kind(quotas, 2).decide(job("of_b", "b", 1), job("of_a", "a", 1)).attempts == ["of_a", "of_b"]


def test_an_empty_pool_gives_an_empty_decision() -> None:
    made = one_kind({"a": Q()}, 0).decide()
    assert made.out == [] and made.attempts == []


def test_without_capacity_everything_waits_and_nothing_breaks() -> None:
    """CASES 10: all nodes are down, so nothing is free and all shares are 0."""
    pool = Pool({"a": Q(), "b": Q()}, [[]], [8], down=[4])
    made = pool.decide(J("a1", "a", 8), J("b1", "b", 4))
    assert set(made.outcomes.values()) == {"CAPACITY"} and made.reserved == []


# -- hold-back -----------------------------------------------------------------------------------------

OWED = {"owed": Q(share=16), "over": Q(share=4, held=12)}


def test_mode_order_reserves_nothing() -> None:
    pool = one_kind(OWED, 4, fairshare=FairShare(enforce="order"))
    made = pool.decide(job("gang", "owed", 16), job("small", "over", 1))
    assert made.outcomes == {"gang": "CAPACITY", "small": "STARTS"} and made.reserved == []


def test_a_leaf_has_one_reservation_its_first() -> None:
    made = one_kind(OWED, 4).decide(
        job("gang", "owed", 16), job("second", "owed", 8), job("small", "over", 1)
    )
    assert made.reserved == ["gang"] and made.outcomes["small"] == "HELD_BACK"


def test_own_jobs_pass_the_own_reservation() -> None:
    made = one_kind(OWED, 4).decide(job("gang", "owed", 16), job("own", "owed", 1))
    assert made.outcomes == {"gang": "CAPACITY", "own": "STARTS"}


def test_an_unentitled_leaf_may_pass_its_own_reservation_too() -> None:
    quotas = {"a": Q(share=8, held=4)}
    pool = one_kind(quotas, 3)
    made = pool.decide(job("gang", "a", 4), job("wide", "a", 3), job("more", "a", 2))
    assert made.reserved == ["gang"] and made.outcomes == {
        "gang": "CAPACITY",
        "wide": "STARTS",
        "more": "CAPACITY",
    }


def test_what_leaves_enough_for_the_reservation_is_admitted() -> None:
    quotas = {"owed": Q(share=16), "over": Q(share=4, held=12)}
    pool = Pool(quotas, [[3, 3, 3]], [4])
    made = pool.decide(J("gang", "owed", 8, nodes=2), J("one", "over", 1), J("two", "over", 1))
    assert made.outcomes == {"gang": "PLACEMENT", "one": "STARTS", "two": "HELD_BACK"}


def test_held_back_is_a_failed_attempt_and_is_closed_to_slurm() -> None:
    quotas = {"owed": Q(share=16), "over": Q(share=4, held=12, policy=FIFO)}
    made = one_kind(quotas, 4).decide(job("gang", "owed", 16), job("head", "over", 1), job("next", "over", 1))
    assert made.outcomes == {"gang": "CAPACITY", "head": "HELD_BACK", "next": "BEHIND"}
    assert made.open == ["gang"]
    assert made.by_name(made.decision.first_attempt_s)["head"] == 1000


def test_who_is_held_back_is_told_for_whom() -> None:
    made = one_kind(OWED, 4).decide(job("gang", "owed", 16), job("small", "over", 1))
    assert made.outcomes["small"] == "HELD_BACK" and made.blockers == {"small": "gang"}


def test_of_two_reservations_the_first_that_would_lose_its_room_is_named() -> None:
    """Ten are free: beside `tiny` there is room for six more, beside both for none."""
    quotas = {"a": Q(share=20), "b": Q(share=20), "over": Q(share=0, held=12)}
    nodes = J("tiny", "a", 4, nodes=1), J("wide", "b", 6, nodes=1)
    pool = Pool(quotas, [[2, 2, 2, 2, 2]], [6], cpus=900)
    small = pool.decide(*nodes, J("small", "over", 2, nodes=1))
    large = pool.decide(*nodes, J("large", "over", 8, nodes=4))
    assert small.reserved == large.reserved == ["tiny", "wide"]
    assert small.blockers == {"small": "wide"} and large.blockers == {"large": "tiny"}


@pytest.mark.parametrize(
    ("first", "second", "share", "need"),
    [
        pytest.param(4, 6, 20, 6, id="counted from the first"),
        pytest.param(8, 2, 4, 2, id="counted from the last"),
    ],
)
def test_a_reservation_for_which_just_enough_is_left_is_not_named(
    first: int, second: int, share: int, need: int
) -> None:
    quotas = {"a": Q(share=20), "b": Q(share=share), "over": Q(share=0, held=12)}
    pool = Pool(quotas, [[1] * 10], [12], cpus=900)
    made = pool.decide(J("first", "a", first), J("second", "b", second), J("late", "over", need, nodes=need))
    assert made.reserved == ["first", "second"] and made.blockers == {"late": "second"}


def test_cpus_that_nobody_has_reserved_name_nobody() -> None:
    """The job takes all that are free."""
    quotas = {"a": Q(share=20), "over": Q(share=0)}
    made = one_kind(quotas, 4, cpus=20).decide(
        job("gang", "a", 4, unplaced=True), job("eats", "over", 2, cpus=20)
    )
    assert made.reserved == ["gang"] and made.blockers == {"eats": "gang"}


def test_the_first_some_hundred_are_told_for_whom_they_are_held_back() -> None:
    jobs = [job(f"small{number}", "over", 1) for number in range(600)]
    made = one_kind(OWED, 4).decide(job("gang", "owed", 16), *jobs)
    assert list(made.outcomes.values()).count("HELD_BACK") == 600
    assert list(made.blockers) == [f"small{number}" for number in range(512)]


def test_a_reservation_on_other_nodes_is_not_named() -> None:
    quotas = {"a": Q(share=16), "b": Q(share=16), "over": Q(share=4, held=12)}
    pool = Pool(quotas, [[2, 2, 2], [2, 2]], [4, 4])
    inside, around = J("inside", "a", 4, nodes=1, kinds=(0,)), J("around", "b", 4, nodes=1)
    small = J("small", "over", 2, kinds=(1,))
    made = pool.decide(inside, around, small, replace(small, name="more", need=1))
    assert made.blockers == {"more": "around"}


def test_for_cpus_the_one_that_needs_them_is_named() -> None:
    quotas = {"a": Q(share=16), "b": Q(share=16), "over": Q(share=0, held=12)}
    pool = one_kind(quotas, 4, cpus=20)
    made = pool.decide(job("gpus", "a", 5), job("both", "b", 5, cpus=15), J("eats", "over", 0, cpus=6))
    assert made.reserved == ["gpus", "both"] and made.blockers == {"eats": "both"}


def test_a_reservation_elsewhere_that_is_short_first_is_not_named_but_the_next_one_on_the_same_nodes() -> (
    None
):
    quotas = {"a": Q(share=9), "b": Q(share=9), "c": Q(share=0)}
    pool = Pool(quotas, [[1, 1], [0, 0, 0, 0, 0, 0, 0]], [1, 1])
    made = pool.decide(
        job("elsewhere", "a", 3, kinds=(1,)),
        job("anywhere", "b", 6, order_s=1),
        job("late", "c", 1, kinds=(0,)),
    )
    assert made.reserved == ["elsewhere", "anywhere"]
    assert made.outcomes["late"] == "HELD_BACK"
    assert made.blockers == {"late": "anywhere"}


@pytest.mark.parametrize(
    ("deserved", "outcome", "blockers"), [(4, "STARTS", {}), (0, "HELD_BACK", {"small": "gang"})]
)
def test_what_was_promised_is_kept_from_all_but_what_is_deserved(
    deserved: int, outcome: str, blockers: dict[str, str]
) -> None:
    quotas = {"a": Q(share=4, deserved=4), "b": Q(share=4, deserved=deserved)}
    made = one_kind(quotas | {"c": Q(held=4)}, 2).decide(
        job("gang", "a", 4, promised=True), job("small", "b", 1)
    )
    assert made.reserved == ["gang"]
    assert (made.outcomes["small"], made.blockers) == (outcome, blockers)


def test_when_there_could_be_room_is_known_of_reservations_alone() -> None:
    made = one_kind(OWED, 4).decide(GANG, job("small", "over", 1, time_limit_s=501), running=RUNNING)
    assert made.by_name(made.decision.room_s) == {"gang": 1500, "small": -1}
    made = one_kind(OWED, 4).decide(GANG, running=RUNNING)
    assert made.by_name(made.decision.room_s) == {"gang": 1500}, "also if nobody asked"
    assert one_kind(OWED, 4).decide(GANG).decision.room_s.tolist() == [-1], "nothing is known of what runs"


def test_an_entitlement_of_whole_units_decides_not_the_fractional_share() -> None:
    pool = one_kind(OWED, 4)
    jobs = job("gang", "owed", 16), job("small", "over", 1)
    queue = pool.queue_of(jobs)
    shares = np.array([[15.9], [4.1]])
    decision = order_jobs(
        queue,
        pool.quota_table(),
        [quota.policy for quota in OWED.values()],
        pool.room(),
        pool.column("held"),
        shares,
        pool.fairshare,
        1000,
        entitlement=np.array([[16.0], [4.0]]),
    )
    assert decision.reserved.tolist() == [True, False]


def test_reservations_are_not_made_beyond_what_is_up() -> None:
    quotas = {"a": Q(share=16, deserved=16), "b": Q(share=16, deserved=16), "c": Q(share=0, held=12)}
    made = one_kind(quotas, 4).decide(job("a1", "a", 16), job("b1", "b", 16), job("c1", "c", 1))
    assert made.reserved == ["a1"] and made.outcomes["c1"] == "HELD_BACK"


def test_a_reservation_on_other_nodes_holds_nobody_back() -> None:
    quotas = {"owed": Q(share=16), "over": Q(share=4, held=12)}
    pool = Pool(quotas, [[2, 2], [2, 2]], [4, 4])
    gang = J("gang", "owed", 8, nodes=2, kinds=(0,))
    made = pool.decide(
        gang, J("same", "over", 1, kinds=(0,)), J("other", "over", 1, kinds=(1,)), J("any", "over", 1)
    )
    assert made.outcomes == {"gang": "CAPACITY", "same": "HELD_BACK", "other": "STARTS", "any": "HELD_BACK"}


def test_a_reservation_for_any_node_leaves_room_on_one_kind() -> None:
    quotas = {"owed": Q(share=16), "over": Q(share=4, held=12)}
    pool = Pool(quotas, [[2, 2], [2, 2]], [4, 4])
    gang = J("gang", "owed", 6, nodes=2)
    made = pool.decide(gang, J("fits", "over", 2, kinds=(0,)), J("takes", "over", 1, kinds=(0,)))
    assert made.outcomes == {"gang": "PLACEMENT", "fits": "STARTS", "takes": "HELD_BACK"}


def test_two_reservations_are_counted_where_they_lie() -> None:
    quotas = {"a": Q(share=16), "b": Q(share=16), "over": Q(share=4, held=12)}
    pool = Pool(quotas, [[2, 2, 2], [2, 2]], [4, 4])
    inside, around = J("inside", "a", 4, nodes=1, kinds=(0,)), J("around", "b", 4, nodes=1)
    small = J("small", "over", 2, kinds=(1,))
    assert pool.decide(inside, around, small).outcomes["small"] == "STARTS"  # 10 - 2 >= 4 + 4
    assert (
        pool.decide(inside, around, small, replace(small, name="more", need=1)).outcomes["more"]
        == "HELD_BACK"
    )


def test_an_own_reservation_does_not_make_others_larger() -> None:
    """`own` has reserved on both kinds; what `other` has reserved on kind 0 does not concern kind 1."""
    quotas = {"other": Q(share=16), "own": Q(share=6, held=0)}
    pool = Pool(quotas, [[1, 1], [1, 1, 1]], [4, 4], cpus=900)
    made = pool.decide(
        J("a1", "other", 4, kinds=(0,)),
        J("gang", "own", 6, nodes=3),
        J("large", "own", 3, nodes=3, kinds=(1,)),
        J("over", "own", 7, nodes=2),
    )
    assert made.reserved == ["a1", "gang"]
    assert made.outcomes["large"] == "STARTS"


def test_cpus_are_held_back_as_well() -> None:
    quotas = {"owed": Q(share=16), "over": Q(share=0, held=12)}
    pool = one_kind(quotas, 4, cpus=20)
    made = pool.decide(
        job("gang", "owed", 5, cpus=15), J("eats", "over", 0, cpus=6), J("fits", "over", 0, cpus=5)
    )
    assert made.outcomes == {"gang": "CAPACITY", "eats": "HELD_BACK", "fits": "STARTS"}


def test_a_reservation_that_needs_no_cpus_leaves_them_to_all() -> None:
    quotas = {"owed": Q(share=16), "over": Q(share=0, held=12)}
    made = one_kind(quotas, 4, cpus=2).decide(job("gang", "owed", 5), J("cpu", "over", 0, cpus=2))
    assert made.outcomes["cpu"] == "STARTS"


# -- backfill under a reservation ----------------------------------------------------------------------

RUNNING = [R(4, 1500), R(8, 2000)]
GANG = job("gang", "owed", 8)


@pytest.mark.parametrize(("time_limit_s", "outcome"), [(500, "STARTS"), (501, "HELD_BACK")])
def test_what_ends_before_the_reservation_could_be_served_is_admitted(
    time_limit_s: int, outcome: str
) -> None:
    """Four are free now, eight at 1500: what ends by then delays nobody."""
    made = one_kind(OWED, 4).decide(GANG, job("short", "over", 1, time_limit_s=time_limit_s), running=RUNNING)
    assert made.outcomes == {"gang": "CAPACITY", "short": outcome}


def test_without_running_jobs_or_with_the_switch_off_nothing_is_backfilled() -> None:
    short = job("short", "over", 1, time_limit_s=10)
    assert one_kind(OWED, 4).decide(GANG, short).outcomes["short"] == "HELD_BACK"
    off = one_kind(OWED, 4, fairshare=replace(NO_GUARD, backfill_under_reservation=False))
    assert off.decide(GANG, short, running=RUNNING).outcomes["short"] == "HELD_BACK"


def test_a_reservation_that_may_never_be_served_is_delayed_only_by_jobs_without_a_limit() -> None:
    pool, forever = one_kind(OWED, 4), [R(12, 1 << 41)]
    assert (
        pool.decide(GANG, job("long", "over", 1, time_limit_s=10**7), running=forever).outcomes["long"]
        == "STARTS"
    )
    assert pool.decide(GANG, job("endless", "over", 1), running=forever).outcomes["endless"] == "HELD_BACK"


def test_a_reservation_larger_than_what_runs_is_delayed_by_nobody_who_ends() -> None:
    """All that runs gives back 2, the gang lacks 4: some node is down, and nobody knows until when."""
    made = one_kind(OWED, 4).decide(GANG, job("long", "over", 1, time_limit_s=10**7), running=[R(2, 1500)])
    assert made.outcomes["long"] == "STARTS"


def test_what_nodes_cannot_hold_now_but_counts_could_is_not_backfilled_against() -> None:
    """The gang fails for the shape of the nodes, so by counts it could start now: nothing is short enough."""
    pool = Pool({"owed": Q(share=16), "over": Q(share=1, held=4)}, [[3, 3]], [4])
    made = pool.decide(J("gang", "owed", 4), J("short", "over", 3, time_limit_s=1), running=[R(2, 1500)])
    assert made.outcomes == {"gang": "PLACEMENT", "short": "HELD_BACK"}


def test_only_jobs_on_the_reservations_nodes_bring_it_nearer() -> None:
    quotas = {"owed": Q(share=16), "over": Q(share=1, held=9)}
    pool = Pool(quotas, [[2, 2], [0]], [4, 4])
    gang = J("gang", "owed", 8, nodes=2, kinds=(0,))
    running = [R(4, 1100, kind=1), R(4, 1300, kind=0)]
    made = pool.decide(gang, J("short", "over", 1, kinds=(0,), time_limit_s=300), running=running)
    assert made.outcomes["short"] == "STARTS"
    made = pool.decide(gang, J("short", "over", 1, kinds=(0,), time_limit_s=301), running=running)
    assert made.outcomes["short"] == "HELD_BACK"


def test_the_nearest_of_several_reservations_counts() -> None:
    quotas = {"a": Q(share=6), "b": Q(share=10), "over": Q(share=1, held=12)}
    pool = one_kind(quotas, 4)
    jobs = job("a1", "a", 6), job("b1", "b", 10)
    made = pool.decide(*jobs, job("short", "over", 1, time_limit_s=500), running=[R(2, 1400), R(4, 1600)])
    assert made.outcomes["short"] == "HELD_BACK"
    made = pool.decide(*jobs, job("short", "over", 1, time_limit_s=400), running=[R(2, 1400), R(4, 1600)])
    assert made.outcomes["short"] == "STARTS"


# -- starvation guard of the pool ----------------------------------------------------------------------


@pytest.mark.parametrize(("waited_s", "reserved"), [(499, []), (500, ["gang"])])
def test_the_first_of_all_is_reserved_for_once_it_has_waited_long_enough(
    waited_s: int, reserved: list[str]
) -> None:
    quotas = {"small": Q(share=4), "over": Q(share=2, held=8)}
    pool = one_kind(quotas, 8, fairshare=FairShare(starvation_after_s=500.0))
    made = pool.decide(job("gang", "small", 16, order_s=1000 - waited_s), job("s", "over", 4))
    assert made.reserved == reserved
    assert made.attempts[0] == "gang" and made.outcomes["s"] == ("HELD_BACK" if reserved else "STARTS")


def test_only_the_first_that_waits_for_room_is_guarded() -> None:
    quotas = {"a": Q(share=4), "b": Q(share=3), "others": Q(held=8)}
    pool = one_kind(quotas, 4, fairshare=FairShare(starvation_after_s=500.0))
    made = pool.decide(job("fresh", "a", 6, order_s=900), job("old", "b", 6, order_s=1))
    assert made.attempts == ["fresh", "old"] and made.reserved == []


def test_a_job_that_fails_for_a_limit_does_not_take_the_guard_from_the_next() -> None:
    quotas = {"a": Q(share=4, held=4, limit=8), "b": Q(share=2, held=4)}
    pool = one_kind(quotas, 4, fairshare=FairShare(starvation_after_s=500.0))
    made = pool.decide(job("full", "a", 5, order_s=1), job("old", "b", 6, order_s=1))
    assert made.outcomes["full"] == "LIMIT" and made.reserved == ["old"]


# -- what is open, and the order that goes out ---------------------------------------------------------


def test_blocked_jobs_stand_behind_all_that_start() -> None:
    made = one_kind({"a": Q(share=4), "b": Q(share=1, held=8)}, 4).decide(
        job("blocked", "a", 5), job("starts", "b", 4, order_s=3)
    )
    assert made.attempts == ["blocked", "starts"]
    assert made.reserved == [] and made.out == ["starts", "blocked"]


def test_what_waits_for_room_is_closed_where_it_could_take_a_reservation() -> None:
    quotas = {"a": Q(share=2, held=2), "b": Q(share=8), "c": Q(share=6)}
    made = one_kind(quotas, 4).decide(
        job("blocked", "a", 5, order_s=1), job("gang", "c", 6, order_s=2), job("starts", "b", 4, order_s=3)
    )
    assert made.attempts == ["starts", "gang", "blocked"]
    assert made.outcomes["blocked"] == "CAPACITY"
    assert made.reserved == ["gang"] and made.out == ["starts", "gang"]


def test_own_startable_jobs_stand_before_the_holder_of_the_reservation() -> None:
    made = one_kind(OWED, 4).decide(
        job("gang", "owed", 16, priority=9), job("own", "owed", 1), job("own2", "owed", 1)
    )
    assert made.attempts == ["gang", "own", "own2"] and made.out == ["own", "own2", "gang"]


def test_startable_jobs_of_others_stay_behind_the_holder() -> None:
    quotas = {"a": Q(share=8), "b": Q(share=8, held=4)}
    made = one_kind(quotas, 4).decide(job("gang", "a", 8), job("b1", "b", 4, order_s=5))
    assert made.attempts == ["gang", "b1"] and made.out == ["gang", "b1"]


def test_an_array_that_starts_only_in_part_stands_behind_what_starts_as_a_whole() -> None:
    made = one_kind({"a": Q(share=0)}, 4).decide(
        job("array", "a", 3, tasks=2), job("one", "a", 1), job("blocked", "a", 2)
    )
    assert made.starts == {"array": 1, "one": 1, "blocked": 0}
    assert made.out == ["one", "array", "blocked"]


def test_what_is_open_cannot_break_a_limit_whichever_of_it_slurm_starts() -> None:
    quotas = {"a": Q(share=0, held=6, limit=10)}
    made = one_kind(quotas, 0).decide(
        job("first", "a", 3), job("second", "a", 2), job("third", "a", 1), job("array", "a", 1, tasks=4)
    )
    assert set(made.outcomes.values()) == {"CAPACITY"}
    assert made.open == ["first", "third"]  # 6 + 3 + 2 would be 11


@pytest.mark.parametrize(("limit", "may_start"), [(10, 4), (8, 2), (6, 0)])
def test_as_many_tasks_of_an_array_are_open_as_the_limits_bear(limit: int, may_start: int) -> None:
    made = one_kind({"a": Q(share=0, held=6, limit=limit)}, 0).decide(job("array", "a", 1, tasks=4))
    assert made.by_name(made.decision.may_start) == {"array": may_start}


def test_the_holder_of_a_reservation_is_opened_before_others() -> None:
    quotas = {"top": Q(share=20, held=6, limit=10), "top.a": Q(share=3, held=3), "top.b": Q(share=20, held=3)}
    made = one_kind(quotas, 1).decide(job("a1", "top.a", 2, order_s=1), job("b1", "top.b", 4, order_s=2))
    assert made.reserved == ["b1"] and made.open == ["b1"]


@pytest.mark.parametrize(
    ("share_b", "expected"),
    [
        pytest.param(4, ["a1", "b1", "a2", "b2", "a3", "b3", "a4", "b4"], id="equal"),
        pytest.param(12, ["b1", "b2", "a1", "b3", "b4", "a2", "a3", "a4"], id="one to three"),
    ],
)
def test_what_waits_for_room_goes_out_as_quotas_share_what_becomes_free(
    share_b: int, expected: list[str]
) -> None:
    quotas = {"a": Q(share=4, held=4), "b": Q(share=share_b, held=share_b)}
    jobs = [job(f"{name}{number}", name, 1) for name in "ab" for number in range(1, 5)]
    made = one_kind(quotas, 0).decide(*jobs)
    assert set(made.outcomes.values()) == {"CAPACITY"}
    assert made.out == expected


def test_what_is_further_down_than_the_pool_is_large_goes_out_as_it_was_tried() -> None:
    quotas = {"a": Q(share=1, held=1), "b": Q(share=1, held=1)}
    jobs = [job(f"{name}{number}", name, 1) for name in "ab" for number in range(1, 4)]
    made = one_kind(quotas, 0).decide(*jobs)
    assert made.attempts == ["a1", "a2", "a3", "b1", "b2", "b3"]
    assert made.out == ["a1", "b1", "a2", "a3", "b2", "b3"]


def test_what_is_further_down_than_slurm_looks_goes_out_as_it_was_tried() -> None:
    quotas = {name: Q(share=1000, held=1000) for name in "abc"}
    jobs = [job(f"{name}{number}", name, 1) for name in "abc" for number in range(400)]
    out = one_kind(quotas, 0).decide(*jobs).out
    assert out[:512] == [f"{name}{number}" for number in range(171) for name in "abc"][:512]
    assert out[512:514] == ["a171", "a172"]
    assert out[-230:] == [f"c{number}" for number in range(170, 400)]


def test_held_entries_have_no_rank() -> None:
    quotas = {"a": Q(share=9, held=4, limit=4), "b": Q(share=9, policy=FIFO)}
    made = one_kind(quotas, 1).decide(job("limit", "a", 1), job("head", "b", 2), job("behind", "b", 1))
    assert made.outcomes == {"limit": "LIMIT", "head": "CAPACITY", "behind": "BEHIND"}
    assert made.out == ["head"]
    assert is_open(made.decision).tolist() == [False, True, False]
    assert rank_order(made.decision, made.queue).tolist() == [1]


# -- bad input -----------------------------------------------------------------------------------------


def test_columns_that_do_not_fit_together_are_refused() -> None:
    pool = one_kind({"a": Q(), "b": Q(), "b.c": Q()}, 1)
    queue, tree = pool.queue_of([job("j", "a", 1)]), pool.quota_table()
    policies, held = [FIFO] * 3, np.zeros((3, 1))

    def attempt(**changes: object) -> None:
        given = {
            "queue": queue,
            "quotas": tree,
            "policies": policies,
            "room": pool.room(),
            "allocated": held,
        } | changes
        order_jobs(fair_share=held, fairshare=NO_GUARD, now_s=1, **given)  # type: ignore[arg-type]

    attempt()
    with pytest.raises(ValueError, match="2 policies for 3 quotas"):
        attempt(policies=[FIFO] * 2)
    with pytest.raises(ValueError, match="allocated must hold finite numbers"):
        attempt(allocated=np.zeros((2, 1)))
    with pytest.raises(ValueError, match="allocated must hold finite numbers"):
        attempt(allocated=np.full((3, 1), np.nan))
    with pytest.raises(ValueError, match="leaf quota"):
        attempt(queue=replace(queue, leaf=np.array([1], np.int32)))
    with pytest.raises(ValueError, match="leaf quota"):
        attempt(queue=replace(queue, leaf=np.array([3], np.int32)))
    with pytest.raises(ValueError, match="before its children"):
        attempt(quotas=replace(tree, parent=np.array([2, -1, 1], np.int32)))
    with pytest.raises(ValueError, match="entitlement must hold"):
        attempt(entitlement=np.zeros((3, 2)))
    with pytest.raises(ValueError, match="2 rows in nodes for 1 entries"):
        attempt(queue=replace(queue, nodes=np.ones(2, np.int64)))
    with pytest.raises(ValueError, match="needs a task"):
        attempt(queue=replace(queue, tasks=np.zeros(1, np.int64)))
    with pytest.raises(ValueError, match="65 classes"):
        attempt(room=replace(pool.room(), shape=np.zeros((65, 2), np.int64)))

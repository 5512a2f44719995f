"""Laws that hold for every pool."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from slurmfair.config import QueuePolicy
from slurmfair.model import Outcome
from slurmfair.order import rank_order
from slurmfair.walk import sorted_rows
from tests.one_quota import OneQuota
from tests.strategies import PoolCase, pools

few = settings(max_examples=150, deadline=None)


@few
@given(pools())
def test_the_order_of_each_quota_is_a_permutation(case: PoolCase) -> None:
    decision = case.decide()
    for leaf in set(case.queue.leaf.tolist()):
        places = decision.position[(case.queue.leaf == leaf) & (decision.outcome != Outcome.PARKED)]
        assert sorted(places) == list(range(1, len(places) + 1))
    assert (decision.position[decision.outcome == Outcome.PARKED] == 0).all()


@few
@given(pools())
def test_the_outgoing_order_holds_every_open_entry_once(case: PoolCase) -> None:
    decision = case.decide()
    out = rank_order(decision, case.queue)
    assert sorted(out.tolist()) == np.flatnonzero(decision.open).tolist()


@few
@given(pools())
def test_the_same_question_gets_the_same_answer_and_is_left_as_it_was(case: PoolCase) -> None:
    tables = [case.allocated, case.fair_share, case.room.shape, case.room.free, case.quotas.limit]
    tables += [getattr(case.queue, name) for name in ("need", "first_attempt_s", "tasks")]
    before = [table.copy() for table in tables]
    first, second = case.decide(), case.decide()
    for name in ("outcome", "attempt", "starts", "open", "first_attempt_s"):
        assert np.array_equal(getattr(first, name), getattr(second, name))
    assert all(np.array_equal(table, copy) for table, copy in zip(tables, before, strict=True))


@few
@given(pools())
def test_fifo_never_dequeues_past_a_waiting_head(case: PoolCase) -> None:
    decision, queue = case.decide(), case.queue
    for leaf in set(queue.leaf.tolist()):
        policy = case.policies[leaf]
        if policy.name != "fifo" or policy.fifo_scope != "quota":
            continue
        rows = np.flatnonzero((queue.leaf == leaf) & (decision.position > 0))
        rows = rows[np.argsort(decision.position[rows])]
        whole = decision.starts[rows] == queue.tasks[rows]
        head = int(np.argmin(whole)) if not whole.all() else len(rows)
        assert (decision.starts[rows[head + 1 :]] == 0).all()


@few
@given(pools())
def test_round_robin_leaves_no_fitting_job(case: PoolCase) -> None:
    made = case.slowly()
    decision = case.decide()
    for entry in made.entries:
        waits = decision.starts[entry.row] < entry.tasks and decision.outcome[entry.row] != Outcome.PARKED
        if case.policies[entry.leaf].name == "round_robin" and waits:
            assert made.verdict(entry) != Outcome.STARTS


@few
@given(pools())
def test_nobody_exceeds_a_limit_even_if_slurm_starts_all_that_is_open(case: PoolCase) -> None:
    decision, queue, quotas = case.decide(), case.queue, case.quotas
    assert (decision.allocated <= np.maximum(quotas.limit, case.allocated)).all()
    held = decision.allocated.copy()
    for row in np.flatnonzero(decision.may_start > decision.starts):
        quota = int(queue.leaf[row])
        more = int(decision.may_start[row] - decision.starts[row])
        while quota >= 0:
            held[quota] += queue.need[row, list(quotas.resources)] * more
            quota = int(quotas.parent[quota])
    assert (held <= np.maximum(quotas.limit, case.allocated)).all()


@few
@given(pools())
def test_reservations_never_exceed_the_capacity(case: PoolCase) -> None:
    reserved = case.queue.need[case.decide().reserved].sum(axis=0)
    assert (reserved <= case.room.capacity).all()


@few
@given(pools())
def test_no_more_starts_than_is_free(case: PoolCase) -> None:
    decision = case.decide()
    taken = (case.queue.need * decision.starts[:, None]).sum(axis=0)
    assert (taken <= np.maximum(case.room.free, 0)).all()
    assert (decision.starts <= case.queue.tasks).all()


@few
@given(pools())
def test_ageing_never_crosses_the_lanes(case: PoolCase) -> None:
    decision, queue = case.decide(), case.queue
    for leaf in set(queue.leaf.tolist()):
        policy = case.policies[leaf]
        if policy.name != "intelligent":
            continue
        rows = np.flatnonzero((queue.leaf == leaf) & (decision.position > 0))
        high = queue.job_priority[rows] >= policy.high_threshold
        if high.any() and not high.all():
            assert decision.position[rows[high]].max() < decision.position[rows[~high]].min()


@few
@given(pools(), st.data())
def test_raising_a_priority_never_moves_a_job_back(case: PoolCase, data: st.DataObject) -> None:
    if not len(case.queue):
        return
    row = data.draw(st.integers(0, len(case.queue) - 1))
    priority = case.queue.job_priority.copy()
    priority[row] = min(9, priority[row] + data.draw(st.integers(1, 4)))
    raised = replace(case, queue=replace(case.queue, job_priority=priority)).decide()
    assert raised.position[row] <= case.decide().position[row]


@few
@given(st.lists(st.integers(1, 120), min_size=1, max_size=25), st.integers(1, 9))
def test_the_window_of_balance_grows_at_most_one_per_timeout(waits_s: list[int], n_jobs: int) -> None:
    quota = OneQuota(8, 8, QueuePolicy(name="balance", balance_timeout_s=100.0))
    quota.running = {"all": 8}
    for n in range(n_jobs):
        quota.submit(f"j{n}", 1, 5)
    quota.make_pass()
    for wait_s in waits_s:
        quota.now_s += wait_s
        window = quota.window()
        assert len(window) <= 1 + quota.now_s // 100
        quota.make_pass()
        assert window == [f"j{n}" for n in range(len(window))]


@few
@given(st.data(), st.integers(1, 200), st.booleans())
def test_rows_are_sorted_by_leaf_rank_time_and_id(data: st.DataObject, n: int, many_ranks: bool) -> None:
    """Whether leaf and rank fit into 16 bits or not."""
    seed = data.draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    n_quotas = data.draw(st.sampled_from([1, 7, 6000, 7000, 70000]))
    leaf = rng.integers(0, n_quotas, n).astype(np.int32)
    rank = rng.integers(0, 90, n) / 10 if many_ranks else rng.integers(1, 10, n).astype(np.float64)
    order_s = rng.integers(0, 5, n)
    parked = rng.random(n) < 0.2
    expected = sorted(
        range(n), key=lambda row: (parked[row] * n_quotas or leaf[row], -rank[row], order_s[row], row)
    )
    live = int((~parked).sum())
    assert sorted_rows(leaf, rank, order_s, parked, n_quotas).tolist()[:live] == [
        row for row in expected if not parked[row]
    ]

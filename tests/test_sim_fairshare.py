"""Fair share over hours and days: the daemon's own cycle on the simulated cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurmfair.config_file import parse_policy
from slurmfair.cycle import Cycle
from slurmfair.model import Outcome
from slurmfair.sim import SimCluster
from slurmfair.slurm.parse import BaseState
from tests.sim_daemon import SimDaemon, machines, submit

HOUR_S = 3600
POLICY = """
version: 1
cycle: {{interval: 30s}}
pools:
  gpu:
    partitions: [train]
    resource: gres/gpu
    policy: {policy}
    fairshare: {{enabled: true, k: {k}, window: {{size: {window}}}, min_history: 0, {more}}}
    quotas:
"""


def policy(
    *names: str, k: float = 1, window: str = "2h", more: str = "half_life: 0", policy: str = "round_robin"
) -> str:
    """Return a policy with one pool and equal quotas; `a=8` is one that deserves 8."""
    text = POLICY.format(policy=policy, k=k, window=window, more=more)
    for name in names:
        path, _, deserved = name.partition("=")
        text += f"      {path}: {{match: {{accounts: [{path}]}}, deserved: {deserved or 0}, weight: 1}}\n"
    return text


def owners(sim: SimCluster, ids: dict[str, list[int]]) -> str:
    """Return whose jobs started, in order, one letter a job."""
    owner = {job_id: name for name, mine in ids.items() for job_id in mine}
    return "".join(owner[job_id] for _, job_id in sim.starts if job_id in owner)


def quota(cycle: Cycle, name: str) -> dict[str, float]:
    """Return the numbers of one quota of the first pool."""
    pool = cycle.pools[0]
    row = pool.snapshot.quotas.path.index(name)
    return {
        "usage": pool.shares.usage[row, 0],
        "fair_share": pool.shares.fair_share[row, 0],
        "request": pool.request[row, 0],
        "allocated": pool.snapshot.allocated[row, 0],
        "after": pool.decision.allocated[row, 0],
    }


def outcomes(cycle: Cycle) -> dict[int, Outcome]:
    pool = cycle.pools[0]
    return {
        int(job_id): Outcome(code)
        for job_id, code in zip(pool.queue.entry_id, pool.decision.outcome, strict=True)
    }


@pytest.mark.parametrize(
    ("past", "apart"),
    [({"window": "7d"}, 1), ({"window": "7d", "more": "half_life: 30m"}, 1), ({"window": "2h"}, 2)],
)
@pytest.mark.parametrize("names", ["ab", "abc"])
def test_equal_quotas_with_whole_pool_gangs_take_turns_and_end_even(
    names: str, past: dict[str, str], apart: int, tmp_path: Path
) -> None:
    """KAI deadlocks with three (KAI.md 9): nobody is owed the whole pool there. Here the smaller ratio goes first.

    A window that is a whole number of rounds long sees equal use at the end of each job; then a few
    seconds decide, and somebody may be two jobs ahead for a moment.
    """
    sim, length_s, turns = machines(8, 8), 600, 18
    daemon = SimDaemon(sim, policy(*names, policy="fifo", **past), tmp_path)
    began_s = sim.now_s
    ids = {name: submit(sim, name, turns, gpus=16, nodes=2, duration_s=length_s) for name in names}
    daemon.run(turns * length_s)
    order = owners(sim, ids)
    assert len(order) >= turns - 1
    for n in range(len(order)):
        counts = [order[: n + 1].count(name) for name in names]
        assert max(counts) - min(counts) <= apart, order
    used = daemon.gpu_s(began_s)
    assert max(used.values()) - min(used.values()) <= apart * 16 * length_s


@pytest.mark.parametrize(
    ("others", "past", "bound_s"),
    [
        ("a", {"k": 1, "window": "1h"}, HOUR_S),
        ("a", {"k": 1, "window": "1h", "more": "half_life: 15m"}, HOUR_S),
        ("a", {"k": 4, "window": "1h"}, 5 / 8 * HOUR_S),
        ("ac", {"k": 2, "window": "1h"}, HOUR_S),
        ("ac", {"k": 4, "window": "1h", "more": "half_life: 15m"}, HOUR_S),
        ("ac", {"k": 1, "window": "1h", "more": "starvation_after: 30m"}, HOUR_S),
        ("a", {"k": 0, "more": "starvation_after: 30m"}, HOUR_S / 2),
    ],
)
@pytest.mark.parametrize("name", ["round_robin", "balance"])
def test_a_job_of_the_whole_pool_gets_its_turn_against_streams_of_small_ones(
    name: str, others: str, past: dict[str, object], bound_s: float, tmp_path: Path
) -> None:
    """Case 21. It is owed the pool once the others have used so much of it (T15), which takes one window at most; or
    it has waited for `starvation_after` and is ranked first. Then room is kept until what runs has ended."""
    sim, length_s, cycle_s = machines(8, 8), 600, 30
    daemon = SimDaemon(sim, policy("b", *others, policy=name, **past), tmp_path)  # type: ignore[arg-type]
    stream = Stream(sim, others, length_s)
    daemon.run(length_s, each=stream)
    since_s = sim.now_s
    gang = submit(sim, "b", gpus=16, nodes=2, duration_s=length_s)[0]
    limit_s = int(bound_s) + length_s + 3 * cycle_s
    daemon.run(limit_s, each=stream, until=lambda: sim.job(gang).base == BaseState.RUNNING)
    assert sim.job(gang).base == BaseState.RUNNING, f"{sim.now_s - since_s} s"


def test_a_job_of_the_whole_pool_starves_behind_small_ones_without_fair_share(tmp_path: Path) -> None:
    """Case 21 with round robin alone, the default guard of a day being far away."""
    sim, length_s = machines(8, 8), 600
    daemon = SimDaemon(sim, policy("b", "a", k=0, window="1h"), tmp_path)
    stream = Stream(sim, "a", length_s)
    daemon.run(length_s, each=stream)
    gang = submit(sim, "b", gpus=16, nodes=2, duration_s=length_s)[0]
    daemon.run(3 * HOUR_S, each=stream)
    assert sim.job(gang).waits


class Stream:
    """Submits more 1-GPU jobs than 16 GPUs can run, in turn for several accounts, one a cycle and some more."""

    def __init__(self, sim: SimCluster, accounts: str, length_s: int) -> None:
        self.sim, self.accounts, self.length_s, self.n = sim, accounts, length_s, 0

    def __call__(self, now_s: int) -> None:
        for _ in range(1 + (self.n % 4 == 0)):
            account = self.accounts[self.n % len(self.accounts)]
            submit(self.sim, account, duration_s=self.length_s)
            self.n += 1


def test_a_burst_does_not_take_everything_that_falls_free(tmp_path: Path) -> None:
    """Case 16: 100 jobs of one tenant before 5 of another, 10 GPUs free at once."""
    sim = machines(10)
    daemon = SimDaemon(sim, policy("a", "b"), tmp_path)
    ids = {"a": submit(sim, "a", 100), "b": submit(sim, "b", 5)}
    cycle = daemon.cycle()
    sim.advance(2)
    assert owners(sim, ids) == "ababababab"
    assert quota(cycle, "a")["after"] == quota(cycle, "b")["after"] == 5


def test_what_was_chosen_and_cancelled_leaves_nothing_behind(tmp_path: Path) -> None:
    """Case 16: a thousand times a chosen job is cancelled before it starts, and no use or charge of it remains."""
    sim = machines(10)
    daemon = SimDaemon(sim, policy("a", "b"), tmp_path)
    began_s = sim.now_s
    submit(sim, "b", 5)
    for _ in range(1000):
        chosen = submit(sim, "a")[0]
        cycle = daemon.cycle()
        assert outcomes(cycle)[chosen] == Outcome.STARTS
        assert sim.owner.cancel(chosen) == 0
    cycle = daemon.cycle()
    assert (quota(cycle, "a")["after"], quota(cycle, "b")["after"]) == (0, 5)
    assert quota(cycle, "a")["usage"] == 0
    sim.advance(60)
    daemon.cycle()
    assert daemon.gpu_s(began_s)["a"] == 0


def test_long_jobs_are_use_from_their_first_hour_and_are_not_charged_again_at_their_end(
    tmp_path: Path,
) -> None:
    """Case 17: 8 GPUs for 7 days."""
    sim, week_s = machines(8, 8), 7 * 86400
    daemon = SimDaemon(sim, policy("a", "b", window="7d"), tmp_path)
    began_s = sim.now_s
    job = submit(sim, "a", gpus=8, duration_s=week_s)[0]
    daemon.cycle()
    sim.advance(5)
    since_s = sim.job(job).start_s
    daemon.run(HOUR_S + 60)
    submit(sim, "b")
    cycle = daemon.cycle()
    ran_s = sim.now_s - since_s
    assert ran_s > HOUR_S
    assert quota(cycle, "a")["usage"] == pytest.approx(8 * ran_s / (16 * week_s), rel=1e-12)
    while sim.now_s < since_s + week_s + 100:
        daemon.cycle()
        sim.advance(HOUR_S // 2)
    daemon.cycle()
    assert daemon.gpu_s(began_s)["a"] == 8 * week_s
    daemon.restart()
    daemon.cycle()
    assert daemon.gpu_s(began_s)["a"] == 8 * week_s


def test_ties_are_decided_the_same_way_a_thousand_times_and_after_a_restart(tmp_path: Path) -> None:
    """Case 23: two equal quotas, jobs of one second in turn."""
    sim = machines(4)
    daemon = SimDaemon(sim, policy("a=2", "b=2", "full"), tmp_path)
    fillers = submit(sim, "full", 4, duration_s=60 * HOUR_S)
    daemon.cycle()
    sim.advance(5)
    ids: dict[str, list[int]] = {"a": [], "b": []}
    for _ in range(10):
        for name in "ab":
            ids[name] += submit(sim, name)
    seen = set()
    for n in range(1000):
        cycle = daemon.cycle()
        pool = cycle.pools[0]
        seen.add((tuple(pool.queue.entry_id.tolist()), tuple(pool.place.tolist())))
        if n == 0:
            assert cycle.changes
        else:
            assert cycle.changes == ()
        if n == 500:
            daemon.restart()
        sim.advance(30)
    assert len(seen) == 1
    for filler in fillers:
        sim.owner.cancel(filler)
    sim.advance(5)  # Slurm fills the room before the daemon looks again
    daemon.cycle()
    assert sorted(owners(sim, ids)) == ["a", "a", "b", "b"]


def test_a_clock_that_steps_back_charges_nothing_and_fires_no_timer(tmp_path: Path) -> None:
    """Case 14: at t+600 back to t+0, then forward by an hour; a Balance timer of 900 s runs on as if nothing were."""
    sim = machines(8)
    daemon = SimDaemon(sim, policy("a", "b", policy="balance\n    balance_timeout: 15m"), tmp_path)
    began_s = sim.now_s
    submit(sim, "a", gpus=4, duration_s=2 * HOUR_S)
    short = submit(sim, "b", gpus=4, duration_s=3000)[0]
    daemon.run(60)
    head, other = submit(sim, "a", gpus=8)[0], submit(sim, "a", gpus=1)[0]

    def behind_after(for_s: int) -> bool:
        daemon.run(for_s)
        found = outcomes(daemon.cycle())
        assert found[head] == Outcome.CAPACITY
        return found[other] == Outcome.BEHIND

    assert behind_after(600)
    before = daemon.gpu_s(began_s)
    daemon.skew_s = -600
    cycle = daemon.cycle()
    assert [text for text in cycle.warnings if "clock" in text] == [
        "the cluster's clock went back by 600 s; nothing is charged twice for that time"
    ]
    assert all(now <= then for now, then in zip(daemon.gpu_s(began_s).values(), before.values(), strict=True))
    assert 0 <= quota(cycle, "a")["usage"] <= 1
    assert not [text for text in daemon.cycle().warnings if "clock" in text], "told once"
    assert behind_after(90), "690 s of 900 have passed"
    daemon.skew_s = HOUR_S
    assert behind_after(90)
    assert not behind_after(150)
    daemon.skew_s = 0
    daemon.run(3 * HOUR_S)
    assert daemon.gpu_s(began_s)["b"] == 4 * 3000, f"job {short} is charged once, from its start to its end"


def test_idle_gpus_and_no_other_demand_hold_nobody_back(tmp_path: Path) -> None:
    """Case 35: a has used more than its weight, and is alone."""
    sim = machines(8)
    daemon = SimDaemon(sim, policy("a", "b", k=10, window="2h"), tmp_path)
    submit(sim, "a", 8, duration_s=HOUR_S)
    daemon.run(HOUR_S + 60)
    ids = submit(sim, "a", 8)
    cycle = daemon.cycle()
    assert quota(cycle, "a")["usage"] > 0.45
    assert quota(cycle, "a")["fair_share"] == 8
    assert not [change for change in cycle.changes if change.hold]
    sim.advance(5)
    assert all(sim.job(one).base == BaseState.RUNNING for one in ids)


def test_over_quota_jobs_ask_at_once_and_go_first_where_they_are_owed(tmp_path: Path) -> None:
    """Case 30 (i): the cluster is full of b, a deserves 8 and asks for 8."""
    sim = machines(8, 8)
    daemon = SimDaemon(sim, policy("a=8", "b=8"), tmp_path)
    submit(sim, "b", 16, duration_s=HOUR_S)
    daemon.run(60)
    rivals = submit(sim, "b", 3, duration_s=HOUR_S)
    mine = submit(sim, "a", 8)
    cycle = daemon.cycle()
    assert quota(cycle, "a")["request"] == 8
    assert quota(cycle, "a")["fair_share"] == 8
    pool = cycle.pools[0]
    place = dict(zip(pool.queue.entry_id.tolist(), pool.place.tolist(), strict=True))
    assert sorted(place[one] for one in mine) == list(range(8)), "first in the order"
    assert all(place[one] < 0 for one in rivals), "room is kept: they are held"


def test_idle_gpus_are_not_kept_from_a_quota_above_what_it_deserves(tmp_path: Path) -> None:
    """Case 30 (ii): a deserves 4, holds 4 and asks for a fifth; it runs, and is use."""
    sim = machines(8, 8, 8)
    daemon = SimDaemon(sim, policy("a=4", "b=4"), tmp_path)
    submit(sim, "a", 4)
    daemon.run(60)
    fifth = submit(sim, "a")[0]
    daemon.run(300)
    assert sim.job(fifth).base == BaseState.RUNNING
    cycle = daemon.cycle()
    over_s = sim.now_s - sim.job(fifth).start_s
    surplus = 24 - 4  # b deserves 4 and uses none: they can be won too
    window_s = 2 * HOUR_S
    assert quota(cycle, "a")["usage"] <= over_s / (surplus * window_s) * 1.1
    assert quota(cycle, "a")["usage"] > 0


def test_capacity_and_deserved_of_the_past_are_kept_over_restarts(tmp_path: Path) -> None:
    sim = machines(8, 8)
    daemon = SimDaemon(sim, policy("a=4", "b=4"), tmp_path)
    since_s = sim.now_s
    daemon.run(600)
    sim.admin.lose_node("gpu02")
    lost_s = sim.now_s
    daemon.run(600)
    sim.admin.resume_node("gpu02")
    back_s = sim.now_s
    daemon.restart()
    daemon.config = parse_policy(policy("a=6", "b=4"), "test")
    daemon.run(600)
    daemon.restart()
    cycle = daemon.cycle()
    steps = daemon.past.pools["gpu"].steps
    rows = [
        (int(time_s), path, amounts[0])
        for time_s, path, amounts in zip(steps.time_s, steps.path, steps.amounts.tolist(), strict=True)
    ]
    assert sorted(rows) == [
        (since_s, "", 16), (since_s, "a", 4), (since_s, "b", 4), (lost_s, "", 8), (back_s, "", 16), (back_s, "a", 6)
    ]  # fmt: skip
    shares = cycle.pools[0].shares
    assert shares.capacity_from_s == since_s
    assert shares.history_from_s == sim.now_s - 2 * HOUR_S, "accounting told of the whole window"

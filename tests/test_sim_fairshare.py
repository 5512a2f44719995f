"""Fair share over hours and days: the daemon's own cycle on the simulated cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

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
    daemon = SimDaemon(sim, policy("a", "b", "full=4"), tmp_path)
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
    sim.advance(5)
    daemon.cycle()
    assert sorted(owners(sim, ids)) == ["a", "a", "b", "b"]


def test_a_clock_that_steps_back_charges_nothing_and_fires_no_timer(tmp_path: Path) -> None:
    """Case 14: at t+600 back to t+0, at t+900 forward by an hour."""
    sim = machines(8)
    daemon = SimDaemon(sim, policy("a", "b", policy="balance"), tmp_path)
    began_s = sim.now_s
    running = [*submit(sim, "a", gpus=4, duration_s=2 * HOUR_S), *submit(sim, "b", gpus=4, duration_s=800)]
    daemon.run(450)
    head, other = submit(sim, "a", gpus=8)[0], submit(sim, "a", gpus=1)[0]
    daemon.run(150)
    before = daemon.gpu_s(began_s)
    assert outcomes(daemon.cycle())[other] == Outcome.BEHIND

    daemon.skew_s = -600
    cycle = daemon.cycle()
    assert [text for text in cycle.warnings if "clock" in text] == [
        "the cluster's clock went back by 600 s; nothing is charged twice for that time"
    ]
    assert not [text for text in daemon.cycle().warnings if "clock" in text]
    assert all(now <= then for now, then in zip(daemon.gpu_s(began_s).values(), before.values(), strict=True))
    assert quota(cycle, "a")["usage"] >= 0
    assert outcomes(cycle)[other] == Outcome.BEHIND, "150 s of 300 have passed"
    daemon.run(120, until=lambda: False)
    assert outcomes(daemon.cycle())[other] == Outcome.BEHIND
    daemon.run(180)

    daemon.skew_s = 2400
    sim.job(head)
    cycle = daemon.cycle()
    assert not [text for text in cycle.warnings if "clock" in text]
    daemon.skew_s = 0
    daemon.run(3 * HOUR_S)
    start_s = {one: sim.starts[[job for _, job in sim.starts].index(one)][0] for one in running}
    assert daemon.gpu_s(began_s)["b"] == 4 * 800
    assert start_s

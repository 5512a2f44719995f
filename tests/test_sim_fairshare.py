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

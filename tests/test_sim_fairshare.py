"""Fair share over hours and days: the daemon's own cycle on the simulated cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurmfair.cycle import Cycle
from slurmfair.model import Outcome
from slurmfair.sim import SimCluster
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


@pytest.mark.parametrize("half_life", ["0", "30m"])
@pytest.mark.parametrize("names", ["ab", "abc"])
def test_equal_quotas_with_whole_pool_gangs_take_turns_and_end_even(
    names: str, half_life: str, tmp_path: Path
) -> None:
    """KAI deadlocks with three (KAI.md 9): nobody is owed the whole pool there. Here the smaller ratio goes first."""
    sim, length_s, turns = machines(8, 8), 600, 18
    daemon = SimDaemon(sim, policy(*names, more=f"half_life: {half_life}", policy="fifo"), tmp_path)
    began_s = sim.now_s
    ids = {name: submit(sim, name, turns, gpus=16, nodes=2, duration_s=length_s) for name in names}
    daemon.run(turns * length_s)
    order = owners(sim, ids)
    assert len(order) >= turns - 1
    for n in range(len(order)):
        counts = [order[: n + 1].count(name) for name in names]
        assert max(counts) - min(counts) <= 1, order
    used = daemon.gpu_s(began_s)
    assert max(used.values()) - min(used.values()) <= 16 * length_s

"""The lab's cluster in memory, and short words for what tests do with it."""

from __future__ import annotations

from typing import Any

from slurmfair.model import Change
from slurmfair.sim import JobSpec, NodeSpec, Rules, SimCluster
from slurmfair.slurm.cluster import Result
from slurmfair.slurm.requests import Channel

HOUR_S = 3600


def lab(rules: Rules | None = None, channel: Channel = "site_factor", **tiers: int) -> SimCluster:
    """Return three nodes with 8 x h100, one with 4 x h100 and 4 x a100, and one without GPUs."""
    everywhere = ("train",)
    nodes = [
        NodeSpec("gpu01", ("train", "interactive"), {"h100": 8}),
        NodeSpec("gpu02", ("train", "interactive"), {"h100": 8}),
        NodeSpec("gpu03", everywhere, {"h100": 8}),
        NodeSpec("gpu04", everywhere, {"h100": 4, "a100": 4}),
        NodeSpec("cpu01", ("cpu",)),
    ]
    return SimCluster(nodes, rules=rules, channel=channel, tiers=tiers)


def submit(sim: SimCluster, rank: int | None = None, **asked: Any) -> int:
    """Submit a job; give it a rank if one is named."""
    job_id = sim.submit(JobSpec(**asked))
    if rank is not None:
        assert write(sim, job_id, rank=rank) is Result.OK
    return job_id


def write(sim: SimCluster, job_id: int, **change: Any) -> Result:
    """Write as the daemon does."""
    return sim.write(Change(job_id, **change)).result


def started(sim: SimCluster) -> list[int]:
    """Return the ids of started jobs, in order."""
    return [job_id for _, job_id in sim.starts]


def fill(sim: SimCluster, *gpus_by_node: int, duration_s: int = HOUR_S) -> list[int]:
    """Fill the first nodes with one job each and let them start."""
    ids = [
        submit(sim, gpus=gpus, duration_s=duration_s, time_limit_s=duration_s, name="filler")
        for gpus in gpus_by_node
    ]
    sim.advance(2)
    assert set(ids) <= set(started(sim))
    return ids

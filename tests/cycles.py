"""Single cycles on tables that a test writes down, for tests of the cycle, its memory and what it publishes."""

from __future__ import annotations

from typing import Any

from slurmfair.config import Config
from slurmfair.config_file import parse_policy
from slurmfair.cycle import Channel, Cycle, look_at, run_cycle
from slurmfair.memory import Memory
from slurmfair.model import Change, NodeTable
from tests.tables import NOW_S, jobs_of, nodes_of, reading_of

POLICY = parse_policy(
    """
version: 1
cycle: {interval: 10s}
job_priority: {qos: {urgent: 9, normal: 5}}
pools:
  gpu:
    partitions: [train]
    resource: gres/gpu
    place_grace: 30s
    balance_timeout: 300s
    quotas:
      vision: {match: {accounts: [vision]}, deserved: 8, limit: 8, policy: balance}
      llm:
        policy: fifo
        quotas:
          pretrain: {match: {accounts: [llm-pretrain]}, deserved: 8}
          eval: {match: {accounts: [llm-eval]}}
""",
    "test",
)
HOLD, GATE, FREE = "slurmfair:hold", "slurmfair:gate", "slurmfair:free"
HELD = {"priority": 0, "reason": "JobHeldAdmin", "admin_comment": HOLD}
NODES = nodes_of({"name": "gpu01"}, {"name": "gpu02"})
CHANNEL = Channel(own_factors=0)


def full(gpus: int = 16) -> NodeTable:
    """Return the two nodes with so many of their sixteen GPUs in use."""
    first, second = min(gpus, 8), max(0, gpus - 8)
    return nodes_of(
        {"name": "gpu01", "used": (first, first, first), "used_types": {"h100": first}},
        {"name": "gpu02", "used": (second, second, second), "used_types": {"h100": second}},
    )


def running(job_id: int, gpus: int = 1, **more: Any) -> dict[str, Any]:
    """Return a running job."""
    return {"job_id": job_id, "state": 1, "held_resources": (gpus, gpus, gpus), "start_s": NOW_S - 60} | more


def cycle(
    *rows: dict[str, Any],
    nodes: NodeTable = NODES,
    memory: Memory | None = None,
    now_s: int = NOW_S,
    config: Config = POLICY,
) -> Cycle:
    """Return one cycle over the jobs that the rows tell."""
    memory = memory or Memory()
    look = look_at(reading_of(jobs_of(*rows), nodes, now_s), config, memory)
    return run_cycle(look, config, CHANNEL, memory)


def change_of(found: Cycle, job_id: int) -> Change | None:
    """Return the change of a job, None if there is none; a job may have one only."""
    changes = [change for change in found.changes if change.job_id == job_id]
    assert len(changes) <= 1
    return changes[0] if changes else None

"""Cases about the queue policies: one quota, one resource, events and passes."""

from __future__ import annotations

from typing import Any

from slurmfair.config import QueuePolicy
from tests.one_quota import OneQuota, Pass

POLICY = {"fifo": "fifo", "round_robin": "round_robin", "balance": "balance", "intelligent": "intelligent"}


def check_policy_case(case: dict[str, Any]) -> None:
    """Play one case and compare every pass."""
    quota = OneQuota(case["capacity"], case["limit"], policy_of(case["params"], case["start_policy"]))
    for step, expected in zip(case["steps"], case["expected"], strict=True):
        quota.now_s = step["t"]
        for event in step["events"]:
            apply(quota, event)
        assert shown(quota.make_pass()) == {key: expected[key] for key in expected if key != "t"}, step


def policy_of(params: dict[str, Any], name: str) -> QueuePolicy:
    return QueuePolicy(
        name=POLICY[name],  # type: ignore[arg-type]
        balance_timeout_s=params["balance_timeout"],
        aging_interval_s=params["aging_interval"],
        high_threshold=params["high_threshold"],
        aging_cap=params["aging_cap"],
        high_blocks_low=params["high_blocks_low"],
        on_never_fit=params["on_never_fit"],
    )


def apply(quota: OneQuota, event: dict[str, Any]) -> None:
    match event:
        case {"op": "submit", "job": job, "need": need, "priority": priority, "tasks": tasks}:
            quota.submit(job, need, priority, tasks)
        case {"op": "end", "job": job}:
            quota.end(job)
        case {"op": "cancel", "job": job}:
            quota.cancel(job)
        case {"op": "priority", "job": job, "priority": priority}:
            quota.set_priority(job, priority)
        case {"op": "policy", "policy": policy}:
            quota.set_policy(policy)
        case {"op": "limit", "limit": limit}:
            quota.set_limit(limit)
        case _:
            raise AssertionError(f"unknown event {event}")


def shown(made: Pass) -> dict[str, Any]:
    return {
        "order": made.order,
        "effective": made.effective,
        "free": made.free,
        "dequeued": made.dequeued,
        "window": made.window,
        "parked": made.parked,
    }

"""Views for tests: one job a line, everything else as the daemon would fill it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from slurmfair.config import FairShare, QueuePolicy
from slurmfair.model import FOREVER_S
from slurmfair.standing import Standing
from slurmfair.view import JOB_COLUMNS, QUOTA_KEYS, View

NOW_S = 1_800_000_000  # 2027-01-15T08:00:00 UTC
TEXTS = (
    "task_list", "user", "account", "partition", "qos", "name", "pool", "quota", "policy", "gpu_type", "reason",
    "reason_text",
)  # fmt: skip


def job(job_id: int, **facts: Any) -> dict[str, Any]:
    """Return a waiting job of ann in vision that wants one GPU; `facts` are columns of view.JOB_COLUMNS."""
    plain: dict[str, Any] = {
        "job_id": job_id, "array_id": 0, "array_task": -1, "het_id": 0, "het_offset": -1, "task_list": "",
        "user": "ann", "account": "vision", "partition": "train", "qos": "normal", "name": "wrap",
        "pool": "h100", "quota": "vision", "policy": "balance", "standing": Standing.OPEN, "outcome": 3,
        "base": 5, "effective": 5.0, "position": 1, "place": 1, "rank": 100000, "priority": 100000, "nice": 0,
        "blocker": -1, "reserved": 0, "room_s": -1, "unplaced": 0, "node_classes": 0, "submit_s": NOW_S - 600, "order_s": NOW_S - 600, "waiting_s": NOW_S - 600,
        "first_attempt_s": NOW_S - 120, "eligible_s": NOW_S - 600, "start_s": -1, "time_limit_s": 3600,
        "tasks": 1, "nodes": 1, "gpus": 1, "cpus": 1, "mem_mib": 1000, "gpu_type": "h100", "reason": "Resources",
        "reason_text": "", "dependent": 0, "begin_s": 0,
    }  # fmt: skip
    assert set(plain) == set(JOB_COLUMNS)
    assert set(facts) <= set(plain), set(facts) - set(plain)
    return plain | facts


def running(job_id: int, **facts: Any) -> dict[str, Any]:
    """Return a running job of ann."""
    held: dict[str, Any] = {
        "standing": Standing.RUNNING, "outcome": -1, "position": 0, "place": 0, "start_s": NOW_S - 300,
        "order_s": -1, "waiting_s": -1, "first_attempt_s": -1, "reason": "None",
    }  # fmt: skip
    return job(job_id, **(held | facts))


def quota(path: str, **facts: Any) -> dict[str, Any]:
    """Return a leaf quota that deserves 8 GPUs and holds none."""
    amounts = {
        "deserved": 8.0, "limit": None, "allocated": 0.0, "over": 0.0, "after_pass": 0.0, "demand": 0.0,
        "usage": 0.0, "fair_share": 8.0, "ratio": 0.0, "entitled": True,
    }  # fmt: skip
    plain: dict[str, Any] = {
        "pool": "h100", "quota": path, "parent": path.rpartition(".")[0], "depth": path.count("."), "leaf": True,
        "policy": "balance", "policy_settings": settings(), "weight": 1.0, "priority": 100, "pending": 0,
        "due": 0.5, "corrected": 0.5, "effective": 0.5, "head": -1, "resource": "gres/gpu",
        **amounts, "by_resource": {},
    }  # fmt: skip
    assert set(plain) == set(QUOTA_KEYS)
    assert set(facts) <= set(plain), set(facts) - set(plain)
    row = plain | {"after_pass": facts.get("allocated", 0.0)} | facts
    return row | {"by_resource": {"gres/gpu": {name: row[name] for name in amounts}}}


def settings(**changed: Any) -> dict[str, Any]:
    """Return the settings of a queue policy, by default Balance's."""
    plain = QueuePolicy()
    known = {name: getattr(plain, name) for name in QueuePolicy.__dataclass_fields__}
    assert set(changed) <= set(known)
    return known | changed


def pool(name: str = "h100", **facts: Any) -> dict[str, Any]:
    share = FairShare()
    plain: dict[str, Any] = {
        "pool": name, "partitions": ["train", "interactive"], "resource": "gres/gpu", "capacity": 32,
        "configured": 32, "free": 0, "nodes": [], "short": [], "place_grace_s": 60.0, "history_from_s": NOW_S - 86400, "capacity_from_s": NOW_S - 86400,
        "fairshare": {field: getattr(share, field) for field in FairShare.__dataclass_fields__ if field != "window"},
    }  # fmt: skip
    free = {"gres/gpu": facts.get("free", 0), "cpu": 1000, "mem": 10**6}
    return plain | {"free_by_resource": free} | facts


def about(**facts: Any) -> dict[str, Any]:
    plain: dict[str, Any] = {
        "cluster": "lab", "now_s": NOW_S, "n_waiting": 0, "changes": 0, "written": 0, "left_over": 0,
        "warnings": [], "degraded": [], "pools": [pool()], "version": "0.1.0",
        "policy_file": "/etc/slurmfair/policy.yaml", "refused_policy": "", "shadow": False, "overrides": [],
        "pid": 1, "cycle_s": 0.02, "private_jobs": False, "operators": [],
    }  # fmt: skip
    return plain | facts


def view(
    jobs: Sequence[Mapping[str, Any]] = (), quotas: Sequence[Mapping[str, Any]] = (), **facts: Any
) -> View:
    """Return a view of these jobs and quotas; `facts` are keys of `about`."""
    columns: dict[str, Any] = {}
    texts: dict[str, list[str]] = {}
    for name in JOB_COLUMNS:
        values = [one[name] for one in jobs]
        if name in TEXTS:
            texts[name] = sorted(set(values))
            values = [texts[name].index(value) for value in values]
        columns[name] = np.asarray(values, dtype=np.float64 if name == "effective" else np.int64)
    return View(about(**facts), columns, texts, [dict(row) for row in quotas])


def many(n: int, seed: int = 1) -> View:
    """Return a view of n waiting jobs of 40 users in 8 quotas."""
    draw = np.random.default_rng(seed)
    plain = view([job(1)], [quota(f"team{k}", allocated=4.0) for k in range(8)])
    columns = {name: np.repeat(column, n) for name, column in plain.jobs.items()}
    texts = {name: list(values) for name, values in plain.texts.items()}
    texts |= {
        "user": [f"user{k}" for k in range(40)],
        "quota": [f"team{k}" for k in range(8)],
        "name": [f"job-{k}" for k in range(n)],
    }
    columns |= {
        "job_id": np.arange(1, n + 1),
        "user": draw.integers(0, 40, n),
        "quota": draw.integers(0, 8, n),
        "name": np.arange(n),
        "outcome": draw.integers(0, 6, n),
        "position": np.arange(1, n + 1),
        "place": np.arange(1, n + 1),
        "rank": np.arange(n, 0, -1) * 100,
        "waiting_s": NOW_S - draw.integers(0, 10**6, n),
    }
    columns["policy"] = np.zeros(n, dtype=np.int64)
    assert columns["time_limit_s"].max() < FOREVER_S
    return View(plain.about | {"n_waiting": n}, columns, texts, plain.quotas)

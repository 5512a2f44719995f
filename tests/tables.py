"""Tables of jobs and nodes for tests, from the few fields that a test cares about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from slurmfair.model import FOREVER_S, Coded, JobTable, NodeTable, Partition, Reading

NOW_S = 1_800_000_000
TEXTS = {field.name for field in fields(JobTable) if field.type == "Coded"}
FLAGS = {field.name for field in fields(JobTable) if field.type == "Bools"}
TRIPLES = ("wanted", "held_resources")
USUAL: dict[str, Any] = {
    "array_task": -1,
    "priority": 1,
    "submit_s": NOW_S - 60,
    "eligible_s": NOW_S - 60,
    "time_limit_s": FOREVER_S,
    "tasks_waiting": 1,
    "nodes_wanted": 1,
    "wanted": (1, 1, 1),
    "held_resources": (0, 0, 0),
    "reason": "Priority",
    "user": "ann",
    "account": "vision",
    "partition": "train",
    "qos": "normal",
}


def coded(texts: Sequence[str]) -> Coded:
    """Return a column of text."""
    values = sorted(set(texts))
    return Coded(np.array([values.index(text) for text in texts], np.int32), tuple(values))


def jobs_of(*rows: dict[str, Any]) -> JobTable:
    """Return a table of jobs; what a row leaves out is that of a plain waiting 1-GPU job."""
    columns: dict[str, Any] = {}
    for field in fields(JobTable):
        plain = "" if field.name in TEXTS else 0
        given = [row.get(field.name, USUAL.get(field.name, plain)) for row in rows]
        if field.name in TEXTS:
            columns[field.name] = coded([str(value) for value in given])
        elif field.name in TRIPLES:
            columns[field.name] = np.array(given, np.int64).reshape(len(rows), 3)
        else:
            columns[field.name] = np.array(given, np.bool_ if field.name in FLAGS else np.int64)
    return JobTable(**columns)


def nodes_of(*rows: dict[str, Any]) -> NodeTable:
    """Return a table of nodes; each row may give name, partitions, gpus by type, used, used_types, state columns."""
    gpus = [tuple(sorted(row.get("gpus", {"h100": 8}).items())) for row in rows]
    total = [
        (sum(n for _, n in g), row.get("cpus", 64), row.get("mem", 512000))
        for g, row in zip(gpus, rows, strict=True)
    ]
    return NodeTable(
        name=tuple(str(row.get("name", f"gpu{i + 1:02}")) for i, row in enumerate(rows)),
        partitions=tuple(frozenset(row.get("partitions", ("train",))) for row in rows),
        gpu_types=tuple(gpus),
        total=np.array(total, np.int64).reshape(len(rows), 3),
        used=np.array([row.get("used", (0, 0, 0)) for row in rows], np.int64).reshape(len(rows), 3),
        gpu_used=tuple(tuple(sorted(row.get("used_types", {}).items())) for row in rows),
        counts=np.array([row.get("counts", True) for row in rows], np.bool_),
        free=np.array([row.get("free", True) for row in rows], np.bool_),
        draining=np.array([row.get("draining", False) for row in rows], np.bool_),
        state=tuple(row.get("state", "IDLE") for row in rows),
    )


def reading_of(jobs: JobTable, nodes: NodeTable, now_s: int = NOW_S) -> Reading:
    """Return a reading whose partitions are those that the nodes name."""
    names = sorted({name for partitions in nodes.partitions for name in partitions})
    members = {
        p: frozenset(n for n, ps in zip(nodes.name, nodes.partitions, strict=True) if p in ps) for p in names
    }
    return Reading("test", now_s, jobs, nodes, tuple(Partition(p, members[p], 1, True) for p in names))

"""The worked examples of SEMANTICS 6 (tests/cases/<policy>/): one quota, one resource, the real decision and timers."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from slurmfair.config import QueuePolicy
from tests.one_quota import OneQuota

CASES = Path(__file__).parent / "cases"
FOLDERS = ("fifo", "round_robin", "balance", "intelligent", "switch")
TABLES = [path for folder in FOLDERS for path in sorted((CASES / folder).glob("*.yaml"))]
POLICY = {"rr": "round_robin"}

EVENTS = {
    r"submit (\w+)\((\d+),p(\d)\)": lambda q, name, need, p: q.submit(name, int(need), int(p)),
    r"submit array (\w+)\((\d+) tasks x (\d+),p(\d)\)": lambda q, name, tasks, need, p: q.submit(
        name, int(need), int(p), int(tasks)
    ),
    r"(\w+) ends": lambda q, name: q.end(name),
    r"cancel (\w+)": lambda q, name: q.cancel(name),
    r"(\w+) prio:=(\d)": lambda q, name, p: q.set_priority(name, int(p)),
    r"policy:=(\w+)": lambda q, name: q.set_policy(POLICY.get(name, name)),
    r"limit:=(\d+)": lambda q, limit: q.set_limit(int(limit)),
    r"(\w+)\(\d+,p\d\) requeued, order time \d+": lambda q, name: q.requeue(name),
}


def apply(quota: OneQuota, event: str) -> None:
    for pattern, act in EVENTS.items():
        if found := re.fullmatch(pattern, event):
            act(quota, *found.groups())
            return
    raise AssertionError(f"unknown event {event!r}")


def test_all_37_tables_are_here() -> None:
    assert len(TABLES) == 37


@pytest.mark.parametrize("path", TABLES, ids=lambda path: path.stem)
def test_the_table_comes_true_line_by_line(path: Path) -> None:
    table = yaml.safe_load(path.read_text())
    policy = replace(QueuePolicy(name=table["policy"]), **table.get("settings", {}))
    quota = OneQuota(table["capacity"], table["limit"], policy)
    for step in table["steps"]:
        quota.now_s = step["t"]
        for event in step["events"]:
            apply(quota, event)
        made = quota.make_pass()
        expected: dict[str, Any] = {"parked": [], "effective": made.effective, "reasons": made.reasons} | step
        shown = {key: getattr(made, key) for key in expected if key not in ("t", "events")}
        assert shown == {key: expected[key] for key in shown}, f"at {step['t']}"

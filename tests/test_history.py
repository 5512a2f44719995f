"""The history between live looks, accounting and the state file."""

from __future__ import annotations

import numpy as np
import pytest

from slurmfair.config_file import parse_policy
from slurmfair.cycle import look_at
from slurmfair.errors import SlurmUnavailable
from slurmfair.history import Past
from slurmfair.memory import Memory
from slurmfair.model import Coded, RunTable
from slurmfair.state import State
from tests.tables import NOW_S, coded, jobs_of, nodes_of, reading_of

A_QUOTA = "a: {match: {accounts: [a]}, deserved: 0, weight: 1}"
POLICY_TEXT = """
version: 1
pools:
  gpu:
    partitions: [train]
    resource: gres/gpu
    fairshare: {enabled: true, window: {type: sliding, size: 7d}, min_history: 0}
    quotas:
      a: {match: {accounts: [a]}, deserved: 0, weight: 1}
      b: {match: {accounts: [b]}, deserved: 0, weight: 1}
"""
POLICY = parse_policy(POLICY_TEXT, "test")
NODES = nodes_of({}, {})


class Accounting:
    """A cluster that only knows accounting."""

    def __init__(self, table: RunTable | None) -> None:
        self.table = table
        self.asked: list[tuple[int, int]] = []

    def runs(self, since_s, until_s, progress=None):
        self.asked.append((since_s, until_s))
        if self.table is None:
            raise SlurmUnavailable("slurmdbd is away")
        return self.table


def runs_of(*rows: dict[str, int | str]) -> RunTable:
    n = len(rows)
    numbers = {
        name: np.array([row.get(name, 0) for row in rows], np.int64)
        for name in (
            "job_id",
            "array_id",
            "array_task",
            "submit_s",
            "start_s",
            "end_s",
            "suspended_s",
            "nodes",
            "state",
        )
    }
    texts: dict[str, Coded] = {
        name: coded([str(row.get(name, usual)) for row in rows])
        for name, usual in (
            ("user", "u"),
            ("account", "a"),
            ("partition", "train"),
            ("qos", "normal"),
            ("name", ""),
        )
    }
    gpus = np.array([[row.get("gpus", 1), 1, 1] for row in rows], np.int64).reshape(n, 3)
    return RunTable(**numbers, **texts, resources=gpus)


def running(job_id: int, account: str, gpus: int, since_s: int, **more: object) -> dict[str, object]:
    return {
        "job_id": job_id,
        "account": account,
        "state": 1,
        "start_s": since_s,
        "held_resources": (gpus, 1, 1),
        **more,
    }


def usage_at(past: Past, now_s: int, *rows: dict[str, object]) -> list[float]:
    reading = reading_of(jobs_of(*rows), NODES, now_s)
    found = past.look(look_at(reading, POLICY, Memory()).snapshot)
    return found["gpu"].usage[:, 0].tolist()


def test_what_runs_now_is_use_already(tmp_path):
    past = Past(State(tmp_path / "s.db"))
    hour = NOW_S - 3600
    assert usage_at(past, NOW_S, running(1, "a", 8, hour))[0] == pytest.approx(8 * 3600 / (16 * 7 * 86400))


def test_accounting_and_live_looks_count_a_run_once(tmp_path):
    past = Past(State(tmp_path / "s.db"))
    start_s = NOW_S - 7200
    table = runs_of({"job_id": 1, "start_s": start_s, "end_s": 0, "gpus": 8})
    usage_at(past, NOW_S - 60, running(1, "a", 8, start_s))
    past.catch_up(Accounting(table), POLICY, NOW_S - 30)
    past.catch_up(Accounting(table), POLICY, NOW_S + 400)
    once = usage_at(past, NOW_S, running(1, "a", 8, start_s))
    assert once[0] == pytest.approx(8 * 7200 / (16 * 7 * 86400))


def test_a_restart_knows_what_was_known(tmp_path):
    rows = [running(1, "a", 8, NOW_S - 7200), running(2, "b", 4, NOW_S - 3600)]
    state = State(tmp_path / "s.db")
    before = usage_at(Past(state), NOW_S, *rows)
    state.set_meta(last_cycle_s=str(NOW_S))
    state.close()
    after = usage_at(Past(State(tmp_path / "s.db")), NOW_S, *rows)
    assert after == pytest.approx(before, rel=1e-12)


def test_a_run_that_ended_while_the_daemon_was_down_is_corrected_by_accounting(tmp_path):
    state = State(tmp_path / "s.db")
    usage_at(Past(state), NOW_S, running(1, "a", 8, NOW_S - 3600))
    state.set_meta(last_cycle_s=str(NOW_S))
    past = Past(state)
    later = NOW_S + 3600
    assert usage_at(past, later)[0] == pytest.approx(8 * 3600 / (16 * 7 * 86400))
    table = runs_of({"job_id": 1, "start_s": NOW_S - 3600, "end_s": NOW_S + 1800, "gpus": 8})
    past.catch_up(Accounting(table), POLICY, later)
    assert usage_at(past, later)[0] == pytest.approx(8 * 5400 / (16 * 7 * 86400))


def test_an_absent_slurmdbd_degrades_and_is_asked_again(tmp_path):
    past = Past(State(tmp_path / "s.db"))
    away = Accounting(None)
    for now_s in range(NOW_S, NOW_S + 600, 10):
        past.catch_up(away, POLICY, now_s)
    assert len(away.asked) == 10
    reading = reading_of(jobs_of({"job_id": 5}), NODES, NOW_S + 600)
    found = past.look(look_at(reading, POLICY, Memory()).snapshot)
    assert "accounting has not answered for 600 s" in found["gpu"].degraded[0]
    table = runs_of({"job_id": 1, "start_s": NOW_S - 3600, "end_s": NOW_S - 1800, "gpus": 8})
    past.catch_up(Accounting(table), POLICY, NOW_S + 610)
    assert usage_at(past, NOW_S + 611)[0] > 0


def test_later_reads_of_accounting_overlap_the_earlier_ones_a_little(tmp_path):
    past = Past(State(tmp_path / "s.db"))
    empty = Accounting(runs_of())
    past.catch_up(empty, POLICY, NOW_S)
    past.catch_up(empty, POLICY, NOW_S + 10)
    past.catch_up(empty, POLICY, NOW_S + 400)
    assert [since for since, _ in empty.asked] == [NOW_S - 7 * 86400, NOW_S - 600]


def test_runs_before_the_window_are_forgotten_in_memory_and_on_disk(tmp_path):
    state = State(tmp_path / "s.db")
    past = Past(state)
    old = runs_of({"job_id": 1, "start_s": NOW_S - 3 * 86400, "end_s": NOW_S - 2 * 86400})
    past.catch_up(Accounting(old), POLICY, NOW_S)
    usage_at(past, NOW_S + 30 * 86400)
    assert len(past.pools["gpu"].ledger) == 0
    state.close()
    assert len(Past(State(tmp_path / "s.db")).pools["gpu"].ledger) == 0


def test_a_quota_that_moves_in_the_tree_takes_its_history_along(tmp_path):
    state = State(tmp_path / "s.db")
    past = Past(state)
    ended = runs_of({"job_id": 1, "start_s": NOW_S - 7200, "end_s": NOW_S - 3600, "gpus": 8})
    past.catch_up(Accounting(ended), POLICY, NOW_S - 60)
    before = usage_at(past, NOW_S)
    moved = parse_policy(POLICY_TEXT.replace(A_QUOTA, "org: {quotas: {" + A_QUOTA.strip() + "}}"), "test")
    assert [quota.path for quota in moved.pools[0].quotas] == ["org", "org.a", "b"]
    for fresh in (past, Past(state)):
        reading = reading_of(jobs_of({"job_id": 5, "account": "b"}), NODES, NOW_S)
        found = fresh.look(look_at(reading, moved, Memory()).snapshot)["gpu"]
        assert found.usage[1, 0] == pytest.approx(1.0)  # alone in its own group of siblings now
        assert found.usage[0, 0] == pytest.approx(before[0])

"""Tests of slurmfair.slurm.tables on what a real Slurm said (tests/data, made by tests/live/record.py)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slurmfair.model import FOREVER_S, Coded, JobTable, NodeTable
from slurmfair.slurm import attributes, parse, tables
from slurmfair.slurm.parse import Waits
from tests.request_forms import FORMS

RECORDED = sorted((Path(__file__).parent / "data").glob("slurm-*.json"))


@pytest.fixture(params=RECORDED, ids=lambda path: path.stem)
def recorded(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Return the record of one Slurm release."""
    found: dict[str, Any] = json.loads(request.param.read_text())
    return found


def raw_of(recorded: dict[str, Any], **changed: list[int]) -> tables.RawJobs:
    """Return recorded columns as the edge hands them over."""
    numbers = {**recorded["numbers"], **changed}
    return tables.RawJobs(
        recorded["read_s"],
        {name: np.array(column, dtype=np.int64) for name, column in numbers.items()},
        {name: attributes.coded(column) for name, column in recorded["texts"].items()},
    )


def records_of(recorded: dict[str, Any]) -> list[tables.NodeRecord]:
    """Return the recorded nodes."""
    return [
        tables.NodeRecord(
            **{
                **node,
                "partitions": frozenset(node["partitions"]),
                "used": parse.Tres(*node["used"]),
                "gres": tuple((name, count) for name, count in node["gres"]),
                "gpu_used": tuple((name, count) for name, count in node["gpu_used"]),
            }
        )
        for node in recorded["nodes"]
    ]


def nodes_of(recorded: dict[str, Any]) -> NodeTable:
    """Return the table of the recorded nodes."""
    return tables.node_table(records_of(recorded))


def jobs_of(recorded: dict[str, Any], **changed: list[int]) -> JobTable:
    """Return the table of the recorded jobs."""
    shards = tables.shards_per_gpu(records_of(recorded))
    return tables.job_table(raw_of(recorded, **changed), nodes_of(recorded), shards, lambda uid, _: f"u{uid}")


def test_every_recorded_request_wants_what_it_asked_for(recorded: dict[str, Any]) -> None:
    jobs = jobs_of(recorded)
    row_of = {job_id: row for row, job_id in enumerate(jobs.job_id.tolist())}
    for form, gpus, cpus, mem, nodes, gpu_type in FORMS:
        row = row_of[recorded["forms"][form]]
        assert jobs.wanted[row].tolist() == [gpus, cpus, mem], form
        assert (jobs.nodes_wanted[row], jobs.gpu_type[row]) == (nodes, gpu_type), form


def test_the_recorded_situations_fall_into_their_classes(recorded: dict[str, Any]) -> None:
    jobs = jobs_of(recorded)
    row_of = {job_id: row for row, job_id in enumerate(jobs.job_id.tolist())}
    waits = {
        name: parse.waits_for(jobs.reason[row_of[job_id]], jobs.reason_text[row_of[job_id]])
        for name, job_id in recorded["situations"].items()
    }
    expected = {
        "begin": Waits.CLEARS,
        "dependent": Waits.CLEARS,
        "singleton": Waits.CLEARS,
        "array": Waits.CLEARS,
        "reservation": Waits.CLEARS,
        "too long": Waits.NEVER,
        "admin's hold": Waits.ADMIN_HOLD,
        "begin, admin hold": Waits.ADMIN_HOLD,
        "owner's hold": Waits.HELD,
        "uhold": Waits.HELD,
        "het": Waits.HELD,
    }
    assert {name: waits[name] for name in expected} == expected
    array = row_of[recorded["situations"]["array"]]
    assert (jobs.tasks_waiting[array], jobs.tasks_throttle[array]) == (46, 4)
    assert jobs.time_limit_s[row_of[recorded["situations"]["too long"]]] == FOREVER_S
    held = row_of[recorded["situations"]["begin, admin hold"]]
    assert jobs.begin_s[held] == jobs.eligible_s[held] > recorded["read_s"]


def test_suspensions_that_ended_are_told_from_the_one_that_lasts() -> None:
    numbers = {
        "start_time": np.array([1000, 1000, 1000, 0, 5000], dtype=np.int64),
        "suspend_time": np.array([0, 1100, 1500, 900, 1500], dtype=np.int64),
        "pre_sus_time": np.array([0, 100, 300, 0, 100], dtype=np.int64),
    }
    assert tables._suspended_s(numbers).tolist() == [0, 0, 200, 0, 0]


def test_a_typed_request_is_known_even_if_accounting_counts_only_gpus(recorded: dict[str, Any]) -> None:
    row = recorded["numbers"]["job_id"].index(recorded["forms"]["-G h100:3"])
    recorded["texts"]["tres_req_str"][row] = "cpu=1,mem=1000M,node=1,billing=1,gres/gpu=3"
    assert jobs_of(recorded).gpu_type[row] == "h100"


def test_exclusive_jobs_of_several_partitions_want_the_largest_node(recorded: dict[str, Any]) -> None:
    row = recorded["numbers"]["job_id"].index(recorded["forms"]["--exclusive"])
    recorded["texts"]["partition"][row] = "cpu,interactive"
    assert jobs_of(recorded).wanted[row].tolist() == [8, 64, 64000]
    recorded["texts"]["partition"][row] = "gone"
    assert jobs_of(recorded).wanted[row].tolist() == [0, 1, 1000]


def test_no_jobs_and_no_nodes_make_empty_tables(recorded: dict[str, Any]) -> None:
    empty = {
        "read_s": 5,
        "nodes": [],
        "numbers": {name: [] for name in recorded["numbers"]},
        "texts": {name: [] for name in recorded["texts"]},
    }
    jobs = jobs_of(empty)
    assert len(jobs) == 0 and jobs.wanted.shape == (0, 3)
    assert nodes_of(empty).total.shape == (0, 3)


def test_shards_in_use_count_as_the_gpus_they_take() -> None:
    node = tables.NodeRecord(
        name="n1",
        partitions=frozenset({"p"}),
        state="MIXED",
        gres=(("gpu:h100", 4), ("shard", 16)),
        used=parse.Tres(gpu=1, cpu=2, mem=3, shards=5),
        cpus=64,
        memory=1000,
    )
    table = tables.node_table([node])
    assert (table.used[0].tolist(), table.total[0].tolist()) == ([3, 2, 3], [4, 64, 1000])
    assert tables.shards_per_gpu([node, node._replace(gres=(("gpu", 2), ("shard", 4)))]) == 2
    assert tables.shards_per_gpu([node._replace(gres=())]) == 0


def test_users_are_named_once_and_texts_are_shared() -> None:
    asked: list[int] = []

    def name(uid: int, given: str) -> str:
        asked.append(uid)
        return given or f"u{uid}"

    uids = np.array([7, 7, 3, 7], dtype=np.int64)
    users = tables._users(uids, Coded(np.array([0, 0, 1, 0], dtype=np.int32), ("", "kim")), name)
    assert [users[row] for row in range(4)] == ["u7", "u7", "kim", "u7"]
    assert sorted(asked) == [3, 7]

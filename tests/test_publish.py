"""From a cycle to the published view: every column and key that the reports read, in their order."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slurmfair.apply import Applied
from slurmfair.config_file import parse_policy
from slurmfair.cycle import Cycle
from slurmfair.errors import DaemonUnreachable
from slurmfair.model import FOREVER_S, UNSET_S, Outcome
from slurmfair.publish import NONE, make_view
from slurmfair.slurm.cluster import Result
from slurmfair.standing import Standing
from slurmfair.view import JOB_COLUMNS, PROMISED, QUOTA_KEYS, View, load, save
from tests.cycles import HELD, POLICY, cycle, full, running
from tests.tables import NOW_S, nodes_of

ROWS = (
    {"job_id": 30, "user": "bob", "name": "large", "wanted": (8, 16, 4096), "nodes_wanted": 1, "nice": 3},
    {"job_id": 31, "name": "small"},
    {"job_id": 32, "account": "llm-eval", "wanted": (2, 2, 2), "time_limit_s": 3600, "qos": "urgent"},
    {"job_id": 33, "account": "llm-pretrain", "wanted": (12, 3, 3), "nodes_wanted": 2},
    {"job_id": 34, "wanted": (9, 1, 1), "nodes_wanted": 2},
    {"job_id": 35, "account": "physics", "reason": "Dependency", "dependent": True},
    {"job_id": 36, "partition": "elsewhere"},
    {"job_id": 37, "state": 3},
    {
        "job_id": 40,
        "array_id": 40,
        "tasks_waiting": 6,
        "tasks_throttle": 4,
        "task_list": "1-6%4",
        "account": "llm-eval",
    },
    running(20, 4, account="llm-eval"),
    running(41, 1, account="llm-eval", array_id=40, array_task=0, tasks_throttle=4),
    {"job_id": 50, "het_id": 50, "account": "llm-eval"},
    {"job_id": 51, "het_id": 50, "account": "llm-eval"},
)


@pytest.fixture(scope="module")
def found() -> Cycle:
    return cycle(*ROWS, nodes=full(15))


def test_what_is_promised_and_wanted_beyond_the_capacity_is_told_in_proportion() -> None:
    text = """
version: 1
pools:
  gpu:
    partitions: [train]
    resource: gres/gpu
    quotas:
      vision: {match: {accounts: [vision]}, deserved: 6}
      llm: {match: {accounts: [llm-eval]}, deserved: 4}
"""
    config, nodes = parse_policy(text, "test"), nodes_of({"name": "gpu01"})
    wanting = [{"job_id": 10 + n, "account": ("vision", "llm-eval")[n % 2]} for n in range(20)]

    def short(*rows: dict[str, Any]) -> Any:
        return make_view(cycle(*rows, nodes=nodes, config=config), None, {}).about["pools"][0]["short"]

    assert short(*wanting) == [("vision", 6.0, pytest.approx(4.8)), ("llm", 4.0, pytest.approx(3.2))]
    assert short(*wanting[:6]) == [], "promised, but not wanted"


@pytest.fixture(scope="module")
def view(found: Cycle) -> View:
    return make_view(found, None, {"version": "1", "pid": 7})


def row(view: View, job_id: int) -> dict[str, Any]:
    (place,) = [i for i in range(len(view)) if view.jobs["job_id"][i] == job_id]
    return view.row(place)


def quota(view: View, path: str) -> dict[str, Any]:
    return next(row for row in view.quotas if row["quota"] == path)


def test_all_columns_and_keys_are_there_and_no_others(view: View) -> None:
    assert set(view.jobs) == set(JOB_COLUMNS)
    assert {len(column) for column in view.jobs.values()} == {len(view)}
    texts = {name for name, meaning in JOB_COLUMNS.items() if meaning.startswith("text")}
    assert set(view.texts) == texts
    for line in view.quotas:
        assert set(line) == set(QUOTA_KEYS)


def test_pending_and_running_jobs_of_managed_partitions_are_shown(view: View) -> None:
    assert sorted(view.jobs["job_id"].tolist()) == [20, 30, 31, 32, 33, 34, 35, 40, 41, 50, 51]


def test_the_order_is_what_goes_out_then_who_waits_then_who_runs(view: View) -> None:
    places = [place for place in view.jobs["place"].tolist() if place > 0]
    assert places == sorted(places)
    assert view.jobs["place"].tolist()[: len(places)] == places
    assert view.jobs["job_id"].tolist()[-2:] == [20, 41]


def test_the_components_of_a_heterogeneous_job_share_a_place() -> None:
    view = make_view(
        cycle({"job_id": 50, "het_id": 50}, {"job_id": 51, "het_id": 50}, {"job_id": 52}), None, {}
    )
    assert view.jobs["job_id"].tolist() == [50, 51, 52]
    assert view.jobs["place"].tolist() == [1, 1, 2]
    assert view.jobs["rank"].tolist()[0] == view.jobs["rank"].tolist()[1] > view.jobs["rank"].tolist()[2]


def test_a_job_is_told_with_what_was_decided_about_it(view: View, found: Cycle) -> None:
    large, small = row(view, 30), row(view, 31)
    assert (large["outcome"], large["position"], large["blocker"]) == (Outcome.CAPACITY, 1, NONE)
    assert large["first_attempt_s"] == NOW_S
    assert large["reserved"] == 1
    assert (small["outcome"], small["position"], small["blocker"]) == (Outcome.BEHIND, 2, 30)
    assert (small["place"], small["first_attempt_s"]) == (0, UNSET_S)
    assert large["rank"] == next(change.rank for change in found.changes if change.job_id == 30)
    assert (large["user"], large["name"], large["nice"]) == ("bob", "large", 3)
    assert (large["gpus"], large["cpus"], large["mem_mib"]) == (8, 16, 4096)
    assert (large["pool"], large["quota"], large["policy"]) == ("gpu", "vision", "balance")
    assert (large["order_s"], large["waiting_s"]) == (NOW_S - 60, NOW_S - 60)


def test_parked_jobs_stand_in_no_place(view: View) -> None:
    parked = row(view, 34)
    assert (parked["outcome"], parked["position"], parked["place"]) == (Outcome.PARKED, 0, 0)


def test_base_and_effective_priority_come_from_the_qos(view: View) -> None:
    assert (row(view, 32)["base"], row(view, 32)["effective"]) == (9, 9.0)
    assert (row(view, 31)["base"], row(view, 31)["effective"]) == (5, 5.0)


def test_a_job_of_no_quota_is_shown_without_one(view: View) -> None:
    stranger = row(view, 35)
    assert (stranger["quota"], stranger["policy"], stranger["pool"]) == ("", "", "gpu")
    assert (stranger["outcome"], stranger["dependent"]) == (NONE, 1)
    assert stranger["standing"] == Standing.INELIGIBLE


def test_arrays_and_heterogeneous_jobs_tell_what_they_are(view: View) -> None:
    array, task, second = row(view, 40), row(view, 41), row(view, 51)
    assert (array["task_list"], array["tasks"], array["array_task"]) == ("1-6%4", 3, NONE)
    assert (task["array_id"], task["array_task"], task["gpus"]) == (40, 0, 1)
    assert (second["het_id"], second["het_offset"]) == (50, 1)
    assert row(view, 31)["het_offset"] == NONE


def test_times_that_slurm_does_not_have_are_minus_one_and_no_limit_is_forever(view: View) -> None:
    assert row(view, 31)["start_s"] == NONE
    assert row(view, 20)["start_s"] == NOW_S - 60
    assert row(view, 31)["time_limit_s"] == FOREVER_S
    assert row(view, 32)["time_limit_s"] == 3600


def test_quotas_are_told_as_a_tree_with_sums(view: View) -> None:
    assert [(line["quota"], line["parent"], line["depth"], line["leaf"]) for line in view.quotas] == [
        ("vision", "", 0, True),
        ("llm", "", 0, False),
        ("llm.pretrain", "llm", 1, True),
        ("llm.eval", "llm", 1, True),
    ]
    assert quota(view, "vision")["pending"] == 3
    assert (quota(view, "llm.eval")["pending"], quota(view, "llm.pretrain")["pending"]) == (5, 1)
    assert quota(view, "llm")["pending"] == 6
    assert (quota(view, "llm")["allocated"], quota(view, "llm.eval")["allocated"]) == (5, 5)
    assert quota(view, "llm.eval")["over"] == 5
    assert quota(view, "llm.eval")["demand"] == 5 + 2 + 3 + 2
    assert quota(view, "vision")["head"] == 30
    assert quota(view, "vision")["limit"] == 8
    assert quota(view, "llm")["limit"] is None, "JSON knows no infinity"
    assert quota(view, "vision")["by_resource"]["gres/gpu"]["limit"] == 8


def test_what_was_written_counts_as_done(found: Cycle) -> None:
    held = cycle({"job_id": 1} | HELD, {"job_id": 2, "wanted": (8, 1, 1)}, nodes=full(15))
    changes = held.changes
    done = Applied(len(changes), len(changes), Counter({Result.OK: len(changes)}), 0, 0.1, changes)
    before, after = make_view(held, None, {}), make_view(held, done, {})
    assert row(before, 1)["standing"] == Standing.HELD
    for change in changes:
        expected = Standing.HELD if change.hold else Standing.OPEN
        assert row(after, change.job_id)["standing"] == expected
    assert (before.about["written"], after.about["written"]) == (0, len(changes))
    assert make_view(held, replace(done, put_off=2), {}).about["left_over"] == held.left_over + 2


def test_about_names_the_cycle_and_its_pools(view: View) -> None:
    about = view.about
    assert (about["version"], about["pid"], about["cluster"], about["now_s"]) == ("1", 7, "test", NOW_S)
    assert about["n_waiting"] == 7
    (pool,) = about["pools"]
    assert (pool["pool"], pool["capacity"], pool["free"], pool["place_grace_s"]) == ("gpu", 16, 1, 30)


def test_what_is_free_is_told_by_resource_and_by_node(view: View) -> None:
    (pool,) = view.about["pools"]
    assert pool["free_by_resource"]["gres/gpu"] == 1
    assert [(kind["size"], kind["free"]) for kind in pool["nodes"]] == [(8, [[0, 1], [1, 1]])]
    assert {row(view, job)["node_classes"] for job in (30, 31, 33)} == {1}
    assert row(view, 20)["node_classes"] == 0, "it runs"
    json.dumps(view.about)


def test_room_that_an_earlier_pass_kept_is_told_apart() -> None:
    large = {"job_id": 30, "wanted": (8, 16, 4096)}
    first = cycle(large, nodes=full(15))
    assert row(make_view(first, None, {}), 30)["reserved"] == 1
    second = cycle(large, nodes=full(15), memory=first.memory_after(()), now_s=NOW_S + 10)
    assert row(make_view(second, None, {}), 30)["reserved"] == PROMISED


def test_when_there_could_be_room_is_told_of_reservations(view: View) -> None:
    assert row(view, 30)["room_s"] >= NOW_S
    assert row(view, 31)["room_s"] == NONE


def test_what_slurm_did_not_start_is_told() -> None:
    found = cycle({"job_id": 30})
    memory = found.memory_after(())
    assert row(make_view(found, None, {}), 30)["unplaced"] == 0
    later = cycle({"job_id": 30}, memory=memory, now_s=NOW_S + 31)
    told = row(make_view(later, None, {}), 30)
    assert (told["outcome"], told["unplaced"]) == (Outcome.PLACEMENT, 1)


def test_a_view_of_another_release_is_refused(
    view: View, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "view.npz"
    monkeypatch.setattr("slurmfair.view.FORMAT", 1)
    save(view, path)
    monkeypatch.undo()
    with pytest.raises(DaemonUnreachable, match="another release"):
        load(path)


def test_the_view_survives_its_file(view: View, tmp_path: Path) -> None:
    path = tmp_path / "view.npz"
    save(view, path)
    back = load(path)
    assert [back.row(i) for i in range(len(back))] == [view.row(i) for i in range(len(view))]
    assert back.quotas == json.loads(json.dumps(view.quotas))
    assert path.stat().st_mode & 0o777 == 0o600
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(DaemonUnreachable):
        load(path)


def test_an_empty_cluster_has_a_view_too(tmp_path: Path) -> None:
    view = make_view(cycle(), None, {})
    save(view, tmp_path / "view.npz")
    assert len(load(tmp_path / "view.npz")) == 0
    assert [line["pending"] for line in view.quotas] == [0] * len(POLICY.pools[0].quotas)

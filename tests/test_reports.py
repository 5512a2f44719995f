from __future__ import annotations

import json
from typing import Any

import pytest

from slurmfair.errors import SlurmfairError
from slurmfair.reports import Caller, answer, visible
from slurmfair.view import JOB_COLUMNS, View
from tests.views import job, quota, running, view

ANN = Caller(2001, "ann")


@pytest.fixture
def private() -> View:
    return view(
        [
            job(3, user="ann", account="vision", blocker=4),
            job(4, user="mallory", account="secret", name="hidden-name", qos="hidden-qos", blocker=5),
            job(5, user="ann", account="vision", blocker=3),
            running(6, user="mallory", account="secret"),
        ],
        [quota("vision", head=4), quota("other", head=3)],
        private_jobs=True,
        operators=["oper"],
    )


def _asked(view: View, **request: Any) -> dict[str, Any]:
    told: dict[str, Any] = json.loads("".join(answer(view, request, 1.5, "")))
    return told


def test_own_jobs_are_seen_in_full_and_others_not_at_all(private: View) -> None:
    seen = visible(private, ANN)
    assert seen.jobs["job_id"].tolist() == [3, 5]
    assert seen.about["hidden"] == 2
    assert [seen.row(n)["user"] for n in range(2)] == ["ann", "ann"]
    assert seen.row(0)["account"] == "vision"
    text = "".join(answer(seen, {"report": "jobs"}, 0.0, ""))
    for word in ("mallory", "secret", "hidden"):
        assert f'"{word}"' not in text.replace('"hidden":2', "")


def test_ids_of_hidden_jobs_do_not_leak_through_others(private: View) -> None:
    seen = visible(private, ANN)
    assert seen.jobs["blocker"].tolist() == [-1, 3]
    assert [row["head"] for row in seen.quotas] == [-1, 3]


@pytest.mark.parametrize("caller", [Caller(0, "root"), Caller(4000, "oper")])
def test_operators_see_everything(private: View, caller: Caller) -> None:
    assert visible(private, caller) is private


def test_somebody_without_a_name_sees_nothing(private: View) -> None:
    assert len(visible(private, Caller(4711, ""))) == 0


def test_a_coordinator_sees_the_jobs_of_his_accounts_and_his_own(private: View) -> None:
    private.about["coordinated"] = {"ann": ["secret"], "bob": ["vision", "elsewhere"]}
    assert visible(private, ANN).jobs["job_id"].tolist() == [3, 4, 5, 6]
    assert visible(private, Caller(2002, "bob")).jobs["job_id"].tolist() == [3, 5]
    assert len(visible(private, Caller(2003, "cid"))) == 0


def test_nobody_is_told_who_has_which_rights(private: View) -> None:
    private.about["coordinated"] = {"bob": ["vision"]}
    for seen in (private, visible(private, ANN)):
        about = _asked(seen, report="status")["about"]
        assert about["cluster"] == "lab"
        assert not {"operators", "coordinated"} & set(about)


def test_a_coordinator_is_no_operator(private: View) -> None:
    private.about["coordinated"] = {"ann": ["secret"]}
    assert not ANN.is_operator(private)


def test_without_private_data_everybody_sees_everything(private: View) -> None:
    private.about["private_jobs"] = False
    assert visible(private, ANN) is private


def test_jobs_are_columns_and_texts(private: View) -> None:
    told = _asked(private, report="jobs")
    assert told["age_s"] == 1.5
    assert told["about"]["cluster"] == "lab"
    assert set(told["body"]["columns"]) == set(JOB_COLUMNS)
    codes, users = told["body"]["columns"]["user"], told["body"]["texts"]["user"]
    assert [users[code] for code in codes] == ["ann", "mallory", "ann", "mallory"]


def test_a_program_may_ask_for_some_columns(private: View) -> None:
    told = _asked(private, report="jobs", columns=["job_id", "user", "nonsense"])
    assert set(told["body"]["columns"]) == {"job_id", "user"}
    assert set(told["body"]["texts"]) == {"user"}


def test_quotas_and_status(private: View) -> None:
    assert [row["quota"] for row in _asked(private, report="quotas")["body"]] == ["vision", "other"]
    assert _asked(private, report="status")["body"] == {}


@pytest.mark.parametrize("report", ["nonsense", None, 5, ["jobs"], {"a": 1}])
def test_an_unknown_report_is_refused(private: View, report: object) -> None:
    with pytest.raises(SlurmfairError, match="known are jobs, quotas, status"):
        _asked(private, report=report)

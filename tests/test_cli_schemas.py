from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

import jsonschema
import pytest
import yaml

from slurmfair.reports import Caller
from slurmfair.standing import Standing
from slurmfair.view import View
from tests.asking import BOB, ROOT, ask
from tests.situations import SITUATIONS
from tests.views import NOW_S, job, quota, running, view


def schema(name: str) -> dict[str, Any]:
    """Return a schema, itself checked."""
    found: dict[str, Any] = json.loads(files("slurmfair").joinpath("schemas", f"{name}.json").read_text())
    jsonschema.Draft202012Validator.check_schema(found)
    return found


@pytest.fixture
def told() -> View:
    jobs = [job(n + 1, standing=standing, outcome=n % 8 - 1) for n, standing in enumerate(Standing)]
    jobs += [
        job(50, quota="", policy="", array_id=50, task_list="0-3"),
        running(51, user="bob", time_limit_s=1 << 40),
    ]
    quotas = [quota("vision", limit=9.0), quota("llm", usage=None, ratio=None, fair_share=0.5)]
    return view(jobs, quotas, warnings=["one"], overrides=[["h100", "fairshare.k", "2", "root", NOW_S]])


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("sfprio", ("sfprio",)),
        ("sfprio", ("sfprio", "-j1,12,51")),
        ("sfshare", ("sfshare", "-a")),
        ("sfshare", ("sfshare", "-U")),
    ],
)
def test_json_and_yaml_are_as_the_schema_says(told: View, name: str, words: tuple[str, ...]) -> None:
    for caller in (ROOT, BOB):
        told.about["private_jobs"] = caller is BOB
        jsonschema.validate(
            json.loads(ask(told, *words, "--json", caller=caller, away="old")[1]), schema(name)
        )
        jsonschema.validate(yaml.safe_load(ask(told, *words, "--yaml", caller=caller)[1]), schema(name))


def test_status_is_as_the_schema_says(told: View) -> None:
    jsonschema.validate(json.loads(ask(told, "status", "--json")[1]), schema("status"))


@pytest.mark.parametrize("name", SITUATIONS)
def test_explanations_are_as_the_schema_says(name: str) -> None:
    situation = SITUATIONS[name]()
    caller = Caller(situation.uid, situation.user)
    _, out, _ = ask(situation.view, "explain", situation.asked, "--json", caller=caller)
    told = json.loads(out)
    jsonschema.validate(told, schema("explain"))
    _, text, _ = ask(situation.view, "explain", situation.asked, caller=caller)
    for one in told["explanations"]:
        assert one["headline"] in text
        assert all(sentence["text"] in text for sentence in one["sentences"])

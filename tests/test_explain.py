from __future__ import annotations

import json

import pytest

from slurmfair.reports import Caller
from tests import golden
from tests.asking import ask
from tests.situations import SITUATIONS
from tests.views import NOW_S


def test_the_same_numbers_are_in_json() -> None:
    told = json.loads(ask(SITUATIONS["gang_on_four_nodes"]().view, "explain", "7", "--json")[1])
    (one,) = told["explanations"]
    assert one["nodes"] == {"nodes": 4, "each": 8, "found": 2, "usable": 4}
    assert one["job"]["room_time"]["number"] == NOW_S + 3600
    told = json.loads(ask(SITUATIONS["held_back_for_a_promise"]().view, "explain", "7", "--json")[1])
    (one,) = told["explanations"]
    assert (one["code"], one["waits_for"]["number"], one["nodes"]) == ("HELD_BACK", 3, None)


def test_no_count_of_nodes_is_told_where_it_would_not_be_whole() -> None:
    for name in ("het_job", "too_little_free"):
        told = json.loads(ask(SITUATIONS[name]().view, "explain", "7", "--json")[1])
        assert told["explanations"][0]["nodes"] is None


@pytest.mark.parametrize("name", SITUATIONS)
def test_explain_says_the_right_thing(name: str) -> None:
    situation = SITUATIONS[name]()
    caller = Caller(situation.uid, situation.user)
    code, out, err = ask(situation.view, "explain", situation.asked, caller=caller)
    assert err == ""
    assert code == (1 if "neither waits nor runs" in out else 0)
    golden.check(f"explain/{name}.txt", out)

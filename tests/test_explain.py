from __future__ import annotations

import pytest

from slurmfair.reports import Caller
from tests import golden
from tests.asking import ask
from tests.situations import SITUATIONS


@pytest.mark.parametrize("name", SITUATIONS)
def test_explain_says_the_right_thing(name: str) -> None:
    situation = SITUATIONS[name]()
    caller = Caller(situation.uid, situation.user)
    code, out, err = ask(situation.view, "explain", situation.asked, caller=caller)
    assert err == ""
    assert code == (1 if "neither waits nor runs" in out else 0)
    golden.check(f"explain/{name}.txt", out)

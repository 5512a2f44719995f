from __future__ import annotations

from pathlib import Path

import pytest

from slurmfair.cli import commands
from slurmfair.cli.terms import Asked
from slurmfair.paths import Paths
from slurmfair.reports import Caller
from slurmfair.state import State
from slurmfair.view import View
from tests.asking import ANN, ROOT
from tests.views import view

POLICY = """
version: 1
pools:
  h100:
    partitions: [train]
    quotas:
      vision: {match: {accounts: [vision]}, deserved: 8, limit: 16}
      llm: {match: {accounts: [llm]}, deserved: 8}
"""


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    (tmp_path / "policy.yaml").write_text(POLICY)
    return Paths(tmp_path, tmp_path)


@pytest.fixture
def told(paths: Paths) -> View:
    return view(policy_file=str(paths.state_dir / "policy.yaml"), operators=["oper"])


def ask(told: View, paths: Paths, *words: str, caller: Caller = ROOT, away: str = "") -> tuple[int, str, str]:
    reply = commands.answer(words[0], Asked(words[1:], told, caller, paths, away=away))
    return reply.code, "".join(reply.out), reply.err


def overrides(paths: Paths) -> list[tuple[str, str, str, str]]:
    state = State(paths.database)
    found = [(one.pool, one.key, one.value, one.who) for one in state.overrides()]
    state.close()
    return found


def test_a_setting_is_kept_with_who_set_it(told: View, paths: Paths) -> None:
    code, out, err = ask(told, paths, "set", "h100", "fairshare.k=2", "vision.weight=3")
    assert (code, err) == (0, "")
    assert (
        out
        == "h100 fairshare.k=2 is set\nh100 quotas.vision.weight=3 is set\nthe daemon takes it up in its next cycle\n"
    )
    assert overrides(paths) == [
        ("h100", "fairshare.k", "2", "root"),
        ("h100", "quotas.vision.weight", "3", "root"),
    ]


def test_every_way_to_write_a_key_is_the_same_setting(told: View, paths: Paths) -> None:
    for text in ("k=1", "fairshare.k=2", "historicalUsageWeight=3"):
        assert ask(told, paths, "set", "h100", text)[0] == 0
    assert overrides(paths) == [("h100", "fairshare.k", "3", "root")]
    code, out, _ = ask(told, paths, "unset", "h100", "historicalUsageWeight")
    assert (code, out.splitlines()[0]) == (0, "h100 fairshare.k is as the policy file says")
    assert overrides(paths) == []


def test_operators_may(told: View, paths: Paths) -> None:
    assert ask(told, paths, "set", "h100", "k=2", caller=Caller(4000, "oper"))[0] == 0
    assert overrides(paths)[0][3] == "oper"


@pytest.mark.parametrize("command", [("set", "h100", "k=2"), ("unset", "h100", "k")])
def test_others_may_not(told: View, paths: Paths, command: tuple[str, ...]) -> None:
    code, out, err = ask(told, paths, *command, caller=ANN)
    assert (code, out) == (1, "")
    assert "user ann may not change settings" in err
    assert not paths.database.exists()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("mars", "k=2"), "unknown pool"),
        (("h100", "kk=2"), "unknown setting"),
        (("h100", "k"), "'k' is no setting; write KEY=VALUE"),
        (("h100", "k=many"), "set h100 fairshare.k=many"),
        (("h100", "vision.limit=4"), "below deserved"),
        (("h100", "k=2", "vison.weight=2"), "did you mean vision"),
        (("h100",), "the following arguments are required"),
    ],
)
def test_a_wrong_setting_changes_nothing(told: View, paths: Paths, words: tuple[str, ...], says: str) -> None:
    code, out, err = ask(told, paths, "set", *words)
    assert (code, out) == (1, "")
    assert says in err
    assert not paths.database.exists() or overrides(paths) == []


def test_settings_that_contradict_each_other_are_refused(told: View, paths: Paths) -> None:
    assert ask(told, paths, "set", "h100", "vision.limit=12")[0] == 0
    code, _, err = ask(told, paths, "set", "h100", "vision.deserved=14")
    assert code == 1
    assert "below deserved" in err
    assert overrides(paths) == [("h100", "quotas.vision.limit", "12", "root")]


def test_what_is_not_set_cannot_be_unset(told: View, paths: Paths) -> None:
    ask(told, paths, "set", "h100", "vision.weight=3")
    code, _, err = ask(told, paths, "unset", "h100", "k")
    assert code == 1
    assert "h100 fairshare.k is not set; set at the moment: h100 quotas.vision.weight" in err


def test_what_the_policy_does_not_know_any_more_can_be_unset(told: View, paths: Paths) -> None:
    ask(told, paths, "set", "h100", "vision.weight=3")
    (paths.state_dir / "policy.yaml").write_text(POLICY.replace("vision", "image"))
    assert ask(told, paths, "unset", "h100", "quotas.vision.weight")[0] == 0
    assert overrides(paths) == []


def test_a_daemon_that_is_away_takes_it_up_later(told: View, paths: Paths) -> None:
    code, out, _ = ask(told, paths, "set", "h100", "k=2", away="slurmfaird is not running")
    assert code == 1
    assert out.endswith("slurmfaird is not running\n")
    assert len(overrides(paths)) == 1

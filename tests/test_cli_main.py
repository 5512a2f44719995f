from __future__ import annotations

import json

import pytest

from slurmfair.cli import main as entry
from slurmfair.cli.commands import MODULES, module_of
from slurmfair.errors import SlurmfairError
from tests import golden
from tests.asking import ask
from tests.views import NOW_S, job, pool, quota, view


def run(monkeypatch: pytest.MonkeyPatch, *argv: str) -> int:
    monkeypatch.setattr("sys.argv", ["slurmfair", *argv])
    return entry.main()


def test_help_lists_every_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "--help") == 0
    out = capsys.readouterr().out
    for name in (*entry.ASKED, *entry.OWN):
        assert f"\n  {name} " in out


def test_no_command_is_a_question(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch) == 2
    assert "usage: slurmfair" in capsys.readouterr().out


def test_a_wrong_command_gets_a_hint(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "explian") == 2
    assert capsys.readouterr().err == "slurmfair: error: 'explian' is no command; did you mean explain?\n"


def test_an_error_of_ours_is_a_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(argv: list[str]) -> int:
        raise SlurmfairError("no such thing; do that")

    monkeypatch.setattr("slurmfair.cli.operate.plan_main", fails)
    assert run(monkeypatch, "plan") == 1
    assert capsys.readouterr().err == "slurmfair plan: error: no such thing; do that\n"


def test_every_asked_command_has_its_module() -> None:
    assert set(entry.ASKED) < set(MODULES)
    for name in MODULES:
        assert callable(module_of(name).reply)
        assert callable(module_of(name).parse)


def test_status_of_a_healthy_daemon() -> None:
    told = view(
        [job(1)],
        [quota("vision", pending=3)],
        n_waiting=1,
        changes=5,
        written=4,
        left_over=1,
        pools=[pool(free=4)],
    )
    code, out, err = ask(told, "status", age_s=3.0)
    assert (code, err) == (0, "")
    golden.check("status/healthy.txt", out)


def test_status_of_a_daemon_in_trouble() -> None:
    told = view(
        (),
        [quota("vision")],
        refused_policy="policy.yaml:12: pools.h100.quotas.vision.wieght: unknown key\npolicy.yaml:14: another",
        refused_overrides=["set h100 k=many: not a number"],
        degraded=["slurmdbd does not answer"],
        shadow=True,
        overrides=[["h100", "fairshare.k", "2", "root", NOW_S - 3600]],
        warnings=["quotas deserve more than the pool has"],
        pools=[pool(capacity=24, free=4, short=[("vision", 18.0, 13.5), ("llm", 14.0, 10.5)])],
    )
    code, out, _ = ask(
        told, "status", age_s=300.0, away="slurmfaird is not running, these data are 5 min old"
    )
    assert code == 1
    golden.check("status/trouble.txt", out)


def test_status_as_json() -> None:
    told = view((), [quota("vision")], overrides=[["h100", "fairshare.k", "2", "root", NOW_S - 3600]])
    found = json.loads(ask(told, "status", "--json")[1])["status"]
    assert found["healthy"] is True
    assert found["overrides"] == [
        {"pool": "h100", "key": "fairshare.k", "value": "2", "user": "root", "time": NOW_S - 3600}
    ]
    assert found["pools"][0]["free"] == 0

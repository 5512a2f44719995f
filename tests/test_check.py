"""`slurmfair check`: exit status and what is printed where."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurmfair.cli.check import check
from slurmfair.config_file import parse_policy
from slurmfair.overrides import Told
from tests.test_config_file import ALL_AT_ONCE, DESIGN


def write(folder: Path, text: str) -> str:
    """Return the name of a policy file with this text."""
    path = folder / "policy.yaml"
    path.write_text(text)
    return str(path)


def test_a_good_policy_is_summed_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path, DESIGN)
    assert check(path) == 0
    assert capsys.readouterr() == (
        f"{path}: good, no warnings\n  pool h100: 2 partitions, 3 leaf quotas, time-based fair share on\n",
        "",
    )


def test_all_mistakes_go_to_standard_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path, ALL_AT_ONCE)
    assert check(path) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"{path}:1: version: unknown value '2'")
    assert err.endswith(f"{path}: 17 mistakes\n")


def test_warnings_are_told_and_do_not_fail(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(write(tmp_path, DESIGN.replace("half_life: 0, ", ""))) == 0
    out, err = capsys.readouterr()
    assert "good, 1 warning\n" in out
    assert err.startswith("warning: ")
    assert "a window without decay" in err


def test_the_effective_policy_shows_overrides_and_can_be_used_as_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert check(write(tmp_path, DESIGN), effective=True, overrides=[Told("h100", "k", "2")]) == 0
    out, _ = capsys.readouterr()
    assert "# set h100 k=2\n" in out
    assert parse_policy(out, "again.yaml").pools[0].fairshare.k == 2


def test_a_wrong_override_fails_the_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(write(tmp_path, DESIGN), overrides=[Told("h100", "k", "x")]) == 1
    assert capsys.readouterr().err.startswith("set h100 k=x: pools.h100.fairshare.k: 'x' is not a number")

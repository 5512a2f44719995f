"""Cancelling goes through Slurm's own command."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurmfair.slurm import live
from slurmfair.slurm.cluster import Result


def stand_in(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Put a script in the place of scancel."""
    path = folder / "scancel"
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/bin:/usr/bin")


def test_only_what_waits_is_cancelled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(tmp_path, monkeypatch, f'echo "$@" > {tmp_path}/asked; echo "a task runs" >&2')
    answer = live.cancel_waiting(7)
    assert answer.ok and answer.message == ""
    assert (tmp_path / "asked").read_text().split() == ["--ctld", "--quiet", "--state=PENDING", "7"]


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo no way >&2; exit 1", "no way"),
        ("printf 'n\\377o' >&2; exit 1", "n\ufffdo"),
        ("exit 3", "status 3"),
        ("exec sleep 5", "timed out"),
    ],
)
def test_a_failure_is_told_and_the_job_left_for_the_next_cycle(
    script: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "CANCEL_S", 0.3)
    stand_in(tmp_path, monkeypatch, script)
    answer = live.cancel_waiting(7)
    assert answer.result is Result.SKIP and said in answer.message


def test_a_host_without_the_command_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    answer = live.cancel_waiting(7)
    assert answer.result is Result.SKIP and "scancel" in answer.message

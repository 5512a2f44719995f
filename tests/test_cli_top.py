from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmfair.cli.top import COLUMNS, Told, bar, main, screen
from slurmfair.errors import SlurmfairError
from slurmfair.model import Outcome
from slurmfair.standing import Standing
from slurmfair.state import State
from tests import golden
from tests.test_reporter import fresh, serving
from tests.views import NOW_S, job, pool, quota, view

AMOUNTS = st.floats(0, 100)


def told(n_quotas: int = 3, away: str = "") -> Told:
    found = view(
        [
            job(7, array_id=7, task_list="2-900%2", gpus=4),
            job(
                8,
                standing=Standing.HELD,
                outcome=Outcome.BEHIND,
                blocker=7,
                position=2,
                base=3,
                effective=5.0,
            ),
            job(9, user="some-very-long-name", quota="llm.pretrain", outcome=Outcome.HELD_BACK, blocker=7),
        ],
        n_waiting=12,
        pools=[pool(free=4)],
    )
    rows = [{name: found.row(n)[name] for name in COLUMNS} for n in range(len(found))]
    quotas = [
        quota("vision", deserved=16.0, allocated=20.0, fair_share=24.0, limit=28.0, pending=9),
        quota("llm", leaf=False, deserved=8.0, allocated=4.0, fair_share=6.0),
        quota("llm.pretrain", deserved=8.0, allocated=4.0, fair_share=6.0, policy="intelligent", pending=3),
    ]
    quotas += [quota(f"team{n}") for n in range(n_quotas - 3)]
    decisions = [[NOW_S, 8, "hold", "behind 7"], [NOW_S - 10, 0, "set h100 fairshare.k=2", "by root"]]
    return Told(3.0, away, found.about, quotas, rows, decisions)


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")


def test_a_screen_of_80_by_24(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [line.plain for line in screen(told(), 80, 24)]
    golden.check("top/80x24.txt", "\n".join(lines) + "\n")


def test_a_dead_daemon_is_in_the_second_line() -> None:
    assert screen(told(away="slurmfaird is not running"), 80, 24)[1].plain == "slurmfaird is not running"


@given(st.integers(20, 200), st.integers(3, 60), st.integers(3, 80))
def test_a_screen_is_never_larger_than_its_terminal(width: int, height: int, n_quotas: int) -> None:
    lines = screen(told(n_quotas), width, height)
    assert len(lines) <= height
    assert all(len(line.plain) <= width for line in lines)


def test_many_quotas_leave_room_for_the_queues() -> None:
    lines = [line.plain for line in screen(told(60), 80, 24)]
    assert any("more" in line for line in lines)
    assert any(line.startswith("QUOTA") and "JOBID" in line for line in lines)


@given(AMOUNTS, AMOUNTS, AMOUNTS, st.floats(0, 100), st.integers(1, 60))
def test_a_bar_is_as_wide_as_its_place(
    held: float, deserved: float, share: float, capacity: float, width: int
) -> None:
    drawn = bar(quota("q", allocated=held, deserved=deserved, fair_share=share), capacity, width)
    assert len(drawn) == width
    assert drawn == drawn.rstrip() + " " * (width - len(drawn.rstrip()))


def test_a_bar_shows_what_is_held_deserved_and_due() -> None:
    assert bar(quota("q", allocated=6.0, deserved=4.0, fair_share=8.0), 10.0, 10) == "####++..  "
    assert bar(quota("q", allocated=2.0, deserved=4.0, fair_share=4.0), 10.0, 10) == "##--      "


def test_without_a_terminal_it_prints_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    state = State(tmp_path / "state.db")
    state.log_decisions(NOW_S, [(3, "hold", "behind 4")])
    state.close()
    monkeypatch.setenv("RUNTIME_DIRECTORY", str(tmp_path))
    with serving(tmp_path, fresh(view([job(3)], [quota("vision")]))):
        assert main([]) == 0
    out = capsys.readouterr().out
    assert "slurmfair on lab" in out
    assert "behind 4" in out
    assert "\x1b" not in out


def test_a_delay_of_nothing_is_refused() -> None:
    with pytest.raises(SlurmfairError, match="at least"):
        main(["-d", "0"])


def test_q_ends_it_and_leaves_the_terminal_as_it_was(tmp_path: Path) -> None:
    with serving(tmp_path, fresh(view([job(3)], [quota("vision")]))):
        master, slave = pty.openpty()
        environment = os.environ | {
            "RUNTIME_DIRECTORY": str(tmp_path),
            "TERM": "xterm",
            "COLUMNS": "80",
            "LINES": "24",
        }
        command = [sys.executable, "-m", "slurmfair.cli.main", "top", "-d", "30"]
        process = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, env=environment)
        os.close(slave)
        try:
            seen = read_until(master, b"LAST DECISIONS")
            assert b"\x1b[?1049h" in seen
            os.write(master, b"q")
            seen = read_until(master, b"\x1b[?1049l")
            assert process.wait(timeout=20) == 0
            assert b"Traceback" not in seen
        finally:
            process.kill()
            process.wait()
            os.close(master)


def read_until(master: int, wanted: bytes) -> bytes:
    """Return what was printed up to and with some bytes."""
    seen, until_s = b"", time.monotonic() + 30
    while wanted not in seen and time.monotonic() < until_s:
        if select.select([master], [], [], 1)[0]:
            seen += os.read(master, 65536)
    assert wanted in seen, seen
    return seen

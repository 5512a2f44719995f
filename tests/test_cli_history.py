from __future__ import annotations

import io
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmfair.cli.history import ASCII_BLOCKS, BLOCKS, lines, main, plot, series_of, sparkline, write_csv
from slurmfair.errors import SlurmfairError
from slurmfair.record import EVERY_S, Record
from tests import golden
from tests.test_reporter import fresh, serving
from tests.views import NOW_S, quota, view

HOUR_S = 3600


def rows(n: int = 24) -> list[list[object]]:
    """A quota that grows to 16 GPUs, and one that holds nothing."""
    out: list[list[object]] = []
    for k in range(n):
        at_s = NOW_S - (n - k) * HOUR_S
        out.append([at_s, "h100", "vision", min(16.0, float(k)), 8.0, 12.0, k / n, 16.0, 0.5])
        out.append([at_s, "h100", "llm.eval", 0.0, 0.0, 0.0, None, 0.0, None])
    return out


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("RUNTIME_DIRECTORY", str(tmp_path))
    record = Record(tmp_path / "shares.db")
    now_s = int(time.time())
    for k in range(12):
        record.note(
            view((), [quota("vision", allocated=float(k)), quota("llm")], now_s=now_s - (12 - k) * EVERY_S)
        )
    with serving(tmp_path, fresh(view((), [quota("vision"), quota("llm")]))):
        yield tmp_path


def test_lines_of_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    for name, blocks in (("unicode", BLOCKS), ("ascii", ASCII_BLOCKS)):
        text = "\n".join(lines(series_of(rows()), NOW_S - 30 * HOUR_S, NOW_S, blocks))
        golden.check(f"history/{name}.txt", text + "\n")


def test_csv() -> None:
    out = io.StringIO()
    write_csv(series_of(rows(2)), out)
    golden.check("history/samples.csv", out.getvalue())


@given(st.lists(st.tuples(st.integers(-100, 1100), st.none() | st.floats(0, 50))), st.integers(1, 80))
def test_a_line_is_as_wide_as_its_place(values: list[tuple[int, float | None]], width: int) -> None:
    assert len(sparkline(values, 0, 1000, width, 40.0)) == width


def test_a_column_is_the_mean_of_its_samples() -> None:
    assert sparkline([(0, 0.0), (1, 8.0), (5, 8.0)], 0, 10, 2, 8.0) == "▄█"


def test_one_quota_over_the_socket(recorded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["vision", "--since", "2h"]) == 0
    out = capsys.readouterr().out
    assert "h100 vision" in out
    assert "now 11 of 11" in out
    assert "llm" not in out
    assert main(["--all", "--csv"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 25


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        ([], "name one quota, or say --all"),
        (["vision", "--all"], "name one quota, or say --all"),
        (["vison"], "no quota 'vison'; did you mean vision"),
        (["vision", "--pool", "mars"], "nothing is recorded of pool mars"),
        (["vision", "--since", "soon"], "--since: 'soon' is not a length of time"),
    ],
)
def test_a_mistake_is_named_with_a_way_out(recorded: Path, argv: list[str], says: str) -> None:
    with pytest.raises(SlurmfairError, match=says):
        main(argv)


@pytest.mark.parametrize("name", ["out.svg", "out.png"])
def test_a_picture(tmp_path: Path, name: str) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib (extra plot) draws the pictures")
    plot(series_of(rows()), tmp_path / name)
    assert (tmp_path / name).stat().st_size > 1000


def test_a_picture_of_an_unknown_kind_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib (extra plot) draws the pictures")
    with pytest.raises(SlurmfairError, match="cannot be drawn"):
        plot(series_of(rows()), tmp_path / "out.docx")

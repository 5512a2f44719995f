from __future__ import annotations

import os
from pathlib import Path

import pytest

from slurmfair.errors import StateError
from slurmfair.record import EVERY_S, KEPT_S, Record, samples
from tests.views import NOW_S, quota, view


def noted(record: Record, moment_s: int, allocated: float = 1.0) -> bool:
    return record.note(
        view((), [quota("vision", allocated=allocated, usage=None), quota("llm")], now_s=moment_s)
    )


def test_a_sample_is_written_every_five_minutes(tmp_path: Path) -> None:
    record = Record(tmp_path / "shares.db")
    assert [noted(record, NOW_S + second) for second in (0, 10, EVERY_S - 1, EVERY_S)] == [
        True,
        False,
        False,
        True,
    ]
    rows = samples(record.path, "", "", 0, 1 << 40)
    assert [row[:4] for row in rows if row[2] == "vision"] == [
        [NOW_S, "h100", "vision", 1.0], [NOW_S + EVERY_S, "h100", "vision", 1.0],
    ]  # fmt: skip
    assert rows[1][6] is None


def test_a_restart_and_a_clock_that_steps_back_cost_nothing(tmp_path: Path) -> None:
    path = tmp_path / "shares.db"
    assert noted(Record(path), NOW_S, 1.0)
    assert noted(Record(path), NOW_S, 2.0)
    late = Record(path, NOW_S)
    assert noted(late, NOW_S - 3600, 3.0)
    assert [row[3] for row in samples(path, "h100", "vision", 0, 1 << 40)] == [3.0, 2.0]


def test_old_samples_are_dropped(tmp_path: Path) -> None:
    record = Record(tmp_path / "shares.db")
    noted(record, NOW_S - KEPT_S - EVERY_S)
    noted(record, NOW_S)
    assert {row[0] for row in samples(record.path, "", "", 0, 1 << 40)} == {NOW_S}


def test_pool_quota_and_time_choose(tmp_path: Path) -> None:
    record = Record(tmp_path / "shares.db")
    for n in range(3):
        noted(record, NOW_S + n * EVERY_S)
    assert len(samples(record.path, "h100", "llm", NOW_S + 1, NOW_S + EVERY_S)) == 1
    assert samples(record.path, "mars", "", 0, 1 << 40) == []
    assert samples(record.path, "", "mars", 0, 1 << 40) == []


def test_a_disk_that_takes_nothing_stops_nothing(tmp_path: Path) -> None:
    record = Record(tmp_path / "absent" / "shares.db")
    assert noted(record, NOW_S)


def test_no_file_is_no_samples_and_a_broken_one_is_told(tmp_path: Path) -> None:
    path = tmp_path / "shares.db"
    assert samples(path, "", "", 0, 1) == []
    path.write_bytes(b"nonsense" * 1000)
    with pytest.raises(StateError, match="cannot be read"):
        samples(path, "", "", 0, 1)


def test_the_file_is_the_daemons_own(tmp_path: Path) -> None:
    record = Record(tmp_path / "shares.db")
    old = os.umask(0o027)
    try:
        noted(record, NOW_S)
    finally:
        os.umask(old)
    assert record.path.stat().st_mode & 0o007 == 0

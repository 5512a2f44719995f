"""Windows of the past (SEMANTICS 7.2)."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurmfair.config import Window
from slurmfair.windows import window_start

DAY_S = 86400


def at(text: str, zone: str = "UTC") -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp())


def starts(window: Window, text: str) -> str:
    return datetime.fromtimestamp(window_start(window, at(text)), UTC).strftime("%m-%d %H:%M:%S")


def test_t24_a_tumbling_window_is_empty_at_its_boundary_and_before_its_anchor() -> None:
    window = Window("tumbling", 7 * DAY_S, at("2026-01-05"))
    assert starts(window, "2026-01-11 23:59:59") == "01-05 00:00:00"
    assert starts(window, "2026-01-12 00:00:00") == "01-12 00:00:00"
    assert starts(window, "2026-01-01 00:00:00") == "01-01 00:00:00"


def test_without_an_anchor_weeks_begin_on_monday() -> None:
    assert starts(Window("tumbling"), "2026-01-08 12:00:00") == "01-05 00:00:00"


def test_a_sliding_window_ends_now() -> None:
    assert starts(Window("sliding", 3600), "2026-01-08 12:00:00") == "01-08 11:00:00"


@pytest.mark.parametrize(
    ("cron", "now", "expected"),
    [
        ("0 0 * * *", "2026-01-08 12:00:00", "01-08 00:00:00"),
        ("0 0 * * *", "2026-01-08 00:00:00", "01-08 00:00:00"),
        ("0 0 * * *", "2026-01-07 23:59:59", "01-07 00:00:00"),
        ("0 */6 * * *", "2026-01-08 17:59:00", "01-08 12:00:00"),
        ("*/15 * * * *", "2026-01-08 17:59:59", "01-08 17:45:00"),
        ("0 0 * * 1", "2026-01-08 12:00:00", "01-05 00:00:00"),
        ("0 0 1 * *", "2026-02-17 12:00:00", "02-01 00:00:00"),
    ],
)
def test_a_cron_window_begins_at_the_last_firing(cron: str, now: str, expected: str) -> None:
    assert starts(Window("cron", cron=cron), now) == expected


def test_a_cron_window_follows_its_time_zone() -> None:
    window = Window("cron", cron="0 3 * * *", timezone="Europe/Berlin")
    assert window_start(window, at("2026-07-01 10:00")) == at("2026-07-01 03:00", "Europe/Berlin")
    assert window_start(window, at("2026-12-01 10:00")) == at("2026-12-01 03:00", "Europe/Berlin")


def test_the_hour_that_comes_twice_fires_once() -> None:
    window = Window("cron", cron="30 2 * * *", timezone="Europe/Berlin")
    first_s = at("2026-10-25 00:30")  # 02:30 in summer time; it is 02:30 again an hour later
    for now_s in (first_s, first_s + 1800, first_s + 3600, first_s + 7200):
        assert window_start(window, now_s) == first_s
    assert window_start(window, first_s - 1) == at("2026-10-24 00:30")


@settings(deadline=None)
@given(
    st.integers(at("2025-01-01"), at("2027-01-01")),
    st.sampled_from(["0 0 * * *", "*/20 * * * *", "17 4 * * 0", "0 12 1,15 * *"]),
    st.sampled_from(["UTC", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe"]),
)
def test_a_cron_window_never_begins_later_as_time_goes_back(now_s: int, cron: str, zone: str) -> None:
    window = Window("cron", cron=cron, timezone=zone)
    start_s = window_start(window, now_s)
    assert start_s <= now_s
    assert window_start(window, start_s) == start_s
    assert window_start(window, now_s - 1) <= start_s
    assert window_start(window, (start_s + now_s) // 2) == start_s


@settings(deadline=None)
@given(st.integers(0, 2 * 10**9), st.integers(1, 10**6))
def test_a_tumbling_window_begins_less_than_its_size_ago(now_s: int, size_s: int) -> None:
    window = Window("tumbling", size_s, 12345)
    start_s = window_start(window, now_s)
    assert 0 <= now_s - start_s < size_s
    assert now_s < 12345 or (start_s - 12345) % size_s == 0

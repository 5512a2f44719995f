"""Lengths of time: Slurm's forms, suffix forms, and the words that mean none (CASES 38)."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmfair.durations import LONGEST_S, accounting_seconds, policy_seconds, policy_time, slurm_time
from slurmfair.errors import BadRecord

SLURM_FORMS = {
    "10": 600,
    "0": 0,
    "4:00": 240,
    "90:30": 5430,
    "1:00:00": 3600,
    "0:90:00": 5400,
    "2-12": 60 * 3600,
    "2-12:30": 60 * 3600 + 1800,
    "3-0:00": 72 * 3600,
    "7-00:00:00": 7 * 86400,
    "1-02:03:04": 93784,
}
SUFFIX_FORMS = {
    "90s": 90,
    "5m": 300,
    "90m": 5400,
    "1h30m": 5400,
    "1.5h": 5400,
    "7d": 7 * 86400,
    "1w": 7 * 86400,
    "2w3d": 17 * 86400,
    "0.5s": 0.5,
    "0s": 0,
}
NOT_TIMES = ["-5m", "1 week", "5M", "30m1h", "1h1h", "h", "1:2:3:4", "1-2:3:4:5", "3-", "-", "5 m", "١٠", "1e3", "1.5", "9" * 9999]  # fmt: skip
WORDS_FOR_NONE = ["UNLIMITED", "INFINITE", "Partition_Limit", "None", "", "-1"]


@pytest.mark.parametrize(("text", "seconds"), (SLURM_FORMS | SUFFIX_FORMS).items())
def test_both_readers_share_one_grammar(text: str, seconds: float) -> None:
    assert policy_seconds(text) == seconds
    assert accounting_seconds(text) == seconds


@pytest.mark.parametrize("text", WORDS_FOR_NONE)
def test_words_for_none_are_no_bound_in_accounting_and_mistakes_in_the_policy(text: str) -> None:
    assert accounting_seconds(text) is None
    with pytest.raises(ValueError, match=r"no length of time|negative"):
        policy_seconds(text)


@pytest.mark.parametrize("text", NOT_TIMES)
def test_what_is_no_time_is_refused_by_both_readers(text: str) -> None:
    with pytest.raises(ValueError, match=r"not a length of time|negative"):
        policy_seconds(text)
    with pytest.raises(BadRecord):
        accounting_seconds(text)


def test_a_slip_of_the_pen_is_too_long() -> None:
    with pytest.raises(ValueError, match="3,000 years"):
        policy_seconds("999999999d")


def test_times_are_printed_as_squeue_prints_them() -> None:
    printed = [slurm_time(s) for s in (0, 59, 240, 86399, 86400, 93784.9, math.inf)]
    assert printed == [
        "00:00:00",
        "00:00:59",
        "00:04:00",
        "23:59:59",
        "1-00:00:00",
        "1-02:03:04",
        "UNLIMITED",
    ]


@given(st.integers(0, int(LONGEST_S)))
def test_printed_whole_seconds_read_back(seconds: int) -> None:
    assert policy_seconds(policy_time(seconds)) == seconds
    assert accounting_seconds(slurm_time(seconds)) == seconds


@given(st.integers(1, 10**9))
def test_printed_fractions_read_back(milliseconds: int) -> None:
    assert policy_seconds(policy_time(milliseconds / 1000)) == pytest.approx(milliseconds / 1000, abs=1e-9)


@given(st.text(max_size=30))
def test_any_text_is_a_time_or_a_plain_error(text: str) -> None:
    try:
        assert 0 <= policy_seconds(text) <= LONGEST_S
    except ValueError as error:
        assert str(error)

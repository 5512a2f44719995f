from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmfair.cli.job_ids import job_id, job_ids, overlap, rows_of, task_ranges
from slurmfair.errors import SlurmfairError
from slurmfair.view import View
from tests.views import job, running, view

RANGES = st.builds(range, st.integers(0, 60), st.integers(0, 80), st.integers(1, 9))


@pytest.fixture
def queue() -> View:
    return view(
        [
            job(3),
            job(7, array_id=7, task_list="2-9%2"),
            running(10, array_id=7, array_task=0),
            job(8, het_id=8, het_offset=0),
            job(9, het_id=8, het_offset=1),
            job(20, array_id=20, task_list="1-19:2,30"),
        ]
    )


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("3", [3]),
        ("7", [7, 10]),
        ("7_0", [10]),
        ("7_5", [7]),
        ("7_[0-3]", [7, 10]),
        ("7_[2-9%2]", [7]),
        ("7_[10-12]", []),
        ("7_*", [7, 10]),
        ("8", [8, 9]),
        ("8+1", [9]),
        ("8+0", [8]),
        ("9", [9]),
        ("20_4", []),
        ("20_5", [20]),
        ("20_[2-8:2]", []),
        ("20_[30]", [20]),
        ("3,7_[0,1],99", [3, 10]),
        ("4711", []),
    ],
)
def test_an_id_finds_its_records(queue: View, text: str, found: list[int]) -> None:
    asked = job_ids(text)
    mask = rows_of(queue, asked)
    assert sorted(queue.jobs["job_id"][mask].tolist()) == found


@pytest.mark.parametrize(
    "text", ["abc", "-3", "3_", "3_[", "7_[]", "3+", "3+x", "3_4_5", "٣", "9" * 30, "3 4"]
)
def test_what_is_no_id_is_refused_by_name(text: str) -> None:
    with pytest.raises(SlurmfairError, match="Invalid job id"):
        job_id(text)


@given(RANGES, RANGES)
def test_ranges_overlap_as_their_numbers_do(one: range, other: range) -> None:
    assert overlap(one, other) == bool(set(one) & set(other))


def test_a_huge_range_costs_nothing() -> None:
    assert overlap(range(0, 10**9, 3), range(1, 10**9, 7))
    assert len(task_ranges("0-999999999")[0]) == 10**9

"""Tests of slurmfair.slurm.requests and faults: what is sent for a change, and what the answer means."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmfair.errors import SlurmRefused, SlurmUnavailable
from slurmfair.model import Change
from slurmfair.slurm import faults
from slurmfair.slurm.cluster import Result
from slurmfair.slurm.requests import Channel, Request, requests_of

RELEASE = 4294967295
NOT_GIVEN = 4294967294


@pytest.mark.parametrize(
    ("change", "channel", "requests"),
    [
        (Change(1, hold=True, tag="t"), "site_factor", [Request(0, None, "t")]),
        (Change(1, release=True, rank=9, tag="t"), "site_factor", [Request(RELEASE, 9, "t")]),
        (Change(1, rank=0), "site_factor", [Request(None, 0, None)]),
        (Change(1, tag="t"), "site_factor", [Request(None, None, "t")]),
        (Change(1), "site_factor", []),
        (Change(1, cancel=True), "site_factor", [Request(cancel=True)]),
        (Change(1, cancel=True), "priority", [Request(cancel=True)]),
        (Change(1, hold=True, rank=9, tag="t"), "priority", [Request(0, None, "t")]),
        (Change(1, release=True, rank=9, tag="t"), "priority", [Request(RELEASE, None, "t"), Request(9)]),
        (Change(1, release=True, tag="t"), "priority", [Request(RELEASE, None, "t")]),
        (Change(1, rank=9, tag="t"), "priority", [Request(9, None, "t")]),
        (Change(1, throttle=0, tag="t"), "site_factor", [Request(None, None, "t", 0)]),
        (Change(1, release=True, rank=9, throttle=4), "site_factor", [Request(RELEASE, 9, None, 4)]),
        (
            Change(1, release=True, rank=9, throttle=4),
            "priority",
            [Request(RELEASE, None, None, 4), Request(9)],
        ),
        (Change(1, hold=True, throttle=4), "priority", [Request(0, None, None, 4)]),
    ],
)
def test_a_change_takes_the_fewest_requests(
    change: Change, channel: Channel, requests: list[Request]
) -> None:
    assert requests_of(change, channel) == tuple(requests)


@pytest.mark.parametrize(
    ("change", "channel"),
    [
        (Change(1, hold=True, release=True), "site_factor"),
        (Change(1, rank=2147483646), "site_factor"),
        (Change(1, rank=-100_000_001), "site_factor"),
        (Change(1, rank=0), "priority"),
        (Change(1, rank=NOT_GIVEN), "priority"),
        (Change(1, rank=RELEASE), "priority"),
    ],
)
def test_what_slurm_would_misread_is_never_sent(change: Change, channel: Channel) -> None:
    with pytest.raises(ValueError, match="job 1"):
        requests_of(change, channel)


CHANGES = st.builds(
    Change,
    job_id=st.just(1),
    hold=st.booleans(),
    release=st.booleans(),
    rank=st.none() | st.integers(-(1 << 33), 1 << 33),
    tag=st.none() | st.just("slurmfair:free"),
)


@given(CHANGES, st.sampled_from(["site_factor", "priority"]))
def test_only_a_hold_sends_zero_and_nothing_sends_the_value_that_is_ignored(
    change: Change, channel: Channel
) -> None:
    try:
        requests = requests_of(change, channel)
    except ValueError:
        return
    priorities = [request.priority for request in requests]
    assert NOT_GIVEN not in priorities
    assert (0 in priorities) == change.hold
    assert (RELEASE in priorities) == change.release
    assert [request.admin_comment for request in requests if request.admin_comment] == [change.tag] * bool(
        change.tag
    )


@pytest.mark.parametrize(
    ("number", "result"),
    [
        (0, Result.OK),
        (2017, Result.MOVED_ON),
        (2084, Result.MOVED_ON),
        (2021, Result.MOVED_ON),
        (2073, Result.MOVED_ON),
        (2042, Result.REREAD),
        (2096, Result.SKIP),
        (-1, Result.SKIP),
        (2099, Result.SKIP),
        (2002, None),
        (2010, None),
        (2095, None),
        (1800, None),
        (1007, None),
        (5004, None),
        (2131, None),
        (111, None),
    ],
)
def test_answers_to_writes_fall_into_their_classes(number: int, result: Result | None) -> None:
    assert faults.result_of_write(number) is result


def test_faults_name_the_way_out() -> None:
    refused = faults.fault(2002, "Access/permission denied", "cannot change job 5", "fair")
    assert isinstance(refused, SlurmRefused)
    assert "sacctmgr -i add user fair account=root adminlevel=Administrator" in str(refused)
    assert isinstance(faults.fault(1005, "version", "cannot read", "fair"), SlurmRefused)
    away = faults.fault(1007, "Protocol authentication error", "cannot read", "fair")
    assert isinstance(away, SlurmUnavailable) and "systemctl start munge" in str(away)
    assert isinstance(
        faults.fault(-1, "Failed to get Jobs from slurmdbd", "cannot read", "fair"), SlurmUnavailable
    )

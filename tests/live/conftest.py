"""The lab that all live tests share: brought up once, with the project installed in it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab import Lab, conf
from tests.live.busy import POLICY, Busy, queued
from tests.live.site import Site
from tests.test_lab import NO_LAB

HERE = Path(__file__).parent
# The scheduler looks 1 s after a slot has become free, where Slurm's default is 3 s, and backfill every 2 s.
SOONER = {
    "SchedulerParameters": conf.SCHEDULING["SchedulerParameters"].replace("bf_interval=5", "bf_interval=2")
    + ",batch_sched_delay=1"
}
LONGEST = (
    "test_history.py", "test_fairshare.py", "test_failures.py", "test_write.py", "test_blocking.py",
    "test_limits_and_parking.py", "test_balance.py",
)  # fmt: skip
RUNNING_LAB = "SLURMFAIR_LIVE_LAB"  # folder of a lab that is up, to save its start while tests are written


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Every test in this folder needs a live Slurm. Those that take longest come first, so that all workers end together."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.slurm)
    items.sort(key=lambda item: LONGEST.index(item.path.name) if item.path.name in LONGEST else len(LONGEST))


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Give a running lab with the project installed; skip with the reason where there can be none."""
    if NO_LAB is not None:
        pytest.skip(NO_LAB)
    if folder := os.environ.get(RUNNING_LAB):
        lab = Lab.attach(folder)
        lab.install_project()
        yield lab
        return
    with Lab(dir=tmp_path_factory.mktemp("lab"), name="live", conf=SOONER) as lab:
        lab.install_project()
        yield lab


@pytest.fixture
def site(lab: Lab) -> Iterator[Site]:
    """Give the site as one that never saw us; leave nothing running behind."""
    one = Site(lab)
    one.fresh()
    yield one
    one.stop()


@pytest.fixture
def gated(lab: Lab) -> Iterator[None]:
    """Switch the submit gate on for one test that must not race with Slurm's first look at new jobs."""
    lab.set_gate(True)
    yield
    lab.set_gate(False)


@pytest.fixture(scope="module")
def busy(lab: Lab) -> Iterator[Busy]:
    """Give a site whose queues stand still."""
    site = Site(lab)
    site.fresh()
    site.write_policy(POLICY)
    try:
        yield Busy(site, queued(site))
    finally:
        site.stop()

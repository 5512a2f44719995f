"""The daemon needs no root, and says at once which right is missing."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.live.policies import gpu_pool, quota
from tests.live.site import POLICY as POLICY_FILE
from tests.live.site import Site

POLICY = gpu_pool(
    quota("vision", deserved=16, policy="fifo"),
)
MEND = {"oper": r"sacctmgr -i modify user oper set adminlevel=Administrator",
        "nobody2": r"sacctmgr -i add user nobody2 account=root adminlevel=Administrator"}  # fmt: skip
UNDO = {
    "oper": ["modify", "user", "oper", "set", "adminlevel=Operator"],
    "nobody2": ["delete", "user", "nobody2"],
}


def test_the_daemon_orders_and_holds_as_an_account_that_is_not_root(site: Site) -> None:
    site.write_policy(POLICY)
    site.submit_many([["--gpus=8", "-N1"]] * 4, user="ann")
    site.start(user="slurmfair")
    behind = site.submit_many([["--gpus=1"]] * 2, user="bob")
    site.wait(lambda: site.held_by_us(behind), "one is held")
    owner = site.lab.path(f"/proc/{site.daemon.lab_pid}").stat().st_uid
    assert owner == site.lab.ids("slurmfair")[0] != 0


@pytest.fixture(params=sorted(MEND))
def weak_account(request: pytest.FixtureRequest, site: Site) -> Iterator[str]:
    """Give an account without the rights, with folders of its own; take back what the test gave it."""
    user = request.param
    yield user
    site.lab.run(["sacctmgr", "-i", *UNDO[user]], check=False)


def test_without_the_rights_it_stops_at_once_with_the_line_that_mends_it(
    site: Site, weak_account: str
) -> None:
    site.write_policy(POLICY)
    site.submit_many([["--gpus=8", "-N1"]] * 5, user="ann")
    folders = [f"/tmp/{weak_account}-state", f"/tmp/{weak_account}-run"]
    site.lab.run(["install", "-d", "-o", weak_account, *folders])
    argv = ["slurmfaird", "--config", POLICY_FILE, "--state-dir", folders[0], "--run-dir", folders[1]]
    refused = site.lab.run(argv, user=weak_account, check=False, timeout=30)
    assert refused.returncode == 2, refused.stderr
    mending = re.search(MEND[weak_account], refused.stderr)
    assert mending, refused.stderr
    site.lab.run(mending[0].split())
    done = site.lab.run([*argv, "--once"], user=weak_account)
    assert "cycle done" in done.stderr
    site.lab.run(["rm", "-rf", *folders])


def test_with_slurmdbd_away_the_first_refused_write_stops_it_and_applies_nothing(site: Site) -> None:
    """Who may do what cannot be looked up then; Slurm itself knows, and refuses the tag (SLURM.md 9)."""
    site.write_policy(POLICY)
    jobs = site.submit_many([["--gpus=8", "-N1"]] * 6, user="ann")
    site.wait(lambda: len(site.running(jobs)) == 4, "the cluster is full")
    folders = ["/tmp/oper-state", "/tmp/oper-run"]
    site.lab.run(["install", "-d", "-o", "oper", *folders])
    site.lab.stop_service("slurmdbd")
    try:
        argv = ["slurmfaird", "--config", POLICY_FILE, "--state-dir", folders[0], "--run-dir", folders[1]]
        refused = site.lab.run(argv, user="oper", check=False, timeout=60)
    finally:
        site.lab.start_service("slurmdbd")
    assert refused.returncode == 2, refused.stderr
    assert re.search(MEND["oper"], refused.stderr), refused.stderr
    assert site.jobs()[jobs[5]].priority > 0
    site.lab.run(["rm", "-rf", *folders])

"""Operators, coordinators and others, as Slurm itself tells them apart: who sees hidden jobs, who may change settings."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.live.busy import POLICY, Busy

EVERYBODY = {"ann", "bob", "cid", "dora", "finn"}  # who has a waiting job


def sacctmgr(busy: Busy, *words: str) -> None:
    busy.site.lab.run(["sacctmgr", "-i", "-Q", *words])


def refresh(busy: Busy) -> None:
    """Have the daemon read the cluster's settings now instead of within a minute."""
    busy.site.reload(POLICY)


def told_by_slurm(busy: Busy, user: str) -> set[str]:
    """Return whose waiting jobs squeue shows to a user."""
    return set(busy.site.report("squeue", "-h", "-t", "pending", "-o", "%u", user=user).split())


def told_by_us(busy: Busy, user: str) -> set[str]:
    """Return whose waiting jobs sfprio shows to a user."""
    return set(busy.site.report("sfprio", "-h", "-o", "%u", user=user).split())


def may_set(busy: Busy, user: str) -> bool:
    """Tell whether a user may change a setting, and end the change."""
    done = busy.site.lab.run(["slurmfair", "set", "gpu", "vision.weight=2"], user=user, check=False)
    if done.returncode == 0:
        busy.site.report("slurmfair", "unset", "gpu", "vision.weight", user=user)
    else:
        assert f"user {user} may not change settings" in done.stderr
    return done.returncode == 0


@pytest.fixture(scope="module")
def private(busy: Busy) -> Iterator[Busy]:
    """Give the site with other people's jobs hidden, and cid as coordinator of llm and all below it."""
    lab = busy.site.lab
    sacctmgr(busy, "add", "coordinator", "account=llm", "names=cid")
    lab.set_conf({"PrivateData": "jobs"})
    refresh(busy)
    try:
        yield busy
    finally:
        lab.set_conf({"PrivateData": None})
        sacctmgr(busy, "delete", "coordinator", "account=llm", "names=cid")


@pytest.mark.parametrize(
    ("user", "sees"),
    [
        ("root", EVERYBODY),
        ("slurmfair", EVERYBODY),
        ("oper", EVERYBODY),
        ("ann", {"ann"}),
        ("cid", {"cid", "dora"}),
        ("nobody2", set()),
    ],
)
def test_hidden_jobs_are_seen_by_whom_slurm_shows_them(private: Busy, user: str, sees: set[str]) -> None:
    assert told_by_slurm(private, user) == sees
    assert told_by_us(private, user) == sees


def test_a_coordinator_is_told_why_jobs_of_his_accounts_wait(private: Busy) -> None:
    lab, theirs, hidden = private.site.lab, private.jobs["e1"], private.jobs["s1"]
    told = lab.run(["slurmfair", "explain", str(theirs), str(hidden)], user="cid", check=False).stdout
    assert f"Job {theirs} of dora waits" in told
    assert f"Job {hidden} neither waits nor runs" in told
    assert "finn" not in told


def test_operators_may_change_settings_and_others_may_not(private: Busy) -> None:
    assert {user: may_set(private, user) for user in ("root", "slurmfair", "oper", "ann", "cid")} == {
        "root": True, "slurmfair": True, "oper": True, "ann": False, "cid": False,
    }  # fmt: skip


def test_a_new_administrator_counts_after_the_next_look_at_the_settings(private: Busy) -> None:
    assert not may_set(private, "ann")
    sacctmgr(private, "modify", "user", "ann", "set", "adminlevel=Administrator")
    try:
        refresh(private)
        assert may_set(private, "ann")
        assert told_by_us(private, "ann") == EVERYBODY
    finally:
        sacctmgr(private, "modify", "user", "ann", "set", "adminlevel=None")
    refresh(private)
    assert not may_set(private, "ann")
    assert told_by_us(private, "ann") == {"ann"}


def test_rights_outlive_slurmdbd(private: Busy) -> None:
    lab = private.site.lab
    lab.stop_service("slurmdbd")
    try:
        refresh(private)
        assert told_by_us(private, "oper") == EVERYBODY
        assert told_by_us(private, "cid") == {"cid", "dora"}
        assert may_set(private, "oper")
        assert not may_set(private, "ann")
    finally:
        lab.start_service("slurmdbd")


def test_nobody_is_told_who_has_which_rights(private: Busy) -> None:
    ask = 'import json; from slurmfair.client import ask; from slurmfair.paths import default_paths; print(json.dumps(ask(default_paths(), "status")))'
    for user in ("ann", "oper"):
        told = private.site.report("python3", "-c", ask, user=user)
        assert '"cluster"' in told
        assert '"oper"' not in told
        assert '"coordinated"' not in told

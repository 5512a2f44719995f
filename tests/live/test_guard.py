"""When the daemon is gone our holds end, and only ours; and what else an administrator does beside it."""

from __future__ import annotations

import signal
import time

from tests.live.policies import gpu_pool, quota
from tests.live.site import DAEMON_USER, STATE, Site
from tests.live.site import POLICY as POLICY_FILE

POLICY = gpu_pool(
    quota("vision", deserved=16, policy="fifo"),
    quota("speech", deserved=16, policy="fifo", fail_open="false"),
    top=("fail_open_after: 3s",),
)
SILENT_S = 3
WHOLE_NODE = ("--gpus=8", "-N1")


def held_queue(site: Site) -> tuple[list[int], list[int], list[int]]:
    """Start the daemon on a full cluster; return jobs that we hold, that stay closed, and that others hold."""
    site.write_policy(POLICY)
    site.wall()
    site.start()
    heads = [site.submit(*WHOLE_NODE, user=user) for user in ("ann", "eve")]
    ours = site.submit_many([["--gpus=1"]] * 3, user="ann")
    closed = site.submit_many([["--gpus=1"]] * 2, user="eve")
    foreign = [site.submit("--gpus=1", "--hold", user="bob"), site.submit("--gpus=1", user="bob")]
    site.lab.run(["scontrol", "hold", str(foreign[1])])
    site.lab.run(["scontrol", "update", f"JobId={foreign[1]}", "AdminComment=ticket 17"])
    site.wait(lambda: len(site.held_by_us([*ours, *closed])) == 5, "five held by us")
    assert site.states(heads) == ["PENDING", "PENDING"]
    return ours, closed, foreign


def guard(site: Site) -> str:
    return site.report("slurmfair", "guard", user=DAEMON_USER)


def status(site: Site) -> str:
    return site.report("slurmfair", "status", check=False)


def wait_until_silent(site: Site) -> None:
    """Wait until the last healthy cycle is longer ago than fail_open_after."""
    last_s = site.last_cycle_s()
    site.wait(lambda: time.time() > last_s + SILENT_S + 1.5, "silence")


def test_the_guard_does_nothing_while_the_daemon_is_healthy_and_frees_ours_when_it_is_gone(
    site: Site,
) -> None:
    ours, closed, foreign = held_queue(site)
    assert "nothing to do" in guard(site)
    assert len(site.held_by_us(ours)) == 3
    before = site.records(foreign)
    site.stop(signal.SIGKILL)
    wait_until_silent(site)
    assert "3 holds released" in guard(site)
    assert not site.held_by_us(ours)
    assert site.held_by_us(closed) == closed, "fail_open: false"
    assert site.records(foreign) == before
    assert "0 holds released" in guard(site)
    site.start()
    site.wait(lambda: len(site.held_by_us(ours)) == 3, "the daemon is back and holds them again")
    assert site.records(foreign) == before


def test_a_shadow_in_the_daemons_place_does_not_keep_the_guard_quiet(site: Site) -> None:
    ours, _, _ = held_queue(site)
    site.stop()
    last_s = site.last_cycle_s()
    site.start("--shadow")
    site.wait(lambda: site.last_cycle_s() > last_s + SILENT_S + 1.5, "the shadow runs for long")
    assert "3 holds released" in guard(site)
    assert not site.held_by_us(ours)


def test_the_guard_without_any_record_of_a_cycle_waits_from_its_first_look(site: Site) -> None:
    ours, _, _ = held_queue(site)
    site.stop()
    site.lab.run(["sh", "-c", f"rm -f {STATE}/state.db*"])
    assert "nothing to do" in guard(site)
    site.wait(lambda: "3 holds released" in guard(site), "the silence is long enough", every_s=1)
    assert not site.held_by_us(ours)


def test_release_all_frees_ours_only_and_not_while_the_daemon_would_hold_them_again(site: Site) -> None:
    ours, closed, foreign = held_queue(site)
    before = site.records(foreign)
    refused = site.lab.run(["slurmfair", "release-all"], user=DAEMON_USER, check=False)
    assert refused.returncode != 0 and "systemctl stop slurmfaird" in refused.stderr
    listed = site.report("slurmfair", "release-all", "--dry-run", user=DAEMON_USER)
    assert {int(line.split()[0]) for line in listed.splitlines()} == {*ours, *closed}
    assert len(site.held_by_us([*ours, *closed])) == 5
    site.stop()
    assert "5 holds released" in site.report("slurmfair", "release-all", user=DAEMON_USER)
    assert not site.held_by_us([*ours, *closed])
    assert site.records(foreign) == before


def test_a_second_daemon_refuses_to_start(site: Site) -> None:
    site.write_policy(POLICY)
    site.start()
    second = site.lab.run(["slurmfaird", "--config", POLICY_FILE], user=DAEMON_USER, check=False)
    assert second.returncode == 2
    assert f"another slurmfaird (pid {site.daemon.lab_pid})" in second.stderr
    site.wait_cycles(2)


def test_a_broken_policy_at_reload_leaves_the_old_one_in_force_and_says_so(site: Site) -> None:
    ours, _, _ = held_queue(site)
    site.reload(POLICY.replace("policy: fifo}", "policy: fito}"))
    site.wait(lambda: "policy refused" in site.daemon_log(), "it is logged")
    assert "fito" in site.daemon_log() and "fifo" in site.daemon_log()
    site.wait(lambda: "fito" in status(site), "status says so")
    late = site.submit("--gpus=1", user="ann")
    site.wait(lambda: site.held_by_us([late]), "the old policy goes on")
    site.reload(POLICY.replace("policy: fifo}", "policy: round_robin}"))
    site.wait(lambda: not site.held_by_us([*ours, late]), "the mended one comes into force")
    assert "fito" not in status(site)

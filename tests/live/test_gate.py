"""The submit gate: no job starts before a decision, and without a daemon nobody is held."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Iterator

import pytest

from tests.lab import Lab
from tests.live.policies import gpu_pool, quota
from tests.live.site import RUN, Site

POLICY = gpu_pool(
    quota("vision", deserved=16, policy="round_robin"),
    quota("speech", deserved=16, policy="fifo"),
)
HEARTBEAT = f"{RUN}/heartbeat"
N_EACH, USERS = 50, ("ann", "bob", "eve", "finn")


@pytest.fixture(scope="module", autouse=True)
def gate(lab: Lab) -> Iterator[None]:
    lab.set_gate(True)
    yield
    lab.set_gate(False)


def beat(site: Site, age_s: int = 0) -> None:
    """Write the heartbeat as a daemon would have done some seconds ago."""
    site.lab.path(HEARTBEAT).write_text(f"{int(time.time()) - age_s}\ntrain interactive\n")


def is_gated(site: Site, job: int) -> bool:
    record = site.jobs()[job]
    return record.priority == 0 and record.admin_comment == "slurmfair:gate"


def submit_at_once(site: Site) -> list[int]:
    """Let four users submit 50 jobs each, all at the same time."""
    line = f"for i in $(seq {N_EACH}); do sbatch --parsable -o /dev/null --gpus=1 --wrap='exec sleep 1'; done"
    options = {"stdout": subprocess.PIPE, "stdin": subprocess.DEVNULL}
    shells = [site.lab.popen(["sh", "-ec", line], user=user, **options) for user in USERS]
    printed = [shell.communicate(timeout=120)[0] for shell in shells]
    return [int(one) for text in printed for one in text.split()]


def test_none_of_200_jobs_of_four_users_starts_before_a_decision(site: Site) -> None:
    site.write_policy(POLICY)
    site.start()
    jobs = submit_at_once(site)
    assert len(jobs) == 200
    site.wait(lambda: len(site.starts(jobs)) >= 100, "half of them have started", 120)
    site.wait(lambda: not any(is_gated(site, job) for job in jobs), "all are decided")
    started = site.starts(jobs)
    start_s = dict(zip(started, site.start_s(started), strict=True))
    written_s = {update.job_id: update.at_s for update in reversed(site.our_updates())}
    decided_s = {job: at_s for job, at_s, _, _ in reversed(site.decisions())}
    for job in started:
        assert int(written_s[job]) <= start_s[job], f"job {job} started before our first write"
        assert decided_s[job] <= start_s[job], f"job {job} started before the decision in our log"


def test_the_gate_holds_sbatch_and_srun_of_managed_partitions_only(site: Site) -> None:
    beat(site)
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "stdin": subprocess.DEVNULL}
    srun = site.lab.popen(["srun", "--gpus=1", "echo", "ran"], user="ann", **options)
    site.wait(lambda: len(site.jobs_of("ann")) == 1, "srun has submitted")
    plain, array = site.submit("--gpus=1"), site.submit("--gpus=1", "--array=0-3%2")
    assert all(is_gated(site, job) for job in site.jobs_of("ann"))
    unmanaged, asked = site.submit("-p", "cpu"), site.submit("--gpus=1", "--hold")
    assert site.jobs()[unmanaged].priority > 0
    assert site.jobs()[asked].admin_comment == "", "a hold that its user asked for"
    site.write_policy(POLICY)
    site.start()
    assert "ran" in srun.communicate(timeout=60)[0]
    site.wait(lambda: site.running([plain]) and len(site.array_tasks(array)) == 2, "the others run as well")
    assert site.jobs()[asked].reason == "JobHeldUser"


def test_owner_cannot_release_a_gated_job(site: Site) -> None:
    beat(site)
    job = site.submit("--gpus=1")
    done = site.lab.run(["scontrol", "release", str(job)], user="ann", check=False)
    assert done.returncode != 0 and "slurmfair decides" in done.stderr
    assert is_gated(site, job)


def test_a_gated_job_that_must_wait_becomes_an_administrators_hold(site: Site) -> None:
    beat(site)
    filler = site.submit_many([["--gpus=8", "-N1"]] * 4, user="finn")
    head, behind = site.submit("--gpus=8", user="eve"), site.submit("--gpus=1", user="eve")
    site.write_policy(POLICY)
    site.start()
    site.wait(lambda: len(site.running(filler)) == 4, "the cluster is full")
    site.wait(lambda: site.held_by_us([behind]), "the gate's hold is now ours")
    assert site.states([head]) == ["PENDING"] and not site.held_by_us([head])


def test_with_a_stale_heartbeat_submissions_are_untouched(site: Site) -> None:
    beat(site, age_s=3600)
    stale = site.submit("--gpus=1")
    site.lab.path(HEARTBEAT).unlink()
    missing = site.submit("--gpus=1")
    for job in (stale, missing):
        record = site.jobs()[job]
        assert record.priority > 0 and record.admin_comment == ""
    site.wait(lambda: len(site.running([stale, missing])) == 2, "they start by themselves")


def test_a_daemon_that_stops_takes_its_heartbeat_along(site: Site) -> None:
    site.write_policy(POLICY)
    site.start()
    beat_s, partitions = site.lab.path(HEARTBEAT).read_text().splitlines()
    assert abs(int(beat_s) - time.time()) < 30 and partitions == "train interactive"
    assert site.stop() == 0
    assert not site.lab.path(HEARTBEAT).exists()


def test_the_guard_frees_gated_jobs_when_the_daemon_is_gone(site: Site) -> None:
    site.write_policy("fail_open_after: 1s\n" + POLICY.lstrip())
    site.start()
    site.stop(signal.SIGKILL)
    job = site.submit("--gpus=1")
    assert is_gated(site, job), "the heartbeat of the killed daemon is still fresh"
    site.wait(lambda: "1 holds released" in site.report("slurmfair", "guard", user="slurmfair"), "silence")
    site.wait(lambda: site.running([job]), "it runs")

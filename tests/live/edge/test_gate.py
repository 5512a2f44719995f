"""The submit gate, conf/job_submit.lua, in a real slurmctld (SLURM.md 3)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.lab import Lab
from tests.lab.services import wait_until
from tests.live.agent import Agent

pytestmark = pytest.mark.slurm

GATE = "slurmfair:gate"


@pytest.fixture(scope="module")
def gated_lab(edge_lab: Lab) -> Iterator[Lab]:
    """Return the lab with the gate switched on."""
    edge_lab.cancel_all()
    edge_lab.set_gate(True)
    heartbeat(edge_lab).parent.mkdir(parents=True, exist_ok=True)
    yield edge_lab
    heartbeat(edge_lab).unlink(missing_ok=True)
    edge_lab.cancel_all()
    edge_lab.set_gate(False)


@pytest.fixture
def gate(gated_lab: Lab) -> Lab:
    """Return the lab with an empty queue and the heartbeat of a living daemon."""
    gated_lab.cancel_all()
    beat(gated_lab)
    return gated_lab


@pytest.fixture
def edge(gate: Lab) -> Iterator[Agent]:
    """Return the edge of the daemon's account."""
    with Agent(gate) as agent:
        yield agent


def heartbeat(lab: Lab) -> Path:
    """Return the file that the gate looks at."""
    return lab.path("/run/slurmfair/heartbeat")


def beat(lab: Lab, age_s: int = 0, partitions: str = "train interactive") -> None:
    """Write a heartbeat as the daemon does."""
    heartbeat(lab).write_text(f"{int(time.time()) - age_s}\n{partitions}\n")
    heartbeat(lab).chmod(0o644)


@contextmanager
def edited(lab: Lab, old: str, new: str) -> Iterator[None]:
    """Change the script for a while; slurmctld sees a change by its time in whole seconds."""
    script = lab.path("/etc/slurm/job_submit.lua")
    ours = script.read_text()
    assert old in ours
    time.sleep(1.1)
    script.write_text(ours.replace(old, new))
    try:
        yield
    finally:
        time.sleep(1.1)
        script.write_text(ours)


def look(edge: Agent, job_id: int) -> tuple[bool, str, str]:
    """Return whether a job is held, its reason and its admin comment."""
    job = edge.job(job_id)
    return job["priority"] == 0, job["reason"], job["admin_comment"]


@pytest.mark.parametrize(
    "request_words", [[], ["-p", "interactive"], ["-p", "cpu,interactive"], ["--array=0-3"], ["--nice=5"]]
)
def test_a_new_job_of_a_managed_partition_is_held_and_tagged(
    gate: Lab, edge: Agent, request_words: list[str]
) -> None:
    job_id = gate.sbatch("-G1", *request_words, user="ann")
    assert look(edge, job_id) == (True, "JobHeldUser", GATE)


def test_every_part_of_a_heterogeneous_job_is_held(gate: Lab, edge: Agent) -> None:
    argv = ["sbatch", "--parsable", "-G1", ":", "-G2", "-p", "interactive", "--wrap=x"]
    leader = int(gate.run(argv, user="ann").stdout)
    parts = [job for job in edge.jobs().values() if job["het_id"] == leader]
    assert [look(edge, part["job_id"]) for part in parts] == [(True, "JobHeldUser", GATE)] * 2


def test_srun_waits_at_the_gate_and_starts_after_the_release(gate: Lab, edge: Agent) -> None:
    with gate.popen(["srun", "-G1", "--job-name=waits", "true"], user="ann") as process:
        try:
            assert wait_until(lambda: len(waiting_at_the_gate(edge)) == 1, 20)
            (job_id,) = waiting_at_the_gate(edge)
            edge.write(job_id, release=True, rank=10, tag="slurmfair:free")
            assert process.wait(60) == 0
        finally:
            process.kill()  # else a test that fails would wait for it


def waiting_at_the_gate(edge: Agent) -> list[int]:
    """Return the pending jobs that the gate holds."""
    return [
        job_id
        for job_id, job in edge.jobs().items()
        if (job["state"], job["priority"], job["admin_comment"]) == (0, 0, GATE)
    ]


@pytest.mark.parametrize("age_s", [61, 100_000])
def test_a_stale_heartbeat_leaves_jobs_alone(gate: Lab, edge: Agent, age_s: int) -> None:
    beat(gate, age_s=age_s)
    assert look(edge, gate.sbatch("--begin=now+1hour", user="ann"))[::2] == (False, "")


@pytest.mark.parametrize("content", [None, "", "nonsense\n", "12\n"])
def test_a_missing_or_broken_heartbeat_leaves_jobs_alone(gate: Lab, edge: Agent, content: str | None) -> None:
    heartbeat(gate).unlink()
    if content is not None:
        heartbeat(gate).write_text(content)
    assert look(edge, gate.sbatch("--begin=now+1hour", user="ann"))[::2] == (False, "")


def test_what_is_not_ours_passes_the_gate(gate: Lab, edge: Agent) -> None:
    own_hold = gate.sbatch("-H", user="ann")
    unmanaged = gate.sbatch("-p", "cpu", "--begin=now+1hour", user="ann")
    pinned = gate.sbatch("--priority=500", "--begin=now+1hour", user="root")
    gate.run(["scrontab", "-"], user="ann", input="0 0 1 1 * /bin/true\n")
    cron = next(job["job_id"] for job in edge.jobs().values() if job["cron"])
    try:
        assert look(edge, own_hold) == (True, "JobHeldUser", "")
        assert look(edge, unmanaged)[::2] == (False, "")
        assert edge.job(pinned)["priority"] == 500
        assert look(edge, cron)[::2] == (False, "")
    finally:
        gate.run(["scrontab", "-r"], user="ann")


def test_the_owner_cannot_pass_the_gate_but_the_daemon_and_admins_can(gate: Lab, edge: Agent) -> None:
    ours, theirs = gate.sbatch("-G1", user="ann"), gate.sbatch("-G1", user="ann")
    for words in (["release", str(ours)], ["update", f"jobid={ours}", "priority=100"]):
        refused = gate.run(["scontrol", *words], user="ann", check=False)
        assert refused.returncode != 0 and "slurmfair explain" in refused.stdout + refused.stderr
        assert look(edge, ours) == (True, "JobHeldUser", GATE)
    gate.run(["scontrol", "update", f"jobid={ours}", "timelimit=5"], user="ann")
    assert edge.job(ours)["time_limit_s"] == 300, "the owner may still change what is his"
    edge.write(ours, hold=True, tag="slurmfair:hold")
    assert look(edge, ours) == (True, "JobHeldAdmin", "slurmfair:hold")
    assert edge.write(ours, release=True, rank=50, tag="slurmfair:free")["result"] == "OK"
    assert edge.job(ours)["site_factor"] == 50
    gate.run(["scontrol", "release", str(theirs)])
    assert edge.job(theirs)["priority"] > 0


def test_with_the_daemon_gone_the_owner_can_free_a_gated_job(gate: Lab, edge: Agent) -> None:
    job_id = gate.sbatch("-G1", user="ann")
    beat(gate, age_s=1000)
    gate.run(["scontrol", "release", str(job_id)], user="ann")
    assert edge.job(job_id)["priority"] > 0


def test_foreign_text_in_the_admin_comment_is_kept(gate: Lab, edge: Agent) -> None:
    call = "   slurmfair_gate(job_desc, part_list)\n   return"
    with edited(gate, call, '   job_desc.admin_comment = "ticket 5"\n' + call):  # the site's own line
        job_id = gate.sbatch(user="ann")
    assert look(edge, job_id) == (True, "JobHeldUser", f"ticket 5 {GATE}")


def test_a_refusal_by_the_sites_own_plugin_skips_the_job(gate: Lab, edge: Agent) -> None:
    job_id = gate.sbatch(user="ann")
    with edited(gate, "if slurmfair_guard(job_desc, job_rec, modify_uid) then", "if true then"):
        answer = edge.write(job_id, rank=5)
    assert answer["result"] == "SKIP"
    assert edge.job(job_id)["site_factor"] == 0


def test_two_hundred_submissions_by_four_users_all_stop_at_the_gate(gate: Lab, edge: Agent) -> None:
    for user in ("ann", "bob", "cid", "eve"):
        gate.submit_many([["-G1"]] * 50, user=user)
    jobs = edge.jobs().values()
    held = [
        job for job in jobs if job["admin_comment"] == GATE and job["priority"] == 0 and job["state"] == 0
    ]
    assert len(held) == 200

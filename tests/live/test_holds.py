"""Holds: those of others are never touched, ours stand, and an administrator has the last word."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.live.policies import gpu_pool, quota
from tests.live.site import Site

POLICY = gpu_pool(
    quota("vision", deserved=16, policy="fifo"),
    quota("speech", deserved=16, policy="fifo"),
)
PROLOG = """#!/bin/sh
[ ! -e /tmp/prolog-fails ]
"""
HOURLY = "#SCRON --gpus=1\n0 * 31 12 * true\n"
N_GPUS = 32


@pytest.fixture
def foreign(site: Site) -> Iterator[dict[str, int]]:
    """Give waiting jobs that are not ours to touch, by what keeps them, on a full cluster."""
    lab = site.lab
    prolog = lab.path("/etc/slurm/prolog.sh")
    prolog.write_text(PROLOG)
    prolog.chmod(0o755)
    lab.set_conf({"Prolog": "/etc/slurm/prolog.sh", "ScronParameters": "enable"})
    lab.run(["scontrol", "create", "reservation", "ReservationName=later", "StartTime=now+1hour", "Duration=60",
             "Nodes=gpu03", "Users=ann"])  # fmt: skip
    jobs = {
        "launch failure": launch_failure(site),
        "job requeued in held state": requeued_held(site),
        **waiting_for_somebody_else(site),
    }
    lab.run(["scrontab", "-"], user="bob", input=HOURLY)
    jobs["cron job"] = site.jobs_of("bob")[0]
    yield jobs
    site.stop()
    lab.run(["scrontab", "-r"], user="bob")
    lab.cancel_all()
    lab.run(["scontrol", "delete", "ReservationName=later"])
    lab.set_conf({"Prolog": None, "ScronParameters": None})


def launch_failure(site: Site) -> int:
    """Return a job that Slurm itself held, because its prolog failed."""
    fails = site.lab.path("/tmp/prolog-fails")
    fails.touch()
    job = site.submit("--gpus=1")
    site.wait(lambda: site.jobs()[job].priority == 0, "hold after a failed launch")
    fails.unlink()
    broken = [name for name, state in site.lab.node_states().items() if state.startswith("drain")]
    site.lab.run(["scontrol", "update", f"NodeName={','.join(broken)}", "State=RESUME"])
    site.lab.wait_nodes()
    return job


def requeued_held(site: Site) -> int:
    """Return a job that an administrator requeued and held."""
    job = site.submit("--gpus=1")
    site.wait(lambda: site.running([job]), "a running job")
    site.lab.run(["scontrol", "requeuehold", str(job)])
    site.wait(lambda: site.states([job]) == ["PENDING"], "requeued")
    return job


def waiting_for_somebody_else(site: Site) -> dict[str, int]:
    """Fill the cluster and return jobs that wait on it, by what keeps them."""
    lab = site.lab
    filler = site.fill(N_GPUS, user="eve")
    unmanaged = site.submit_many([["-p", "cpu", "-c64"]] * 2)
    jobs = {name: site.submit("--gpus=1") for name in ("uhold", "admin hold", "admin hold over our old tag",
            "admin hold with a comment", "admin uhold over our hold tag")}  # fmt: skip
    lab.run(["scontrol", "uhold", str(jobs["uhold"])])
    for name, comment in (
        ("admin hold", None),
        ("admin hold over our old tag", "slurmfair:free"),
        ("admin hold with a comment", "ticket 17, not slurmfair:holding"),
        ("admin uhold over our hold tag", "slurmfair:hold"),
    ):
        tag = [f"AdminComment={comment}"] if comment else []
        lab.run(["scontrol", "update", f"JobId={jobs[name]}", "Priority=0", *tag])
    lab.run(["scontrol", "uhold", str(jobs["admin uhold over our hold tag"])])
    return jobs | {
        "owner's hold": site.submit("--gpus=1", "--hold"),
        "dependency": site.submit("--gpus=1", f"--dependency=afterok:{filler[0]}"),
        "singleton": site.submit_many([["--gpus=1", "--job-name=one", "--dependency=singleton", "--begin=now+2hour"],
                                       ["--gpus=1", "--job-name=one", "--dependency=singleton"]])[1],
        "begin time": site.submit("--gpus=1", "--begin=now+1hour"),
        "reservation": site.submit("--gpus=1", "--reservation=later"),
        "unmanaged partition": unmanaged[1],
        "account that no quota takes": site.submit("--gpus=1", "--account=llm-eval", user="cid"),
    }  # fmt: skip


def test_after_twenty_cycles_no_job_of_others_was_touched(site: Site, foreign: dict[str, int]) -> None:
    site.interval_s = 0.3
    site.write_policy(POLICY)
    site.wait(lambda: site.jobs()[foreign["dependency"]].reason == "Dependency", "reasons are settled")
    before = site.records(foreign.values())
    site.start()
    ours = site.submit_many([["--gpus=2"]] * 4, user="bob")
    site.wait(lambda: len(site.held_by_us(ours)) == 3, "a queue of our own, behind its head")
    site.wait_cycles(20)
    assert not {update.job_id for update in site.our_updates()} & set(foreign.values())
    after = site.records(foreign.values())
    for what, job in foreign.items():
        assert after[job] == before[job], what


def blocked_queue(site: Site, *args: str) -> tuple[list[int], int, int]:
    """Start the daemon on a full cluster with a FIFO queue; return fillers, the blocked head, and one behind it."""
    site.write_policy(POLICY)
    fillers = site.fill(N_GPUS, user="eve")
    head = site.submit("--gpus=8", "-N1", user="ann")
    behind = site.submit("--gpus=1", *args, user="bob")
    site.start()
    site.wait(lambda: site.held_by_us([behind]), "our hold")
    return fillers, head, behind


def test_owner_cannot_release_our_hold(site: Site) -> None:
    _, _, behind = blocked_queue(site)
    done = site.lab.run(["scontrol", "release", str(behind)], user="bob", check=False)
    assert done.returncode != 0 and "denied" in done.stderr
    assert site.held_by_us([behind]) == [behind]


def test_an_administrators_release_of_our_hold_is_respected(site: Site) -> None:
    fillers, head, behind = blocked_queue(site)
    site.lab.run(["scontrol", "release", str(behind)])
    mark = len(site.our_updates())
    site.wait_cycles(5)
    assert behind not in {update.job_id for update in site.our_updates()[mark:]}
    site.end(fillers[0])
    site.wait(lambda: site.running([behind]), "it passes the blocked head, as the administrator wished")
    assert site.states([head]) == ["PENDING"]


def test_an_administrators_uhold_of_our_hold_stays_when_its_turn_comes(site: Site) -> None:
    fillers, head, behind = blocked_queue(site)
    site.lab.run(["scontrol", "uhold", str(behind)])
    site.end(*fillers)
    site.wait(lambda: site.running([head]), "the head runs")
    site.wait_cycles(3)
    assert site.jobs()[behind].reason == "JobHeldUser"


def test_the_users_nice_survives_hold_release_and_rank(site: Site) -> None:
    fillers, head, behind = blocked_queue(site, "--nice=50")
    second = site.submit("--gpus=8", "-N1", "--nice=70", user="bob")
    site.wait(lambda: site.held_by_us([second]), "our second hold")
    site.end(head)
    site.wait(lambda: site.jobs()[behind].priority > 1, "released with a rank")
    site.end(*fillers)
    site.wait(lambda: len(site.running([behind, second])) == 2, "both run")
    assert [site.lab.show_job(job)["Nice"] for job in (behind, second)] == ["50", "70"]


def test_a_job_that_started_before_our_hold_reached_it_is_released(site: Site) -> None:
    site.write_policy(POLICY)
    job = site.submit("--gpus=1")
    site.wait(lambda: site.running([job]), "it runs")
    late = ["scontrol", "update", f"JobId={job}", "Priority=0", "AdminComment=slurmfair:hold"]
    site.lab.run(late, user="slurmfair")
    assert site.jobs()[job].priority == 0
    site.start()
    site.wait(lambda: site.jobs()[job].priority > 0, "released")
    assert site.jobs()[job].admin_comment == "slurmfair:free"
    assert site.running([job])
    site.lab.run(["scontrol", "requeue", str(job)])
    site.wait(lambda: site.running([job]), "after a requeue it runs again", 90)


def test_foreign_text_in_the_admin_comment_stays_beside_our_tag(site: Site) -> None:
    fillers, _, behind = blocked_queue(site)
    job = site.submit("--gpus=1", "--hold", user="bob")
    site.lab.run(["scontrol", "update", f"JobId={job}", "AdminComment=ticket 17"])
    site.lab.run(["scontrol", "release", str(job)], user="bob")
    site.wait(lambda: site.held_by_us([job]), "held too")
    assert site.jobs()[job].admin_comment == "ticket 17 slurmfair:hold"
    site.end(*fillers)
    site.wait(lambda: len(site.running([behind, job])) == 2, "both run")
    assert site.jobs()[job].admin_comment == "ticket 17 slurmfair:free"


def test_held_jobs_that_leave_our_queues_are_let_go(site: Site) -> None:
    _, _, behind = blocked_queue(site)
    other = site.submit("--gpus=1", user="bob")
    site.wait(lambda: site.held_by_us([other]), "held too")
    site.lab.run(["scontrol", "update", f"JobId={other}", "Partition=cpu", "TresPerJob="], user="bob")
    site.wait(lambda: not site.held_by_us([other]), "its owner moved it to a partition that is not ours")
    assert site.held_by_us([behind])
    site.reload("\n".join(line for line in POLICY.splitlines() if "vision:" not in line))
    site.wait(lambda: not site.held_by_us([behind]), "its quota is gone from the policy")

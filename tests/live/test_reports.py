"""What people read, on a real Slurm: each sentence is true of the job it is said of, and nobody sees what he must not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from slurmfair.model import Outcome
from tests.live.policies import LEVELS, gpu_pool, quota
from tests.live.site import Site

POLICY = gpu_pool(
    quota("vision", deserved=8, limit=12, policy="fifo"),
    quota("pretrain", "llm-pretrain", deserved=8, policy="intelligent"),
    quota("eval", "llm-eval", deserved=8, policy="round_robin"),
    quota("speech", deserved=8, policy="balance"),
    top=(LEVELS,),
)


@dataclass(frozen=True)
class Queue:
    """A site with a job for every situation, by a word for it."""

    site: Site
    jobs: dict[str, int]

    def explain(self, job: str | int, user: str = "finn") -> str:
        """Return what an unprivileged user is told."""
        asked = self.jobs[job] if isinstance(job, str) else job
        return self.site.report("slurmfair", "explain", str(asked), user=user, check=False)


@pytest.fixture(scope="module")
def queue(lab: object) -> Iterator[Queue]:
    site = Site(lab)  # type: ignore[arg-type]
    site.fresh()
    site.write_policy(POLICY)
    submit = site.submit
    jobs = {
        "fills gpu01": submit("--gpus=h100:8", "-N1", "-w", "gpu01"),
        "fills gpu02": submit("--gpus=h100:8", "-N1", "-w", "gpu02", user="cid"),
        "fills gpu03": submit("--gpus=h100:8", "-N1", "-w", "gpu03", "-A", "llm-eval", user="dora"),
    }
    site.wait(lambda: len(site.running(jobs.values())) == 3, "three nodes full")
    jobs["array"] = submit("--gpus=h100:1", "--array=0-3%1", user="eve")
    site.wait(lambda: site.array_tasks(jobs["array"]), "one task of the array runs")
    jobs["fills gpu04"] = submit("--gpus=h100:3", "-N1", "-w", "gpu04", "-A", "llm-eval", user="dora")
    site.wait(lambda: site.running([jobs["fills gpu04"]]), "the fourth node full")
    jobs["ended"] = site.lab.sbatch("--wrap=false", user="ann")
    jobs["dependency failed"] = submit("--gpus=h100:1", f"--dependency=afterok:{jobs['ended']}", user="eve")
    site.wait(lambda: site.states([jobs["ended"]]) == ["FAILED"], "one has failed")
    held = submit("--gpus=h100:1", "--hold", user="eve")
    site.lab.run(["scontrol", "hold", str(held)])
    jobs |= {
        "limit": submit("--gpus=h100:8", "-N1"),
        "fifo behind": submit("--gpus=h100:1", user="bob"),
        "parked": submit("--gpus=h100:16", "-N2"),
        "capacity": submit("--gpus=h100:8", "-N1", "--qos=urgent", user="cid"),
        "intelligent behind": submit("--gpus=h100:1", "--qos=scavenger", user="cid"),
        "round robin": submit("--gpus=h100:8", "-N1", "-A", "llm-eval", user="dora"),
        "balance head": submit("--gpus=h100:8", "-N1", user="finn"),
        "balance behind": submit("--gpus=h100:1", user="eve"),
        "held by its owner": submit("--gpus=h100:1", "--hold", user="eve"),
        "held by an administrator": held,
        "begins later": submit("--gpus=h100:1", "--begin=now+1hour", user="eve"),
        "depends": submit("--gpus=h100:1", f"--dependency=afterok:{jobs['fills gpu01']}", user="eve"),
        "too many nodes": submit("--gpus=h100:64", "-N8", user="eve"),
        "no quota": submit("--gpus=h100:8", "-N1", user="oper"),
        "elsewhere": submit("-p", "cpu", user="eve"),
    }
    jobs["het"] = site.lab.sbatch(
        "--gpus=h100:8", "-N1", ":", "--gpus=h100:8", "-N1", "--wrap=sleep 600", user="eve"
    )
    site.start()
    site.wait(lambda: site.outcome(jobs["limit"]) == Outcome.LIMIT, "judged")
    for word, reason in (
        ("dependency failed", "DependencyNeverSatisfied"),
        ("too many nodes", "PartitionNodeLimit"),
    ):
        site.wait(
            lambda job=jobs[word], text=reason: site.lab.show_job(job)["Reason"] == text,
            f"Slurm says {reason}",
        )
    site.wait_cycles(2)
    yield Queue(site, jobs)
    site.stop()


SAYS = {
    "fills gpu01": ["runs: 8 GPUs (h100) on 1 node, quota vision", "It has run since"],
    "array": ["throttle of 1 tasks at a time", "1 task of it runs now", "_0 of eve runs"],
    "ended": ["neither waits nor runs", "sacct -j"],
    "limit": [
        "1st in the queue of vision (policy FIFO",
        "may hold 12 GPUs at most; it holds 8",
        "this job needs 8",
        "must give back 4 GPUs",
    ],
    "fifo behind": [
        "Under FIFO a job that cannot start stops everybody behind it",
        "(ann, vision)",
        "because of a limit of its quota",
    ],
    "parked": [
        "can never start as it is",
        "needs 16 GPUs, and quota vision may hold 12 at most",
        "It is parked",
    ],
    "capacity": ["1st in the queue of pretrain (policy Intelligent", "with priority 9", "8 GPUs"],
    "intelligent behind": [
        "a high job (priority 7 and more) that cannot start stops all",
        "its priority 9 is in the high lane",
        "rises to 2 at",
    ],
    "round robin": ["1st in the queue of eval (policy Round Robin", "8 GPUs"],
    "balance head": ["1st in the queue of speech (policy Balance", "8 GPUs"],
    "balance behind": ["until it has failed for 5 min", "this job is tried too"],
    "held by its owner": ["held by its owner", "scontrol release"],
    "held by an administrator": [
        "held by an administrator or by Slurm, not by slurmfair",
        "An administrator must release it",
    ],
    "begins later": ["asked to begin later", "It joins its queue at"],
    "depends": ["waits for other jobs (--dependency)"],
    "dependency failed": ["DependencyNeverSatisfied", "The job that it waits for has failed"],
    "too many nodes": ["Slurm cannot run it as it asks: PartitionNodeLimit"],
    "no quota": ["belongs to no quota", "account root", "Slurm alone decides"],
    "elsewhere": ["neither waits nor runs in the partitions that slurmfair manages (interactive, train)"],
    "het": ["16 GPUs in 2 components", "in the queue of speech"],
}


@pytest.mark.parametrize("word", SAYS)
def test_explain_says_what_is_so(queue: Queue, word: str) -> None:
    told = queue.explain(word)
    for part in SAYS[word]:
        assert part in told, told


def test_explain_of_a_job_that_never_was(queue: Queue) -> None:
    assert "Job 999999 neither waits nor runs" in queue.explain(999999)


def test_explain_of_one_task_and_of_one_component(queue: Queue) -> None:
    array, het = queue.jobs["array"], queue.jobs["het"]
    assert f"Job {array}_0 of eve runs" in queue.site.report("slurmfair", "explain", f"{array}_0")
    assert f"Job {array}_[1-3%1] of eve waits" in queue.site.report("slurmfair", "explain", f"{array}_2")
    assert f"Job {het}+1 of eve waits" in queue.site.report("slurmfair", "explain", f"{het}+1")


def test_a_gated_job_and_one_that_an_administrator_lets_go(queue: Queue) -> None:
    behind = queue.jobs["fifo behind"]
    queue.site.wait(lambda: queue.site.held_by_us([behind]), "held")
    assert "Slurm shows JobHeldAdmin and priority 0: slurmfair holds it" in queue.explain("fifo behind")


def test_columns_that_sprio_has_are_laid_out_as_sprio_lays_them_out(queue: Queue) -> None:
    """Every line of sprio, for the jobs that it shows, is a line of sfprio."""
    for form in ("%.15i %9r %.8u %.8o %8n", "%i|%r|%N", "%.3i%3r%.3u", "%12u %.12Y %.12S"):
        theirs = queue.site.report("sprio", "-o", form, "-S", "i").splitlines()
        ours = queue.site.report("sfprio", "-o", form, "-S", "i").splitlines()
        arrays = [line for line in theirs if str(queue.jobs["array"]) in line]
        assert len(theirs) > 3
        assert [line for line in theirs if line not in ours and line not in arrays] == []


def test_no_reader_asks_slurmctld(queue: Queue) -> None:
    """slurmctld counts requests by user: none of the reader's."""
    queue.site.lab.run(["scontrol", "show", "config"], user="finn")
    assert "finn" in queue.site.lab.sdiag()["by_user"], "a request of his would be seen"
    queue.site.lab.run(["sdiag", "-r"])
    for words in (
        ["sfprio"],
        ["sfprio", "-l", "--json"],
        ["sfshare", "-a"],
        ["slurmfair", "status"],
        ["slurmfair", "explain", "1"],
    ):
        queue.site.report(*words, user="finn", check=False)
    assert "finn" not in queue.site.lab.sdiag()["by_user"]


def test_private_data_hide_other_peoples_jobs(queue: Queue) -> None:
    site = queue.site
    site.lab.set_conf({"PrivateData": "jobs"})
    try:
        site.stop()
        site.start()
        site.wait_cycles(1)
        mine = site.report("sfprio", "-h", "-o", "%u", user="bob").split()
        assert set(mine) == {"bob"}
        own = queue.explain("fifo behind", user="bob")
        assert "belongs to somebody else and is not shown to you" in own
        assert "(ann" not in own
        assert "other users' jobs are private here" in queue.explain("limit", user="bob")
        told = site.report("sfprio", "--json", user="bob")
        for hidden in ("ann", "cid", "eve", str(queue.jobs["limit"])):
            assert f'"{hidden}"' not in told
            assert f": {hidden}," not in told
        assert json.loads(told)["meta"]["decided"]["hidden_jobs"] > 10
        assert {"ann", "eve"} <= set(site.report("sfprio", "-h", "-o", "%u", user="root").split())
        shares = site.report("sfshare", "-a", "-P", "-o", "Quota,User,Allocated", user="bob")
        assert "vision||8" in shares
        assert "ann" not in shares
    finally:
        site.lab.set_conf({"PrivateData": None})
        site.stop()
        site.start()


def test_the_last_view_outlives_the_daemon(queue: Queue) -> None:
    """With a reporter of its own, as slurmfair-report.service starts one."""
    site = queue.site
    reporter = site.lab.popen(
        ["slurmfair", "serve", "/var/lib/slurmfair", "/run/slurmfair"], user="slurmfair"
    )
    try:
        site.stop()
        site.wait(
            lambda: site.lab.run(["sfprio", "-h"], user="finn", check=False).stdout,
            "the other reporter took over",
        )
        done = site.lab.run(["sfprio", "-h", "-o", "%u"], user="finn", check=False)
        assert done.returncode == 1
        assert "ann" in done.stdout
        assert "slurmfaird is not running" in done.stderr
        site.start()
        site.wait_cycles(1)
        assert site.lab.run(["sfprio", "-h"], user="finn", check=False).returncode == 0
    finally:
        reporter.terminate()
        reporter.wait(timeout=20)


def test_a_setting_is_taken_up_and_ended(queue: Queue) -> None:
    site = queue.site
    refused = site.lab.run(["slurmfair", "set", "gpu", "vision.limit=10"], user="ann", check=False)
    assert refused.returncode == 1
    assert "user ann may not change settings" in refused.stderr
    site.report("slurmfair", "set", "gpu", "vision.limit=10")
    try:
        site.wait(lambda: "vision may hold 10 GPUs at most" in queue.explain("limit"), "taken up")
        assert "gpu quotas.vision.limit=10" in site.report("slurmfair", "status")
    finally:
        site.report("slurmfair", "unset", "gpu", "vision.limit")
    site.wait(lambda: "Override" not in site.report("slurmfair", "status"), "ended")

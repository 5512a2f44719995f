"""`make run` without a real Slurm: the daemon itself at work on a cluster in memory, which lives a hundred seconds in ten.

The story, its policy and its jobs are those of tests/lab/demo.py, which tells it on a real Slurm.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

from slurmfair.cli import commands
from slurmfair.cli.terms import Asked
from slurmfair.daemon import Daemon, Options, opened
from slurmfair.paths import Paths
from slurmfair.reports import Caller
from slurmfair.sim.cluster import SimCluster
from slurmfair.sim.spec import JobSpec, NodeSpec, Rules
from slurmfair.slurm.parse import BaseState
from slurmfair.view import load

CYCLE_S, SHOW_EVERY_S, RUN_S = 2, 14, 112
REAL_S = 0.15  # that one cycle takes here
ROWS = 14
RULES = Rules(bf_interval_s=4, requeue_delay_s=5, max_time_s=3600)
POLICY = """\
version: 1
cycle: {interval: 2s}
job_priority: {qos: {urgent: 9, normal: 5, scavenger: 1}}
pools:
  gpu:
    partitions: [train, interactive]
    resource: gres/gpu
    quotas:
      vision: {match: {accounts: [vision]}, deserved: 16, policy: fifo}
      llm:
        deserved: 8
        policy: round_robin
        quotas:
          pretrain: {match: {accounts: [llm-pretrain]}, deserved: 8, weight: 2}
          eval: {match: {accounts: [llm-eval]}, weight: 1}
      speech: {match: {accounts: [speech]}, deserved: 8, policy: round_robin, limit: 20}
"""
STORY = """
Three teams share 32 GPUs (gpu01-03: 8 h100 each, gpu04: 4 h100 and 4 a100).
  speech  deserves 8, at most 20: thirty 1-GPU jobs, the first to arrive, so it takes what is idle
  vision  deserves 16, FIFO: one job of 16 GPUs on 2 nodes, then four small ones that must not pass it
  llm     deserves 8, Round Robin: 4-GPU and 2-GPU jobs; those that do not fit are skipped
Watch: nobody of vision passes its 16-GPU job; room is kept for it, so speech and llm do not refill.
"""


def main() -> int:
    """Tell the story; 0 at its end, 130 when it was interrupted."""
    with tempfile.TemporaryDirectory(prefix="slurmfair-run-") as folder:
        policy = Path(folder, "policy.yaml")
        policy.write_text(POLICY)
        options = Options(policy, Paths(Path(folder, "state"), Path(folder, "run")))
        sim = cluster()
        try:
            with opened(options, lambda _: sim) as daemon:
                tell(daemon, sim)
        except KeyboardInterrupt:
            print("\nrun: stopped; nothing is left behind")
            return 130
    return 0


def cluster() -> SimCluster:
    """Return the lab's cluster, empty, with the gate in force."""
    both, h100 = ("train", "interactive"), {"h100": 8}
    nodes = [
        NodeSpec("gpu01", both, h100),
        NodeSpec("gpu02", both, h100),
        NodeSpec("gpu03", ("train",), h100),
        NodeSpec("gpu04", ("train",), {"h100": 4, "a100": 4}),
    ]
    sim = SimCluster(nodes, rules=RULES, start_s=int(time.time()))
    sim.admin.gate("train", "interactive")
    return sim


def first_team(sim: SimCluster) -> None:
    """Submit speech's jobs."""
    for i in range(30):
        submit(sim, f"speech{i:02}", "eve", "speech", 1, 20 + i)


def other_teams(sim: SimCluster) -> None:
    """Submit vision's and llm's jobs."""
    gang = JobSpec("ann", "vision", name="gang16", gpus=16, nodes=2, duration_s=30, time_limit_s=300)
    sim.submit(replace(gang, gpu_type="h100"))
    for i in range(1, 5):
        submit(sim, f"vision{i}", "bob", "vision", 1, 15)
    for i in range(3):
        submit(sim, f"pre{i}", "cid", "llm-pretrain", 4, 40)
    for i in range(4):
        submit(sim, f"eval{i}", "dora", "llm-eval", 2, 20)


def submit(sim: SimCluster, name: str, user: str, account: str, gpus: int, duration_s: int) -> None:
    """Submit a job of one node."""
    sim.submit(JobSpec(user, account, name=name, gpus=gpus, duration_s=duration_s, time_limit_s=300))


def tell(daemon: Daemon, sim: SimCluster) -> None:
    """Let the daemon and the cluster live in turns, and show both."""
    print(STORY, flush=True)
    for gone_s in range(0, RUN_S, CYCLE_S):
        if gone_s in ARRIVALS:
            ARRIVALS[gone_s](sim)
        daemon.step()
        sim.advance(CYCLE_S)
        if gone_s % SHOW_EVERY_S == 0:
            show(daemon, sim, gone_s)
        time.sleep(REAL_S)
    summary(sim)


def show(daemon: Daemon, sim: SimCluster, at_s: int) -> None:
    """Print what sfprio shows, and what squeue and sprio would."""
    paths = daemon.options.paths
    asked = Asked(["-l"], load(paths.view), Caller(0, "root"), paths, 0.0, "", {}, False, 0)
    print(f"\n=== {at_s} s " + "=" * 60)
    print("--- sfprio -l\n" + shortened("".join(commands.answer("sfprio", asked).out)))
    running = Counter(job.spec.account for job in sim.ctl.jobs.values() if job.state == BaseState.RUNNING)
    listed = ", ".join(f"{number} of {account}" for account, number in sorted(running.items()))
    print(f"--- Slurm's squeue, running\n{listed or 'none'}")
    waiting = sorted((job for job in sim.ctl.jobs.values() if job.waits), key=lambda job: -job.priority)
    rows = [f"{j.job_id:8} {j.priority:11} {j.site_factor:11} {j.reason}" for j in waiting if j.priority]
    print("--- Slurm's sprio\n" + shortened("\n".join(["   JOBID    PRIORITY        SITE REASON", *rows])))
    sys.stdout.flush()


def shortened(text: str) -> str:
    """Return the first lines, and how many there are more."""
    lines = text.rstrip().splitlines()
    more = [f"... {len(lines) - ROWS} more"] if len(lines) > ROWS else []
    return "\n".join(lines[:ROWS] + more)


def summary(sim: SimCluster) -> None:
    """Say what was held, in which order jobs started, and what was written."""
    names = {job_id: job.spec.name for job_id, job in sim.ctl.jobs.items()}
    held = [names[job_id] for job_id in dict.fromkeys(change.job_id for change in sim.writes if change.hold)]
    print("\n=== summary " + "=" * 60)
    print(f"held at some time: {', '.join(held) or 'nobody'}")
    print(f"started, in order: {', '.join(names[job_id] for _, job_id in sim.starts)}")
    print(f"writes:            {len(sim.writes)} ({sum(change.hold for change in sim.writes)} holds)")
    print("run: done; nothing is left behind", flush=True)


ARRIVALS = {0: first_team, 2: other_teams}

if __name__ == "__main__":
    sys.exit(main())

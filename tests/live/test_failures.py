"""Whatever dies in the middle: afterwards every hold is somebody's, ranks are right, and all jobs run."""

from __future__ import annotations

import random
import signal
import time
from dataclasses import dataclass, field
from itertools import pairwise

import pytest

from tests.live.policies import gpu_pool, quota
from tests.live.site import STATE, Site

POLICY = gpu_pool(
    quota("vision", deserved=16, policy="fifo"),
    quota("speech", deserved=8, policy="round_robin"),
    quota("llm", "llm-pretrain", deserved=8, policy="fifo"),
    pool=("place_grace: 10s",),
)
USERS = ("ann", "bob", "eve", "finn", "cid")
SHAPES = (["--gpus=1"], ["--gpus=2"], ["--gpus=4"], ["--gpus=8", "-N1"], ["--gpus=1", "--array=0-2%2"],
          ["--gpus=1", "-p", "train,interactive"])  # fmt: skip
N_KILLS = 30


@dataclass
class Load:
    """Jobs that come and go, and among them holds of others."""

    site: Site
    chance: random.Random = field(default_factory=lambda: random.Random(20))
    ours: list[int] = field(default_factory=list)
    foreign: list[int] = field(default_factory=list)

    def begin(self) -> None:
        """Submit a queue several times as large as the cluster, and jobs that others hold."""
        site = self.site
        self.foreign = [
            site.submit("--gpus=1", "--hold", user="ann"),
            site.submit("--gpus=1", "--hold", user="eve"),
        ]
        site.lab.run(
            ["scontrol", "update", f"JobId={self.foreign[1]}", "Priority=0", "AdminComment=ticket 17"]
        )
        self.before = site.records(self.foreign)
        for user in USERS:
            self.submit(12, user)

    def submit(self, n: int, user: str) -> None:
        rows = [self.chance.choice(SHAPES) for _ in range(n)]
        self.ours += self.site.submit_many(rows, user=user, seconds=self.chance.randint(1, 3))

    def more(self) -> None:
        self.submit(2, self.chance.choice(USERS))

    def waiting(self) -> list[int]:
        """Return the records that have not run, waiting rests of arrays too."""
        known = set(self.ours)
        return [job.job_id for job in self.site.jobs().values() if job.array_id in known and not job.nodes]


@pytest.fixture
def load(site: Site) -> Load:
    site.interval_s = 0.5
    site.write_policy(POLICY)
    return Load(site)


def look_over(site: Site, load: Load) -> None:
    """Check holds and ranks under a daemon that runs, then that every job of the load runs."""
    site.wait_cycles(4)
    assert site.records(load.foreign) == load.before
    site.wait(lambda: not unknown_holds(site, load), "no hold without an owner", 20)
    site.wait(lambda: ranks_fall(site), "ranks along our order", 20)
    site.wait(lambda: not load.waiting(), "all jobs have started", 150)
    assert site.records(load.foreign) == load.before


def unknown_holds(site: Site, load: Load) -> list[int]:
    """Return our jobs at priority 0 that carry no hold of ours, and running ones that would be held after a requeue."""
    jobs = [job for job in site.jobs().values() if job.job_id not in load.foreign and job.priority == 0]
    return [
        job.job_id
        for job in jobs
        if job.state == "RUNNING"
        or (job.state == "PENDING" and (job.reason, job.admin_comment) != ("JobHeldAdmin", "slurmfair:hold"))
    ]


def ranks_fall(site: Site) -> bool:
    """Whether Slurm's priorities fall along the places that the daemon published."""
    rows = [row for row in site.published().values() if row["place"] > 0]
    priorities = [row["priority"] for row in sorted(rows, key=lambda row: row["place"])]
    return all(above > below > 1 for above, below in pairwise(priorities))


def test_after_thirty_kills_in_the_middle_and_a_lost_state_file_all_is_in_order(
    site: Site, load: Load
) -> None:
    load.begin()
    began_s = time.monotonic()
    site.start()
    first_cycle_s = time.monotonic() - began_s
    site.stop(signal.SIGKILL)
    for turn in range(N_KILLS):
        load.more()
        site.start(ready=False)
        time.sleep(load.chance.uniform(0.5, 1.5) * first_cycle_s)
        site.stop(signal.SIGKILL)
        if turn == N_KILLS // 2:
            site.lab.run(["sh", "-c", f"rm -f {STATE}/state.db*"])
    site.start()
    look_over(site, load)


def test_slurmctld_restarted_five_times_in_the_middle_of_cycles(site: Site, load: Load) -> None:
    load.begin()
    site.start()
    for _ in range(5):
        load.more()
        time.sleep(load.chance.uniform(0.5, 1.5))
        site.lab.restart_service("slurmctld")
        site.wait_cycles(1)
    site.lab.wait_nodes(("idle", "mixed", "allocated", "completing", "planned"))
    look_over(site, load)


def test_munge_and_slurmdbd_away_for_many_cycles(site: Site, load: Load) -> None:
    fillers = site.fill(
        32, user="dora"
    )  # no job may end meanwhile: Slurm's own nodes are slow to get over that
    load.begin()
    site.start()
    site.lab.stop_service("slurmdbd")
    site.wait_cycles(6)
    site.lab.stop_service("munged")
    site.wait(lambda: "Slurm does not answer" in site.daemon_log(), "it says that munge is away")
    assert "systemctl start munge" in site.daemon_log()
    last_s, written = site.last_cycle_s(), len(site.our_updates())
    time.sleep(8 * site.interval_s)
    assert site.alive() and site.last_cycle_s() == last_s and len(site.our_updates()) == written
    site.lab.start_service("munged")
    site.wait_cycles(2)
    site.lab.start_service("slurmdbd")
    load.more()
    site.end(*fillers)
    look_over(site, load)

"""Jobs start in our order, whatever Slurm's own factors say."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime
from itertools import cycle, islice, pairwise

import pytest

from tests.live.policies import LEVELS, gpu_pool, quota
from tests.live.site import Site

POLICY = gpu_pool(
    quota("vision", deserved=16, policy="round_robin"),
    quota("speech", deserved=16, policy="round_robin"),
    top=(LEVELS,),
)
N_SLOTS, N_JOBS = 32, 30
QOS, LEVEL = ("normal", "scavenger", "urgent"), {"urgent": 9, "normal": 5, "scavenger": 1}
WEIGHTS = ("Age", "Fairshare", "QOS", "JobSize")


def submit_mixed_jobs(site: Site, pause_s: float = 0) -> list[int]:
    """Submit one-node jobs of two users, three QOS and several sizes; return them in the order we want.

    Half of them is submitted when the others have waited for some seconds in Slurm's eyes.
    """
    kinds = islice(zip(cycle(QOS), cycle(("ann", "ann", "bob", "bob", "bob")), cycle((1, 4, 2, 3))), N_JOBS)
    jobs: list[tuple[int, int]] = []
    for number, (qos, user, cpus) in enumerate(kinds):
        if number == N_JOBS // 2 and pause_s:
            site.wait(lambda: has_age(site, jobs[-1][1], pause_s), "age")
        row = [f"--qos={qos}", "-N1", "--gpus=1", f"--cpus-per-task={cpus}"]
        jobs.append((-LEVEL[qos], *site.submit_many([row], user=user)))
    return [job for _, job in sorted(jobs)]


def has_age(site: Site, job: int, at_least_s: float) -> bool:
    """Whether Slurm has counted the job's wait for so long: its age begins when the scheduler first looks at it."""
    since = site.lab.show_job(job)["AccrueTime"]
    return since != "Unknown" and time.time() - datetime.fromisoformat(since).timestamp() > at_least_s


def free_slots_one_by_one(site: Site, fillers: list[int], every_s: float = 0.3) -> None:
    """End the jobs that fill the cluster, one after the other."""
    argv = ["sh", "-ec", f'for job; do scancel "$job"; sleep {every_s}; done', "sh", *map(str, fillers)]
    site.lab.run(argv, timeout=120)


def ranked(site: Site, wanted: list[int]) -> bool:
    """Whether Slurm's priorities fall along the wanted order, strictly."""
    jobs = site.jobs()
    priorities = [jobs[one].priority for one in wanted]
    return all(above > below > 1 for above, below in pairwise(priorities))


def test_thirty_jobs_start_exactly_in_our_order_as_slots_free_one_by_one(site: Site) -> None:
    site.write_policy(POLICY)
    fillers = site.fill(N_SLOTS, user="eve")
    wanted = submit_mixed_jobs(site)
    site.start()
    site.wait(lambda: ranked(site, wanted), "ranks in our order")
    free_slots_one_by_one(site, fillers)
    site.wait(lambda: len(site.running(wanted)) == N_JOBS, "all thirty run")
    starts = site.start_s(wanted)
    assert starts == sorted(starts)
    assert starts[-1] - starts[0] > 5, "the slots did not free one by one"


@pytest.fixture
def own_weights(site: Site) -> Iterator[None]:
    """Slurm's own factors at work, against our order: the least urgent QOS and the smaller users first."""
    conf = {f"PriorityWeight{name}": "10000" for name in WEIGHTS} | {"PriorityMaxAge": "00:01:00"}
    for qos, priority in (("scavenger", 100), ("normal", 50)):
        site.lab.run(["sacctmgr", "-i", "modify", "qos", qos, "set", f"priority={priority}"])
    site.lab.set_conf(conf)
    yield
    site.stop()
    site.lab.set_conf({name: "0" if "Weight" in name else None for name in conf})
    site.lab.run(["sacctmgr", "-i", "modify", "qos", "scavenger,normal", "set", "priority=0"])


@pytest.mark.usefixtures("own_weights")
def test_slurms_own_weights_never_swap_two_of_our_jobs(site: Site) -> None:
    site.write_policy(POLICY)
    fillers = site.fill(N_SLOTS, user="eve")
    wanted = submit_mixed_jobs(site, pause_s=3)
    site.start()
    site.wait(lambda: ranked(site, wanted), "ranks in our order")
    rows = [row.split() for row in site.lab.run(["sprio", "-h", "-o", "%i %A %F %J %Q"]).stdout.splitlines()]
    for name, factor in zip(
        ("age", "fair-share", "size", "QOS"), list(zip(*rows, strict=True))[1:], strict=True
    ):
        assert len(set(factor)) > 1, f"the test needs different {name} factors, all are {factor[0]}"
    free_slots_one_by_one(site, fillers)
    site.wait(lambda: len(site.running(wanted)) == N_JOBS, "all thirty run")
    starts = site.start_s(wanted)
    assert starts == sorted(starts)
    assert starts[-1] - starts[0] > 5, "the slots did not free one by one"


def test_the_priority_channel_pins_ranks_and_gives_released_jobs_theirs_too(site: Site) -> None:
    site.write_policy(
        "ranks: {channel: priority}\n" + POLICY.lstrip().replace("policy: round_robin", "policy: fifo")
    )
    fillers = site.fill(N_SLOTS, user="cid")
    first, held = site.submit("--gpus=8", "-N1", user="ann"), site.submit("--gpus=1", "--nice=5", user="bob")
    urgent = site.submit("--gpus=1", "--qos=urgent", user="finn")
    site.start()
    site.wait(lambda: site.held_by_us([held]), "held behind the head of its quota")
    site.wait(
        lambda: site.jobs()[first].priority > 1000 and site.jobs()[urgent].priority > 1000, "both pinned"
    )
    sprio = site.lab.run(["sprio", "-h", "-o", "%i %S"]).stdout.split()
    assert set(sprio[1::2]) == {"0"}, "no site factor"
    site.end(*fillers)
    site.wait(lambda: len(site.running([first, urgent, held])) == 3, "all run")
    assert site.jobs()[held].priority > 1000


def test_jobs_submitted_one_after_the_other_wait_in_that_order_whenever_slurm_looked_at_them(
    site: Site,
) -> None:
    site.write_policy(POLICY.replace("policy: round_robin", "policy: fifo"))
    site.fill(N_SLOTS - 2, user="cid")
    array = site.submit("--gpus=1", "--array=0-5", user="ann")
    plain = site.submit("--gpus=1", user="bob")
    site.wait(
        lambda: len(site.array_tasks(array)) == 2, "its tasks change when Slurm calls the rest eligible"
    )
    site.start()
    site.wait(lambda: site.held_by_us([array, plain]) == [plain], "the array is the head")
    assert [site.row(job)["order_s"] for job in (array, plain)] == [
        site.row(job)["submit_s"] for job in (array, plain)
    ]

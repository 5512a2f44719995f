"""As few writes as possible, and none where none is due; counted by slurmctld itself."""

from __future__ import annotations

from tests.live.policies import gpu_pool, quota
from tests.live.site import Site

POLICY = gpu_pool(
    quota("vision", deserved=16, policy="fifo"),
    quota("speech", deserved=16, policy="round_robin"),
)
N_GPUS = 32


def waiting_jobs(site: Site) -> list[int]:
    """Fill the cluster with jobs of no quota, and return jobs that wait: of a FIFO quota, of a Round Robin one, and an array."""
    site.write_policy(POLICY)
    site.fill(N_GPUS, user="cid")
    jobs = [
        *site.submit_many([["--gpus=2"]] * 5, user="ann"),
        *site.submit_many([["--gpus=1"]] * 5, user="finn"),
        site.submit("--gpus=1", "--array=0-9%2", user="bob"),
    ]
    site.wait(lambda: all(looked_at(one) for one in site.records(jobs).values()), "Slurm has seen them all")
    return jobs


def looked_at(record: dict[str, str]) -> bool:
    return record["EligibleTime"] != "Unknown"


def our_requests(site: Site) -> tuple[int, int]:
    """Return how many job updates slurmctld has served, and how many requests of any kind by our account."""
    stats = site.lab.sdiag()
    return stats["by_type"].get("REQUEST_UPDATE_JOB", 0), stats["by_user"].get("slurmfair", 0)


def test_a_cycle_in_which_nothing_changed_writes_nothing(site: Site) -> None:
    waiting = waiting_jobs(site)
    site.start()
    site.wait(lambda: len(site.held_by_us(waiting)) == 5, "all behind the head of the FIFO quota are held")
    site.wait_cycles(2)
    updates, requests = our_requests(site)
    assert updates >= len(waiting)
    site.wait_cycles(10)
    later_updates, later_requests = our_requests(site)
    assert later_updates == updates
    assert later_requests > requests, "the daemon went on reading"


def test_shadow_never_writes_but_publishes_what_it_would(site: Site) -> None:
    waiting = waiting_jobs(site)
    before, _ = our_requests(site)
    records = site.records(waiting)
    site.start("--shadow")
    site.submit("--gpus=1", user="bob")
    site.wait_cycles(5)
    site.stop()
    after, requests = our_requests(site)
    assert after == before and requests > 0
    assert not site.our_updates() and site.records(waiting) == records
    assert set(waiting) <= set(site.published())
    assert not site.lab.path("/run/slurmfair/heartbeat").exists(), "the gate would wait for its decisions"


def test_plan_shows_the_changes_and_why_and_writes_nothing(site: Site) -> None:
    waiting = waiting_jobs(site)
    before, records = site.writes(), site.records(waiting)
    printed = site.report("slurmfair", "plan", user="slurmfair").splitlines()
    assert site.writes() == before and site.records(waiting) == records
    assert not site.lab.path("/var/lib/slurmfair/state.db").exists()
    shown = {int(line.split()[0]): line for line in printed[:-1]}
    assert set(shown) == set(waiting)
    assert "hold" in shown[waiting[1]] and "rank" in shown[waiting[0]]
    assert printed[-1].startswith(f"{len(waiting)} changes, {len(waiting)} jobs wait")


def test_a_job_that_has_to_wait_costs_two_writes_in_its_life(site: Site) -> None:
    site.write_policy(POLICY)
    fillers = site.fill(N_GPUS, user="cid")
    head, job = site.submit("--gpus=8", "-N1", user="ann"), site.submit("--gpus=1", user="ann")
    site.start()
    site.wait(lambda: site.held_by_us([job]), "held")
    site.end(*fillers)
    site.wait(lambda: len(site.running([head, job])) == 2, "both run")
    assert [update.job_id for update in site.our_updates()].count(job) == 2

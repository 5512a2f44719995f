"""The daemon's own cycle against the simulated cluster: what issue 2 asks to be seen on a real one, in memory."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from slurmfair.config import Config
from slurmfair.config_file import parse_policy
from slurmfair.cycle import Channel, Cycle, look_at, run_cycle
from slurmfair.memory import Memory
from slurmfair.sim import After, JobSpec, Rules, SimCluster
from slurmfair.sim.job import Job
from slurmfair.slurm.parse import BaseState, Tag
from slurmfair.unfit import SURE_AFTER
from tests.sim_lab import HOUR_S, fill, lab, started, submit

EVERY_S = 10
POLICY = """
version: 1
ranks: {{channel: {channel}}}
job_priority: {{qos: {{urgent: 9, normal: 5, scavenger: 1}}, default: 5}}
pools:
  h100:
    partitions: [train, interactive]
    quotas:
      vision: {{match: {{accounts: [vision]}}, deserved: 16, policy: {policy}}}
      llm: {{match: {{accounts: [llm]}}, deserved: 16, policy: {policy}}}
"""


class Daemon:
    """Cycles at their interval, and memory between them."""

    def __init__(self, sim: SimCluster, policy: str = "fifo", channel: str = "site_factor") -> None:
        self.sim = sim
        self.config: Config = parse_policy(POLICY.format(policy=policy, channel=channel), "test")
        self.memory = Memory()

    def cycle(self) -> Cycle:
        """Read, decide, write."""
        weights = self.sim.settings().weight_sum
        channel = Channel(weights, self.config.ranks.channel == "site_factor")
        cycle = run_cycle(
            look_at(self.sim.read(), self.config, self.memory), self.config, channel, self.memory
        )
        done = [change for change in cycle.changes if self.sim.write(change).ok]
        self.memory = cycle.memory_after(done)
        return cycle

    def run(self, for_s: int) -> None:
        """Let time pass, with a cycle every ten seconds, the first at once."""
        end_s = self.sim.now_s + for_s
        while self.sim.now_s < end_s:
            self.cycle()
            self.sim.advance(EVERY_S)


def blocked_head(policy: str) -> tuple[Daemon, int, list[int]]:
    """Return three nodes full for 10 min, half of the fourth for 5, a head that needs a node, and five small jobs."""
    sim = lab()
    fill(sim, 8, 8, 8, duration_s=600)
    fill(sim, 4, duration_s=300)
    daemon = Daemon(sim, policy)
    sim.admin.gate("train", "interactive")
    head = submit(sim, gpus=8, gpu_type="h100", duration_s=HOUR_S)
    small = [submit(sim, gpus=1, duration_s=60, time_limit_s=120) for _ in range(4)]
    daemon.run(200)
    return daemon, head, small


def test_fifo_a_blocked_head_keeps_smaller_jobs_that_would_fit_waiting_until_it_starts() -> None:
    daemon, head, small = blocked_head("fifo")
    sim = daemon.sim
    assert not {head, *small} & set(started(sim))
    assert all(sim.job(job_id).reason == "JobHeldAdmin" for job_id in small)
    daemon.run(600)
    order = [job_id for job_id in started(sim) if job_id in {head, *small}]
    assert order == [head, *small]
    assert len({time_s for time_s, job_id in sim.starts if job_id in small}) == 1


def test_round_robin_the_same_queue_starts_the_small_jobs_at_once() -> None:
    daemon, head, small = blocked_head("round_robin")
    assert set(small) <= set(started(daemon.sim))
    assert head not in started(daemon.sim)


def test_a_prefix_of_ten_fitting_jobs_starts_in_one_cycle() -> None:
    sim = lab()
    sim.admin.gate("train")
    ids = [submit(sim, gpus=2) for _ in range(10)]
    daemon = Daemon(sim)
    daemon.cycle()
    sim.advance(EVERY_S)
    assert started(sim) == ids


@pytest.mark.parametrize(
    "weights", [{}, {"Age": 10_000, "QOS": 10_000, "Fairshare": 10_000, "JobSize": 10_000}]
)
@pytest.mark.parametrize("channel", ["site_factor", "priority"])
def test_jobs_start_exactly_in_our_order_as_slots_fall_free_one_by_one(
    weights: dict[str, int], channel: str
) -> None:
    sim = lab(Rules(weights=weights, max_age_s=600), channel=channel)
    for i in range(4):
        fill(sim, 8, duration_s=120 + 60 * i)
    rng = np.random.default_rng(3)
    ids: dict[int, int] = {}
    for _ in range(30):
        factors = {name: float(rng.random()) for name in weights if name != "Age"}
        qos = ("urgent", "normal", "scavenger")[rng.integers(3)]
        ids[submit(sim, gpus=8, duration_s=300, time_limit_s=HOUR_S, factors=factors, qos=qos)] = {
            "urgent": 9, "normal": 5, "scavenger": 1,
        }[qos]  # fmt: skip
        sim.advance(1)
    Daemon(sim, "round_robin", channel).run(HOUR_S)
    assert [job_id for job_id in started(sim) if job_id in ids] == sorted(ids, key=lambda i: (-ids[i], i))


def facts(job: Job) -> tuple[object, ...]:
    return job.state, job.priority, job.site_factor, job.nice, job.admin_comment, job.reason, job.pinned


def test_nobody_elses_holds_and_jobs_are_touched_in_20_cycles() -> None:
    sim = lab()
    fill(sim, 8, 8, 8, 8, duration_s=10 * HOUR_S)
    launch = submit(sim, partition="cpu", gpus=0)
    sim.advance(2)
    foreign = {
        "owner": submit(sim, hold=True),
        "uhold": submit(sim),
        "admin": submit(sim),
        "dependency": submit(sim, after=(After(1),)),
        "begin": submit(sim, begin_s=sim.now_s + 5 * HOUR_S),
        "reservation": submit(sim, reservation="maint"),
        "cron": submit(sim, cron=True, begin_s=sim.now_s + 5 * HOUR_S),
        "cpu": launch,
    }
    sim.admin.uhold(foreign["uhold"])
    sim.admin.hold(foreign["admin"])
    sim.admin.requeue(launch, held=True)
    sim.advance(2)
    before = {name: facts(sim.job(job_id)) for name, job_id in foreign.items()}
    ours = [submit(sim, nice=7) for _ in range(3)]
    Daemon(sim).run(20 * EVERY_S)
    assert {name: facts(sim.job(job_id)) for name, job_id in foreign.items()} == before
    assert not {change.job_id for change in sim.writes} & set(foreign.values())
    assert {change.job_id for change in sim.writes} == set(ours)
    assert all(sim.job(job_id).nice == 7 for job_id in ours)


def test_an_admins_release_of_our_hold_is_respected() -> None:
    daemon, head, small = blocked_head("fifo")
    daemon.sim.admin.release(small[2])
    daemon.run(60)
    assert small[2] in started(daemon.sim)
    assert head not in started(daemon.sim)


def test_a_cycle_in_which_nothing_changed_writes_nothing() -> None:
    daemon, _, _ = blocked_head("fifo")
    written = len(daemon.sim.writes)
    daemon.run(60)
    assert len(daemon.sim.writes) == written


def test_with_the_gate_a_job_costs_one_write_when_it_may_start_at_once() -> None:
    sim = lab()
    sim.admin.gate("train")
    ids = [submit(sim, gpus=8, gpu_type="h100", duration_s=300) for _ in range(3)]
    Daemon(sim, "round_robin").run(100)
    assert sorted(change.job_id for change in sim.writes) == ids
    assert all(sim.job(job_id).tag is Tag.FREE for job_id in ids)


def test_a_job_that_started_just_before_our_hold_is_released_and_not_disturbed() -> None:
    sim = lab()
    fill(sim, 8, 8, 8, duration_s=HOUR_S)
    daemon = Daemon(sim)
    head = submit(sim, gpus=8, nodes=2, duration_s=600)
    late = submit(sim, gpus=1, duration_s=600)
    reading = sim.read()
    cycle = run_cycle(
        look_at(reading, daemon.config, daemon.memory), daemon.config, Channel(0), daemon.memory
    )
    sim.owner.hold(head)
    sim.advance(2)
    assert sim.job(late).state == BaseState.RUNNING
    for change in cycle.changes:
        sim.write(change)
    assert sim.job(late).priority == 0
    daemon.run(20)
    assert sim.job(late).state == BaseState.RUNNING
    assert sim.job(late).priority > 0


def test_quotas_share_the_pool_and_all_jobs_run_once() -> None:
    sim = lab()
    sim.admin.gate("train", "interactive")
    daemon = Daemon(sim, "balance")
    rng = np.random.default_rng(7)
    ids = []
    for i in range(60):
        spec = JobSpec(
            account=("vision", "llm")[i % 2],
            gpus=int(rng.integers(1, 9)),
            partition=("train", "interactive", "train,interactive")[i % 3],
            duration_s=int(rng.integers(30, 600)),
            time_limit_s=900,
        )
        ids.append(sim.submit(replace(spec, gpus=min(spec.gpus, 8))))
        daemon.run(10)
    daemon.run(3 * HOUR_S)
    assert sorted(started(sim)) == ids
    assert len(sim.writes) < 4 * len(ids)


def test_arrays_and_heterogeneous_jobs_run_and_no_array_is_split_by_us() -> None:
    sim = lab()
    sim.admin.gate("train")
    array = submit(sim, gpus=2, array=tuple(range(20)), throttle=4, duration_s=60)
    het = sim.submit_het([JobSpec(gpus=8, duration_s=60), JobSpec(gpus=4, duration_s=60)])
    daemon = Daemon(sim, "round_robin")
    daemon.run(1200)
    assert set(het) <= set(started(sim))
    assert len(started(sim)) == 22
    assert {change.job_id for change in sim.writes} <= {array, *het}


@pytest.mark.parametrize("channel", ["site_factor", "priority"])
def test_an_array_never_passes_its_quotas_limit_between_two_cycles(channel: str) -> None:
    sim = lab(channel=channel)
    sim.admin.gate("train")
    array = submit(sim, gpus=1, array=tuple(range(50)), throttle=20, duration_s=35)
    other = submit(sim, gpus=3, duration_s=100)
    text = POLICY.format(policy="round_robin", channel=channel)
    daemon = Daemon(sim, "round_robin", channel)
    daemon.config = parse_policy(text.replace("deserved: 16", "deserved: 8, limit: 8", 1), "test")
    most, bounds = 0, [20]
    for _ in range(120):
        daemon.cycle()
        for _ in range(EVERY_S):
            sim.advance(1)
            jobs = list(sim.ctl.jobs.values())
            bounds = [sim.ctl.throttle(job) for job in jobs if job.array_id == array] or bounds
            most = max(most, sum(job.spec.gpus for job in jobs if job.base == BaseState.RUNNING))
    assert most == 8
    assert len(started(sim)) == 51
    assert {change.job_id for change in sim.writes} == {array, other}
    assert set(bounds) == {20}, "the user's own bound, at the end"


def test_what_can_never_fit_is_cancelled_where_the_policy_says_so_and_running_tasks_of_it_go_on() -> None:
    sim = lab()
    daemon = Daemon(sim, "fifo")
    text = POLICY.format(policy="fifo, on_never_fit: cancel", channel="site_factor")
    daemon.config = parse_policy(text, "test")
    array = submit(sim, gpus=4, array=tuple(range(20)), duration_s=HOUR_S)
    small = submit(sim, gpus=2, duration_s=HOUR_S)
    daemon.run(60)
    tasks = [job for job in sim.ctl.jobs.values() if job.array_id == array]
    n_running = sum(job.base == BaseState.RUNNING for job in tasks)
    assert 0 < n_running < 20
    daemon.config = parse_policy(text.replace("deserved: 16", "deserved: 2, limit: 2"), "test")
    daemon.run(SURE_AFTER * EVERY_S)
    assert any(job.waits for job in sim.ctl.jobs.values() if job.array_id == array), "not yet"
    daemon.run(2 * EVERY_S)
    tasks = [job for job in sim.ctl.jobs.values() if job.array_id == array]
    assert sum(job.base == BaseState.RUNNING for job in tasks) == n_running
    assert sum(job.waits for job in tasks) == 0
    assert sim.ctl.jobs[small].waits, "it fits the limit"


@pytest.mark.parametrize("away", [False, True])
def test_a_limit_that_was_wrong_for_some_cycles_cancels_nothing_not_even_what_was_held_already(
    away: bool,
) -> None:
    sim = lab()
    fill(sim, 8, 8, 8, 8, duration_s=HOUR_S)
    daemon = Daemon(sim)
    text = POLICY.format(policy="fifo, on_never_fit: cancel", channel="site_factor")
    right, wrong = (
        parse_policy(text, "test"),
        parse_policy(text.replace("deserved: 16", "deserved: 1, limit: 1"), "test"),
    )
    daemon.config = right
    waiting = [submit(sim, gpus=4) for _ in range(3)]
    daemon.run(30)
    for _ in range(3):
        daemon.config = wrong
        daemon.run((SURE_AFTER - 1) * EVERY_S)
        if away:
            sim.advance(SURE_AFTER * EVERY_S)
        assert [pool.memory.unfit.entry_id.tolist() for pool in daemon.cycle().pools] == [waiting]
        daemon.config = right
        daemon.run(10)
    assert all(sim.ctl.jobs[job_id].waits for job_id in waiting)

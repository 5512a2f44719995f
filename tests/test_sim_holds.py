"""Priorities and holds in the simulated cluster: each test is a statement of SLURM.md that was tried on the real one."""

from __future__ import annotations

import pytest

from slurmfair.errors import SlurmRefused, SlurmUnavailable
from slurmfair.model import Change
from slurmfair.sim import After, JobSpec, Rules
from slurmfair.slurm.cluster import Result
from slurmfair.slurm.parse import BaseState
from tests.sim_lab import fill, lab, started, submit, write

WEIGHTS = Rules(weights={"Age": 10_000, "QOS": 10_000})
GATE, HOLD, FREE = "slurmfair:gate", "slurmfair:hold", "slurmfair:free"


def test_a_new_job_has_priority_1_with_all_weights_0() -> None:
    sim = lab()
    assert sim.job(submit(sim)).priority == 1


def test_site_factor_100_gives_100_and_with_nice_3_it_gives_97() -> None:
    sim = lab()
    assert sim.job(submit(sim, rank=100)).priority == 100
    assert sim.job(submit(sim, rank=100, nice=3)).priority == 97


def test_arithmetic_never_gives_less_than_1() -> None:
    sim = lab()
    assert sim.job(submit(sim, rank=5, nice=1000)).priority == 1


def test_own_factors_are_added_to_the_site_factor() -> None:
    sim = lab(WEIGHTS)
    assert sim.job(submit(sim, rank=500, factors={"QOS": 0.25})).priority == 3000


def test_a_pinned_job_stays_while_its_neighbour_rises_with_age() -> None:
    sim = lab(WEIGHTS)
    fill(sim, 8, 8, 8, 8)
    pinned, other = submit(sim), submit(sim)
    sim.admin.set_priority(pinned, 5000)
    before = sim.job(other).priority
    sim.advance(3000)
    assert sim.job(pinned).priority == 5000
    assert sim.job(other).priority > before


def test_the_pin_survives_a_requeue() -> None:
    sim = lab()
    job_id = submit(sim)
    sim.admin.set_priority(job_id, 4242)
    sim.advance(5)
    assert sim.admin.requeue(job_id) == 0
    assert (sim.job(job_id).priority, sim.job(job_id).pinned) == (4242, True)


def test_the_pin_is_lost_at_a_hold_followed_by_a_release() -> None:
    sim = lab()
    fill(sim, 8, 8, 8, 8)
    job_id = submit(sim, rank=5000)
    sim.admin.set_priority(job_id, 5001)
    sim.owner.hold(job_id)
    sim.owner.release(job_id)
    assert sim.job(job_id).priority == 5000


def test_a_pinned_job_ignores_nice_and_site_factor() -> None:
    sim = lab()
    job_id = submit(sim)
    sim.admin.set_priority(job_id, 777)
    write(sim, job_id, rank=5)
    sim.owner.set_nice(job_id, 9)
    assert sim.job(job_id).priority == 777


def test_writing_a_priority_resets_nice_and_unpinning_does_not_bring_it_back() -> None:
    sim = lab()
    job_id = submit(sim, nice=50)
    sim.admin.set_priority(job_id, 777)
    sim.admin.release(job_id)
    assert (sim.job(job_id).nice, sim.job(job_id).pinned) == (0, False)


def test_writing_the_present_priority_pins_nothing() -> None:
    sim = lab()
    job_id = submit(sim, rank=500, nice=2)
    sim.admin.set_priority(job_id, 498)
    assert (sim.job(job_id).pinned, sim.job(job_id).nice) == (False, 2)


def test_release_of_a_pinned_unheld_job_returns_it_to_its_factors() -> None:
    sim = lab()
    job_id = submit(sim, rank=300)
    sim.admin.set_priority(job_id, 9)
    assert write(sim, job_id, release=True) is Result.OK
    assert sim.job(job_id).priority == 300


def test_the_owners_release_of_an_unheld_pinned_job_changes_nothing() -> None:
    sim = lab()
    job_id = submit(sim, rank=300)
    sim.admin.set_priority(job_id, 9)
    assert sim.owner.release(job_id) == 0
    assert sim.job(job_id).priority == 9


def test_4294967294_is_silently_ignored() -> None:
    sim = lab()
    job_id = submit(sim, rank=300)
    assert sim.admin.set_priority(job_id, 4294967294) == 0
    assert (sim.job(job_id).priority, sim.job(job_id).pinned) == (300, False)


def test_an_owners_lower_priority_is_applied_although_the_call_fails() -> None:
    sim = lab()
    job_id = submit(sim)
    sim.admin.set_priority(job_id, 5001)
    assert sim.owner.set_priority(job_id, 10) == 2095
    assert sim.job(job_id).priority == 10
    assert sim.owner.set_priority(job_id, 9000) == 2095
    assert sim.job(job_id).priority == 10


def test_priority_0_by_an_admin_gives_an_admin_hold_that_the_owner_cannot_release() -> None:
    sim = lab()
    job_id = submit(sim)
    write(sim, job_id, hold=True)
    assert sim.job(job_id).reason == "JobHeldAdmin"
    assert sim.owner.release(job_id) == 2002
    assert sim.job(job_id).held


def test_uhold_by_an_admin_gives_a_user_hold_that_the_owner_can_release() -> None:
    sim = lab()
    job_id = submit(sim)
    sim.admin.uhold(job_id)
    assert sim.job(job_id).reason == "JobHeldUser"
    assert sim.owner.release(job_id) == 0
    assert not sim.job(job_id).held


@pytest.mark.parametrize("by", ["admin", "owner"])
def test_a_priority_for_a_held_job_is_refused_with_2042_and_nothing_changes(by: str) -> None:
    sim = lab(channel="priority")
    job_id = submit(sim)
    (sim.admin if by == "admin" else sim.owner).hold(job_id)
    reason = sim.job(job_id).reason
    answer = sim.write(Change(job_id, rank=5000))
    assert (answer.result, answer.error) == (Result.REREAD, 2042)
    assert (sim.job(job_id).priority, sim.job(job_id).reason) == (0, reason)


def test_priority_0_by_an_admin_on_a_user_hold_silently_makes_it_an_admin_hold() -> None:
    sim = lab()
    job_id = submit(sim, hold=True)
    assert sim.job(job_id).reason == "JobHeldUser"
    write(sim, job_id, hold=True)
    assert sim.job(job_id).reason == "JobHeldAdmin"
    assert sim.owner.release(job_id) == 2002


def test_release_by_an_admin_undoes_user_holds_too() -> None:
    sim = lab()
    job_id = submit(sim, hold=True)
    write(sim, job_id, release=True)
    assert not sim.job(job_id).held


def test_an_owners_hold_on_top_of_an_admin_hold_is_not_recorded_and_our_release_starts_the_job() -> None:
    sim = lab()
    job_id = submit(sim)
    write(sim, job_id, hold=True)
    assert sim.owner.hold(job_id) == 0
    assert sim.job(job_id).reason == "JobHeldAdmin"
    write(sim, job_id, release=True)
    sim.advance(5)
    assert started(sim) == [job_id]


def test_another_admins_hold_on_top_of_ours_shows_nothing_but_uhold_does() -> None:
    sim = lab()
    job_id = submit(sim)
    write(sim, job_id, hold=True, tag=HOLD)
    sim.admin.hold(job_id)
    assert (sim.job(job_id).reason, sim.job(job_id).admin_comment) == ("JobHeldAdmin", HOLD)
    sim.admin.uhold(job_id)
    assert sim.job(job_id).reason == "JobHeldUser"


def test_a_hold_of_a_running_job_is_accepted_and_takes_effect_at_its_requeue() -> None:
    sim = lab()
    job_id = submit(sim)
    sim.advance(5)
    assert write(sim, job_id, hold=True, tag=HOLD) is Result.OK
    job = sim.job(job_id)
    assert (job.state, job.priority, job.reason) == (BaseState.RUNNING, 0, "JobHeldAdmin")
    sim.admin.requeue(job_id)
    sim.advance(1000)
    assert (job.state, job.priority, job.reason) == (BaseState.PENDING, 0, "JobHeldAdmin")


def test_releasing_a_running_job_restores_its_priority_and_does_not_disturb_it() -> None:
    sim = lab()
    job_id = submit(sim, rank=4000)
    sim.advance(5)
    write(sim, job_id, hold=True, tag=HOLD)
    assert write(sim, job_id, release=True, tag=FREE) is Result.OK
    assert (sim.job(job_id).state, sim.job(job_id).priority) == (BaseState.RUNNING, 4000)


def test_a_released_job_with_a_dependency_goes_back_to_dependency_and_one_with_a_begin_time_keeps_that() -> (
    None
):
    sim = lab()
    first = submit(sim)
    child = submit(sim, after=(After(first),))
    later = submit(sim, begin_s=sim.now_s + 1000)
    for job_id in (child, later):
        write(sim, job_id, hold=True)
        write(sim, job_id, release=True)
    sim.advance(5)
    assert (sim.job(child).reason, sim.job(later).reason) == ("Dependency", "BeginTime")
    assert started(sim) == [first]


def test_a_hold_clears_eligible_time_and_a_release_begins_it_anew_but_submit_time_stays() -> None:
    sim = lab()
    fill(sim, 8, 8, 8, 8)
    job_id = submit(sim)
    submitted = sim.job(job_id).submit_s
    sim.advance(100)
    write(sim, job_id, hold=True)
    assert sim.job(job_id).eligible_s == 0
    sim.advance(100)
    write(sim, job_id, release=True)
    assert sim.job(job_id).eligible_s == 0
    sim.advance(2)
    assert sim.job(job_id).eligible_s == submitted + 201
    assert sim.job(job_id).submit_s == submitted


def test_site_factor_survives_hold_and_release_and_can_be_written_while_held() -> None:
    sim = lab()
    fill(sim, 8, 8, 8, 8)
    job_id = submit(sim, rank=400)
    write(sim, job_id, hold=True)
    write(sim, job_id, release=True)
    assert sim.job(job_id).priority == 400
    write(sim, job_id, hold=True)
    write(sim, job_id, rank=600)
    assert sim.job(job_id).held
    write(sim, job_id, release=True)
    assert sim.job(job_id).priority == 600


def test_release_rank_and_tag_go_in_one_request_and_nice_keeps_working() -> None:
    sim = lab()
    fill(sim, 8, 8, 8, 8)
    job_id = submit(sim, nice=9)
    write(sim, job_id, hold=True, tag=HOLD)
    answer = sim.write(Change(job_id, release=True, rank=200, tag=FREE))
    assert (answer.ok, answer.requests) == (True, 1)
    assert (sim.job(job_id).priority, sim.job(job_id).admin_comment) == (191, FREE)


def test_releasing_and_pinning_takes_two_requests() -> None:
    sim = lab(channel="priority")
    fill(sim, 8, 8, 8, 8)
    job_id = submit(sim)
    write(sim, job_id, hold=True)
    answer = sim.write(Change(job_id, release=True, rank=200, tag=FREE))
    assert (answer.ok, answer.requests) == (True, 2)
    assert (sim.job(job_id).priority, sim.job(job_id).pinned) == (200, True)


def test_an_operator_gets_2002_for_the_tag_and_nothing_of_that_request_is_applied() -> None:
    sim = lab()
    job_id = submit(sim, rank=300)
    sim.level = "Operator"
    with pytest.raises(SlurmRefused, match="Administrator"):
        write(sim, job_id, hold=True, tag=HOLD)
    assert sim.job(job_id).priority == 300
    assert write(sim, job_id, hold=True) is Result.OK


def test_every_update_blanks_the_reason_until_the_next_pass() -> None:
    sim = lab()
    fill(sim, 8, 8, 8, 8)
    job_id = submit(sim)
    sim.advance(5)
    assert sim.job(job_id).reason == "Resources"
    write(sim, job_id, rank=300)
    assert sim.job(job_id).reason == "None"
    sim.advance(5)
    assert sim.job(job_id).reason == "Resources"


@pytest.mark.parametrize(
    ("state", "error", "result"),
    [
        ("unknown", 2017, Result.MOVED_ON),
        ("ended", 2084, Result.MOVED_ON),
        ("completing", 2084, Result.MOVED_ON),
        ("cron", 2096, Result.SKIP),
    ],
)
def test_a_job_that_moved_on_or_is_a_cron_job_takes_no_write(state: str, error: int, result: Result) -> None:
    sim = lab(Rules(epilog_s=10 if state == "completing" else 0))
    cron = {"cron": True, "begin_s": sim.now_s + 100} if state == "cron" else {}
    job_id = 99 if state == "unknown" else submit(sim, duration_s=5, **cron)
    sim.advance(8)
    answer = sim.write(Change(job_id, rank=5))
    assert (answer.error, answer.result) == (error, result)


def test_a_requeued_job_takes_writes() -> None:
    sim = lab()
    job_id = submit(sim)
    sim.advance(5)
    sim.admin.requeue(job_id)
    assert write(sim, job_id, rank=5) is Result.OK


def test_an_absent_slurmctld_is_unavailable_for_every_call() -> None:
    sim = lab()
    sim.away = True
    for call in (sim.read, sim.settings, lambda: sim.write(Change(1)), lambda: sim.runs(0, 1)):
        with pytest.raises(SlurmUnavailable):
            call()


def test_the_gate_yields_a_user_hold_with_its_tag() -> None:
    sim = lab()
    sim.admin.gate("train")
    job = sim.job(submit(sim))
    assert (job.priority, job.reason, job.admin_comment) == (0, "JobHeldUser", GATE)
    sim.advance(100)
    assert started(sim) == []


def test_the_gate_leaves_a_users_own_hold_and_other_partitions_alone() -> None:
    sim = lab()
    sim.admin.gate("train")
    assert sim.job(submit(sim, hold=True)).admin_comment == ""
    assert not sim.job(submit(sim, partition="cpu", gpus=0)).held


def test_with_a_stale_heartbeat_submissions_are_untouched() -> None:
    sim = lab()
    sim.admin.gate()
    job_id = submit(sim)
    assert (sim.job(job_id).held, sim.job(job_id).admin_comment) == (False, "")


def test_the_guard_refuses_the_owners_release_of_a_gated_job_but_not_the_daemons() -> None:
    sim = lab()
    sim.admin.gate("train")
    job_id = submit(sim)
    assert sim.owner.release(job_id) != 0
    assert sim.job(job_id).held
    assert write(sim, job_id, release=True, tag=FREE) is Result.OK
    assert not sim.job(job_id).held


def test_the_daemon_turns_a_gated_job_into_an_admin_hold() -> None:
    sim = lab()
    sim.admin.gate("train")
    job_id = submit(sim)
    write(sim, job_id, hold=True, tag=HOLD)
    assert (sim.job(job_id).reason, sim.job(job_id).admin_comment) == ("JobHeldAdmin", HOLD)


def test_a_requeued_job_comes_back_unheld_with_its_old_tag() -> None:
    sim = lab()
    sim.admin.gate("train")
    job_id = submit(sim)
    write(sim, job_id, release=True)
    sim.advance(5)
    sim.admin.requeue(job_id)
    assert (sim.job(job_id).held, sim.job(job_id).admin_comment) == (False, GATE)


def test_a_requeued_job_waits_with_begin_time_and_release_does_not_cut_it_short() -> None:
    sim = lab()
    job_id = submit(sim)
    sim.advance(5)
    sim.admin.requeue(job_id)
    write(sim, job_id, release=True)
    sim.advance(100)
    assert sim.job(job_id).reason == "BeginTime"
    sim.advance(30)
    assert sim.job(job_id).state == BaseState.RUNNING
    assert sim.job(job_id).restarts == 1


def test_requeue_hold_gives_a_user_hold_with_a_text() -> None:
    sim = lab()
    job_id = submit(sim)
    sim.advance(5)
    sim.admin.requeue(job_id, held=True)
    job = sim.job(job_id)
    assert (job.reason, job.reason_text) == ("JobHeldUser", "job requeued in held state")


def test_a_failed_launch_is_requeued_held_with_its_old_tag_and_drains_the_node() -> None:
    sim = lab()
    job_id = submit(sim)
    write(sim, job_id, rank=5, tag=FREE)
    sim.advance(5)
    sim.admin.fail_launch(job_id)
    job = sim.job(job_id)
    assert (job.priority, job.reason, job.reason_text) == (0, "JobHeldUser", "launch failed requeued held")
    assert job.admin_comment == FREE
    assert "DRAIN" in sim.read().nodes.state[sim.read().nodes.name.index("gpu01")]


@pytest.mark.parametrize(("asked", "error"), [({}, 2024), ({"requeue": False}, 2037)])
def test_a_pending_job_and_one_with_no_requeue_cannot_be_requeued(asked: dict[str, bool], error: int) -> None:
    sim = lab()
    job_id = sim.submit(JobSpec(requeue=asked.get("requeue", True)))
    if asked:
        sim.advance(5)
    assert sim.admin.requeue(job_id) == error

"""Situations that `explain` must tell right: a view, the job asked for, and by whom. The golden texts lie in golden/explain."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from slurmfair.model import FOREVER_S, Outcome
from slurmfair.standing import Standing
from slurmfair.view import View
from tests.views import NOW_S, job, pool, quota, running, settings, view

MINUTE_S, HOUR_S = 60, 3600


@dataclass(frozen=True)
class Situation:
    view: View
    asked: str = "7"
    user: str = "ann"
    uid: int = 2001


def _nodes(*free: int) -> list[dict[str, Any]]:
    """Nodes of one kind with 8 GPUs, and how many of these each has free."""
    return [
        {"kind": "train:h100", "size": 8, "free": [[units, free.count(units)] for units in sorted(set(free))]}
    ]


def _told(*jobs: dict[str, Any], quotas: Sequence[dict[str, Any]] = (), **facts: Any) -> View:
    return view(jobs, quotas or [quota("vision", pending=3)], **facts)


def _under(policy: str, **changed: Any) -> dict[str, Any]:
    return quota("vision", policy=policy, policy_settings=settings(name=policy, **changed), pending=3)


def _head(**facts: Any) -> dict[str, Any]:
    """The job in front of job 7."""
    known: dict[str, Any] = {"user": "bob", "gpus": 8, "order_s": NOW_S - HOUR_S, "waiting_s": NOW_S - HOUR_S}
    return job(3, **(known | facts))


def _behind(**facts: Any) -> dict[str, Any]:
    known: dict[str, Any] = {
        "outcome": Outcome.BEHIND, "blocker": 3, "position": 2, "first_attempt_s": -1, "standing": Standing.HELD,
        "place": 0, "priority": 0, "reason": "JobHeldAdmin",
    }  # fmt: skip
    return job(7, **(known | facts))


def _lonely(standing: Standing, **facts: Any) -> View:
    """Job 7 outside of every queue."""
    known: dict[str, Any] = {
        "standing": standing, "outcome": -1, "position": 0, "place": 0, "first_attempt_s": -1, "order_s": -1,
        "waiting_s": -1,
    }  # fmt: skip
    return _told(job(7, **(known | facts)))


SITUATIONS: dict[str, Callable[[], Situation]] = {}


def situation(make: Callable[[], Situation]) -> Callable[[], Situation]:
    SITUATIONS[make.__name__] = make
    return make


@situation
def starts_now() -> Situation:
    return Situation(_told(job(7, outcome=Outcome.STARTS, first_attempt_s=-1, reason="Priority")))


@situation
def too_little_free() -> Situation:
    return Situation(_told(job(7, gpus=4, first_attempt_s=NOW_S - 2 * MINUTE_S), pools=[pool(free=2)]))


@situation
def free_but_fragmented() -> Situation:
    return Situation(_told(job(7, gpus=4), pools=[pool(free=6)]))


@situation
def room_is_kept_for_it() -> Situation:
    return Situation(
        _told(job(7, gpus=16, nodes=2, reserved=1, start_s=NOW_S + 2 * HOUR_S), pools=[pool(free=4)])
    )


@situation
def beyond_its_share_and_not_reserved_for() -> Situation:
    over = quota("vision", allocated=10.0, fair_share=8.0, entitled=False, pending=1)
    return Situation(_told(job(7, gpus=4), quotas=[over], pools=[pool(free=2)]))


@situation
def balance_timeout_is_over() -> Situation:
    return Situation(_told(job(7, gpus=4, first_attempt_s=NOW_S - 20 * MINUTE_S), pools=[pool(free=2)]))


@situation
def fifo_behind_a_higher_priority() -> Situation:
    return Situation(
        _told(_head(base=7, effective=7.0, policy="fifo"), _behind(policy="fifo"), quotas=[_under("fifo")])
    )


@situation
def fifo_behind_an_earlier_job() -> Situation:
    return Situation(_told(_head(policy="fifo"), _behind(policy="fifo"), quotas=[_under("fifo")]))


@situation
def fifo_same_second() -> Situation:
    return Situation(_told(_head(order_s=NOW_S - 600), _behind(), quotas=[_under("fifo")]))


@situation
def fifo_by_submission() -> Situation:
    return Situation(_told(_head(base=2, effective=2.0), _behind(), quotas=[_under("fifo", order="submit")]))


@situation
def balance_next_in_the_window() -> Situation:
    return Situation(_told(_head(first_attempt_s=NOW_S - 3 * MINUTE_S), _behind()))


@situation
def balance_far_behind() -> Situation:
    return Situation(_told(_head(first_attempt_s=NOW_S - 3 * MINUTE_S), _behind(position=5)))


@situation
def intelligent_behind_a_high_job() -> Situation:
    return Situation(
        _told(
            _head(base=8, effective=8.0),
            _behind(base=3, effective=4.0, waiting_s=NOW_S - 90 * MINUTE_S),
            quotas=[_under("intelligent")],
        )
    )


@situation
def intelligent_high_behind_high() -> Situation:
    return Situation(
        _told(_head(base=9, effective=9.0), _behind(base=7, effective=7.0), quotas=[_under("intelligent")])
    )


@situation
def intelligent_low_skipped_and_ageing() -> Situation:
    low = job(7, gpus=4, base=2, effective=3.0, waiting_s=NOW_S - 100 * MINUTE_S)
    return Situation(_told(low, quotas=[_under("intelligent")], pools=[pool(free=2)]))


@situation
def intelligent_aged_to_the_cap() -> Situation:
    low = job(7, gpus=4, base=2, effective=6.0, waiting_s=NOW_S - 10 * HOUR_S)
    return Situation(_told(low, quotas=[_under("intelligent")], pools=[pool(free=2)]))


@situation
def intelligent_linear_ageing() -> Situation:
    low = job(7, gpus=4, base=2, effective=3.67, waiting_s=NOW_S - 100 * MINUTE_S)
    return Situation(_told(low, quotas=[_under("intelligent", aging_mode="linear")], pools=[pool(free=2)]))


@situation
def round_robin_skipped() -> Situation:
    return Situation(_told(job(7, gpus=4, position=3), quotas=[_under("round_robin")], pools=[pool(free=2)]))


@situation
def limit_of_its_quota() -> Situation:
    full = quota("vision", limit=24.0, allocated=22.0, after_pass=22.0, pending=1)
    return Situation(
        _told(
            job(7, gpus=4, outcome=Outcome.LIMIT, standing=Standing.HELD),
            quotas=[full],
            pools=[pool(free=10)],
        )
    )


@situation
def limit_of_a_quota_above() -> Situation:
    above = quota("llm", leaf=False, limit=16.0, allocated=14.0, after_pass=15.0)
    leaf = quota("llm.eval", allocated=2.0, after_pass=3.0, pending=1)
    return Situation(
        _told(
            job(7, gpus=2, outcome=Outcome.LIMIT, quota="llm.eval"),
            quotas=[above, leaf],
            pools=[pool(free=10)],
        )
    )


@situation
def held_back_for_another_quota() -> Situation:
    rich = quota("vision", allocated=20.0, fair_share=16.0, entitled=False, ratio=1.25, pending=1)
    poor = quota("llm", allocated=4.0, fair_share=16.0, entitled=True, ratio=0.25, pending=1)
    other = job(3, user="cid", quota="llm", gpus=8, reserved=1, first_attempt_s=NOW_S - HOUR_S)
    mine = job(7, gpus=2, outcome=Outcome.HELD_BACK, blocker=3, standing=Standing.HELD)
    return Situation(_told(other, mine, quotas=[rich, poor], pools=[pool(free=4)]))


@situation
def held_back_far_down() -> Situation:
    """For whom is only told to the first some hundred."""
    rich = quota("vision", allocated=20.0, fair_share=16.0, entitled=False, ratio=1.25, pending=900)
    mine = job(7, gpus=2, outcome=Outcome.HELD_BACK, position=800, standing=Standing.HELD)
    return Situation(_told(mine, quotas=[rich], pools=[pool(free=4)]))


@situation
def held_back_without_backfill() -> Situation:
    told = held_back_for_another_quota().view
    told.about["pools"][0]["fairshare"]["backfill_under_reservation"] = False
    return Situation(told)


def _held_back(mine: dict[str, Any], other: dict[str, Any], **llm: Any) -> Situation:
    """Job 7 is held back for job 3."""
    rich = quota("vision", **({"allocated": 20.0, "fair_share": 16.0, "pending": 1} | mine))
    poor = quota("llm", **({"allocated": 4.0, "fair_share": 16.0, "pending": 1} | llm))
    known = {"user": "cid", "quota": "llm", "gpus": 8, "reserved": 1, "first_attempt_s": NOW_S - HOUR_S}
    job_7 = job(7, gpus=2, outcome=Outcome.HELD_BACK, blocker=3, standing=Standing.HELD)
    return Situation(_told(job(3, **(known | other)), job_7, quotas=[rich, poor], pools=[pool(free=4)]))


@situation
def held_back_until_room_is_foreseen() -> Situation:
    return _held_back({}, {"room_s": NOW_S + HOUR_S})


@situation
def held_back_for_a_promise() -> Situation:
    return _held_back({}, {"reserved": 2}, allocated=12.0)


@situation
def held_back_within_its_share_for_a_promise() -> Situation:
    return _held_back({"allocated": 10.0}, {"reserved": 2}, allocated=12.0)


@situation
def held_back_for_one_that_starved() -> Situation:
    told = _held_back({}, {"waiting_s": NOW_S - 40 * HOUR_S}, allocated=12.0)
    told.view.about["pools"][0]["fairshare"]["starvation_after_s"] = 24 * HOUR_S
    return told


@situation
def held_back_after_others_of_its_quota() -> Situation:
    return _held_back({"allocated": 14.0, "after_pass": 16.0}, {})


@situation
def parked_by_a_limit() -> Situation:
    small = quota("vision", limit=8.0, pending=1)
    return Situation(
        _told(
            job(7, gpus=16, nodes=2, outcome=Outcome.PARKED, standing=Standing.HELD, position=0),
            quotas=[small],
        )
    )


@situation
def parked_until_it_is_cancelled() -> Situation:
    small = quota("vision", limit=8.0, pending=1, policy_settings=settings(on_never_fit="cancel"))
    return Situation(
        _told(
            job(7, gpus=16, nodes=2, outcome=Outcome.PARKED, standing=Standing.HELD, position=0),
            quotas=[small],
        )
    )


@situation
def parked_by_the_size_of_the_pool() -> Situation:
    return Situation(
        _told(job(7, gpus=64, nodes=8, outcome=Outcome.PARKED, standing=Standing.HELD, position=0))
    )


@situation
def parked_by_the_size_of_the_nodes() -> Situation:
    return Situation(
        _told(job(7, gpus=16, nodes=1, outcome=Outcome.PARKED, standing=Standing.HELD, position=0))
    )


@situation
def not_placed_by_slurm() -> Situation:
    stuck = job(
        7,
        gpus=8,
        nodes=2,
        outcome=Outcome.PLACEMENT,
        unplaced=1,
        node_classes=1,
        reason="Resources",
        first_attempt_s=NOW_S - 10 * MINUTE_S,
    )
    return Situation(_told(stuck, pools=[pool(free=12, nodes=_nodes(0, 4, 4, 4))]))


@situation
def free_in_too_small_pieces() -> Situation:
    job_7 = job(7, gpus=16, nodes=2, outcome=Outcome.PLACEMENT, node_classes=1)
    return Situation(_told(job_7, pools=[pool(free=20, nodes=_nodes(8, 4, 4, 4))]))


@situation
def free_in_too_small_pieces_once_others_have_theirs() -> Situation:
    job_7 = job(7, gpus=8, outcome=Outcome.PLACEMENT, node_classes=1)
    quotas = [quota("vision", allocated=12.0, after_pass=14.0, fair_share=32.0, pending=3)]
    return Situation(_told(job_7, quotas=quotas, pools=[pool(free=20, nodes=_nodes(8, 4, 4, 4))]))


@situation
def no_node_takes_jobs() -> Situation:
    nodes = [
        {"kind": "train:a100", "size": 4, "free": [[4, 2]]},
        {"kind": "train:h100", "size": 8, "free": []},
    ]
    job_7 = job(7, gpus=4, outcome=Outcome.CAPACITY, node_classes=2)
    return Situation(_told(job_7, pools=[pool(free=8, nodes=nodes)]))


@situation
def the_nodes_of_its_type_are_full() -> Situation:
    nodes = [{"kind": "train:a100", "size": 4, "free": [[4, 2]]}, *_nodes(0, 1)]
    job_7 = job(7, gpus=2, outcome=Outcome.CAPACITY, node_classes=2)
    return Situation(_told(job_7, pools=[pool(free=9, nodes=nodes)]))


@situation
def too_few_cpus_are_free() -> Situation:
    free = {"gres/gpu": 4, "cpu": 10, "mem": 10**6}
    return Situation(_told(job(7, cpus=64), pools=[pool(free=4, free_by_resource=free)]))


@situation
def gang_on_four_nodes() -> Situation:
    gang = job(7, gpus=32, nodes=4, reserved=1, node_classes=1, room_s=NOW_S + HOUR_S)
    return Situation(_told(gang, pools=[pool(free=20, nodes=_nodes(8, 8, 4, 0))]))


@situation
def het_job() -> Situation:
    one = job(7, het_id=7, het_offset=0, gpus=8)
    two = job(8, het_id=7, het_offset=1, gpus=4)
    return Situation(_told(one, two, pools=[pool(free=10)]))


@situation
def component_of_a_het_job() -> Situation:
    return Situation(het_job().view, "7+1")


@situation
def array_with_running_tasks() -> Situation:
    rest = job(7, array_id=7, task_list="2-9", tasks=8, gpus=2)
    tasks = [running(8, array_id=7, array_task=0), running(9, array_id=7, array_task=1)]
    return Situation(_told(rest, *tasks, pools=[pool(free=1)]))


@situation
def one_waiting_task_of_an_array() -> Situation:
    return Situation(array_with_running_tasks().view, "7_5")


@situation
def array_at_its_throttle() -> Situation:
    tasks = [running(8, array_id=7, array_task=0), running(9, array_id=7, array_task=1)]
    rest = _lonely(
        Standing.INELIGIBLE, array_id=7, task_list="2-9%2", tasks=0, reason="JobArrayTaskLimit"
    ).row(0)
    return Situation(_told(rest, *tasks))


@situation
def waits_for_another_job() -> Situation:
    return Situation(_lonely(Standing.INELIGIBLE, dependent=1, reason="Dependency"))


@situation
def dependency_has_failed() -> Situation:
    return Situation(_lonely(Standing.INELIGIBLE, dependent=1, reason="DependencyNeverSatisfied"))


@situation
def begin_time() -> Situation:
    return Situation(_lonely(Standing.INELIGIBLE, begin_s=NOW_S + 3 * HOUR_S, reason="BeginTime"))


@situation
def licenses_are_in_use() -> Situation:
    return Situation(_lonely(Standing.INELIGIBLE, reason="Licenses"))


@situation
def partition_is_down() -> Situation:
    return Situation(_lonely(Standing.INELIGIBLE, reason="PartitionDown"))


@situation
def held_by_its_owner() -> Situation:
    return Situation(_lonely(Standing.FOREIGN_HOLD, reason="JobHeldUser", priority=0))


@situation
def held_by_an_administrator() -> Situation:
    return Situation(_lonely(Standing.FOREIGN_HOLD, reason="JobHeldAdmin", priority=0))


@situation
def launch_failed() -> Situation:
    return Situation(
        _lonely(
            Standing.FOREIGN_HOLD, reason="JobHeldUser", reason_text="launch failed requeued held", priority=0
        )
    )


@situation
def requeued_too_often() -> Situation:
    return Situation(_lonely(Standing.FOREIGN_HOLD, reason="JobHoldMaxRequeue", priority=0))


@situation
def bad_constraints() -> Situation:
    return Situation(_lonely(Standing.FOREIGN_HOLD, reason="BadConstraints", priority=0))


@situation
def gate_holds_a_new_job() -> Situation:
    return Situation(_lonely(Standing.GATED, priority=0, reason="JobHeldUser"))


@situation
def gate_holds_a_judged_job() -> Situation:
    return Situation(_told(_head(), _behind(standing=Standing.GATED, reason="JobHeldUser")))


@situation
def released_by_an_administrator() -> Situation:
    return Situation(_lonely(Standing.RELEASED, reason="Resources"))


@situation
def limit_of_the_site() -> Situation:
    return Situation(_lonely(Standing.SITE_LIMIT, reason="AssocGrpGRES"))


@situation
def cannot_run_as_asked() -> Situation:
    return Situation(_lonely(Standing.CANNOT_RUN, reason="PartitionTimeLimit"))


@situation
def reason_nobody_knows() -> Situation:
    return Situation(_lonely(Standing.UNKNOWN, reason="SomethingNew"))


@situation
def advance_reservation() -> Situation:
    return Situation(_lonely(Standing.RESERVATION, reason="Reservation"))


@situation
def scrontab_job() -> Situation:
    return Situation(_lonely(Standing.CRON, reason="BeginTime", begin_s=NOW_S + HOUR_S))


@situation
def runs() -> Situation:
    return Situation(_told(running(7, gpus=4)))


@situation
def runs_without_a_time_limit() -> Situation:
    return Situation(_told(running(7, time_limit_s=FOREVER_S)))


@situation
def suspended() -> Situation:
    return Situation(_told(running(7, standing=Standing.SUSPENDED)))


@situation
def in_no_quota() -> Situation:
    return Situation(_lonely(Standing.OPEN, quota="", policy="", account="guests"))


@situation
def in_no_quota_and_held() -> Situation:
    return Situation(_lonely(Standing.FOREIGN_HOLD, quota="", policy="", reason="JobHeldUser", priority=0))


@situation
def unknown_job() -> Situation:
    return Situation(_told(job(7)), "4711")


@situation
def private_job_of_somebody_else() -> Situation:
    return Situation(_told(job(7), private_jobs=True), user="bob", uid=2002)


@situation
def private_behind_somebody_else() -> Situation:
    return Situation(_told(_head(), _behind(), private_jobs=True))


@situation
def private_held_back_for_somebody_else() -> Situation:
    told = held_back_for_another_quota().view
    told.about["private_jobs"] = True
    return Situation(told)


@situation
def names_with_control_characters() -> Situation:
    return Situation(_told(_head(user="b\x1b[31mob"), _behind()))


@situation
def starts_from_our_hold() -> Situation:
    return Situation(
        _told(
            job(7, outcome=Outcome.STARTS, first_attempt_s=-1, standing=Standing.HELD, reason="JobHeldAdmin")
        )
    )


@situation
def in_shadow() -> Situation:
    return Situation(_told(job(7, outcome=Outcome.STARTS, first_attempt_s=-1), shadow=True))


@situation
def too_little_free_after_those_that_start() -> Situation:
    starting = quota("vision", allocated=4.0, after_pass=6.0, pending=2)
    first = job(3, gpus=2, outcome=Outcome.STARTS)
    return Situation(_told(first, job(7, gpus=4, position=2), quotas=[starting], pools=[pool(free=5)]))


@situation
def without_gpus() -> Situation:
    return Situation(_told(job(7, gpus=0, gpu_type="", cpus=64, mem_mib=512000), pools=[pool(free=5)]))


@situation
def intelligent_behind_a_starved_low_job() -> Situation:
    guarded = _under("intelligent", starvation_guard_s=7200.0)
    return Situation(_told(_head(base=2, effective=6.0), _behind(), quotas=[guarded]))


@situation
def balance_with_a_bounded_window() -> Situation:
    bounded = quota("vision", policy_settings=settings(max_window=1), pending=3)
    return Situation(_told(_head(first_attempt_s=NOW_S - 3 * MINUTE_S), _behind(), quotas=[bounded]))


@situation
def in_no_quota_but_held_by_us() -> Situation:
    return Situation(_lonely(Standing.HELD, quota="", policy="", priority=0, reason="JobHeldAdmin"))

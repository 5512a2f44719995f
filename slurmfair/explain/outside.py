"""Sentences about a job that stands in no queue of ours: it runs, is held by somebody, or cannot run yet."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import numpy as np

from slurmfair.cli.text import printable
from slurmfair.explain.case import IN_LINE, Case, Row, counted
from slurmfair.explain.terms import Kind, Sentence
from slurmfair.explain.words import slurm_reason
from slurmfair.model import FOREVER_S
from slurmfair.standing import Standing


def outside(case: Case) -> Iterator[Sentence]:
    """Yield what is to be said about a job that the last pass did not judge."""
    standing = Standing(case.job["standing"])
    if standing < Standing.RUNNING and not case.job["quota"]:
        yield from _unmanaged(case)
        if standing in IN_LINE:
            return
    yield from ABOUT[standing](case)


def _unmanaged(case: Case) -> Iterator[Sentence]:
    job = case.job
    facts = ", ".join(f"{name} {printable(job[name])}" for name in ("account", "user", "qos", "partition"))
    yield Sentence(
        Kind.WHY,
        f"It belongs to no quota: no rule of the policy matches {facts}. Slurm alone decides when it starts.",
    )
    if job["standing"] in (Standing.HELD, Standing.GATED):
        yield Sentence(
            Kind.NEXT, "It still carries slurmfair's hold, which one of the next decisions takes off."
        )
    else:
        yield Sentence(Kind.WHY, f"Slurm's reason: {slurm_reason(job)}.")


def _not_judged(case: Case) -> Iterator[Sentence]:
    yield Sentence(Kind.WHY, "It has not been judged yet: the last decision was taken before it came.")
    yield Sentence(
        Kind.NEXT, "The next decision puts it into its queue; these follow each other within seconds."
    )


def _released(case: Case) -> Iterator[Sentence]:
    yield Sentence(
        Kind.WHY,
        "An administrator released it from slurmfair's hold: slurmfair leaves it alone, and Slurm may start it at any time.",
    )
    yield Sentence(Kind.WHY, f"Slurm's reason: {slurm_reason(case.job)}.")


# beginning of Slurm's text or reason, what it means, what the reader can do
HOLDS = (
    ("launch failed requeued held", "Slurm held it after its launch failed", "Find out why (slurmd.log of its node), then release it"),
    ("launch failure limit exceeded", "Slurm held it after too many failed launches", "Find out why (slurmd.log of its nodes), then release it"),
    ("user env retrieval failed", "Slurm held it because its user's environment could not be read", "Mend the login environment, then release it"),
    ("job requeued in special exit state", "It was requeued in special exit state, which holds it", "Release it when it may run again"),
    ("job requeued in held state", "It was requeued with a hold", "Release it when it may run again"),
    ("License request", "Slurm held it because it asks for a license that does not exist any more", "Correct the license, then have it released"),
    ("JobHoldMaxRequeue", "Slurm held it because it was requeued too often", "Find out why it fails, then release it"),
    ("ReservationDeleted", "Slurm held it because its reservation was deleted", "Remove or change its reservation, then release it"),
)  # fmt: skip


def _foreign_hold(case: Case) -> Iterator[Sentence]:
    job = case.job
    command = f"scontrol release {job['job_id']}"
    for begins, meaning, advice in HOLDS:
        if job["reason_text"].replace("_", " ").startswith(begins) or job["reason"] == begins:
            yield Sentence(
                Kind.WHY, f"{meaning}; this is not slurmfair's hold, and slurmfair never releases it."
            )
            yield Sentence(Kind.NEEDED, f"{advice}: {command}.")
            return
    if job["reason"] == "JobHeldUser":
        yield Sentence(
            Kind.WHY, "It is held by its owner (or for him by an administrator), not by slurmfair."
        )
        yield Sentence(
            Kind.NEEDED, f"Its owner can release it: {command}. Its place in line counts from then on."
        )
    elif job["reason"] == "JobHeldAdmin":
        yield Sentence(
            Kind.WHY, "It is held by an administrator or by Slurm, not by slurmfair, which never releases it."
        )
        yield Sentence(Kind.NEEDED, f"An administrator must release it: {command}.")
    else:
        yield Sentence(Kind.WHY, f"It is held, and not by slurmfair; Slurm's reason: {slurm_reason(job)}.")
        yield Sentence(Kind.NEEDED, f"Mend what the reason says, then have it released: {command}.")


def _ineligible(case: Case) -> Iterator[Sentence]:
    job = case.job
    if job["begin_s"] > case.now_s:
        yield Sentence(Kind.WHY, "It asked to begin later (--begin).")
        yield Sentence(
            Kind.NEXT,
            f"It joins its queue at {case.at(job['begin_s'])}; its place counts from then on.",
            job["begin_s"],
        )
    elif job["reason"] == "DependencyNeverSatisfied":
        yield from _cannot_run(case)
    elif job["dependent"]:
        yield Sentence(
            Kind.WHY, f"It waits for other jobs (--dependency); scontrol show job {job['job_id']} names them."
        )
        yield Sentence(
            Kind.NEEDED,
            "It joins its queue when they have done what it waits for; its place counts from then on.",
        )
    elif job["reason"] == "JobArrayTaskLimit":
        yield from _throttled(case)
    else:
        meaning = CLEARS.get(job["reason"], "Slurm cannot start it at the moment")
        yield Sentence(Kind.WHY, f"{meaning}; Slurm's reason: {slurm_reason(job)}.")
        yield Sentence(
            Kind.NEEDED, "This clears without slurmfair; until then it stands in no queue and stops nobody."
        )


CLEARS = {
    "Licenses": "The licenses it asks for are in use",
    "PartitionDown": "Its partition is down",
    "PartitionInactive": "Its partition is inactive",
    "NodeDown": "A node that it asks for is down",
    "ReqNodeNotAvail": "A node that it asks for cannot be used now",
    "Reservation": "Its reservation has not begun",
    "Cleaning": "What it left behind at its last run is still being cleaned up",
    "BurstBufferResources": "Its burst buffer has no room yet",
    "BurstBufferStageIn": "Its data are being staged in",
    "BeginTime": "Slurm starts it no earlier than its begin time (also after a requeue)",
}


def _throttled(case: Case) -> Iterator[Sentence]:
    job = case.job
    most = re.search(r"%(\d+)", job["task_list"])
    tasks = case.view.jobs["array_id"] == job["array_id"]
    running = int(np.count_nonzero(tasks & (case.view.jobs["standing"] == Standing.RUNNING)))
    bound = f"of {most[1]} tasks at a time" if most else "of its own"
    yield Sentence(
        Kind.WHY,
        f"The array has a throttle {bound} (--array=...%N), and {counted(running, 'task')} of it run{'s' if running == 1 else ''} now.",
    )
    yield Sentence(Kind.NEEDED, "One of its running tasks must end; until then the array stops nobody.")
    yield Sentence(
        Kind.ADVICE,
        f"Its owner can change the throttle: scontrol update JobId={job['array_id']} ArrayTaskThrottle=N.",
    )


def _site_limit(case: Case) -> Iterator[Sentence]:
    yield Sentence(
        Kind.WHY,
        f"A limit of the site in Slurm's own accounting stops it: {slurm_reason(case.job)}. This is not a limit of slurmfair's.",
    )
    yield Sentence(
        Kind.NEEDED,
        "Other jobs under that limit must end (sacctmgr shows it); until then it stands in no queue and stops nobody.",
    )


def _cannot_run(case: Case) -> Iterator[Sentence]:
    yield Sentence(Kind.WHY, f"Slurm cannot run it as it asks: {slurm_reason(case.job)}.")
    if case.job["reason"] == "DependencyNeverSatisfied":
        yield Sentence(
            Kind.NEEDED, "The job that it waits for has failed: cancel it, or remove the dependency."
        )
    else:
        yield Sentence(Kind.NEEDED, "Change what it asks for, or cancel it; waiting does not help.")


def _unknown(case: Case) -> Iterator[Sentence]:
    yield Sentence(
        Kind.WHY,
        f"Slurm's reason is {slurm_reason(case.job)}, which slurmfair does not know: it leaves the job alone.",
    )


def _cron(case: Case) -> Iterator[Sentence]:
    yield Sentence(
        Kind.WHY, "It is a scrontab job: Slurm starts it at its time, and slurmfair leaves it alone."
    )
    if case.job["begin_s"] > case.now_s:
        yield Sentence(Kind.NEXT, f"Its next time is {case.at(case.job['begin_s'])}.", case.job["begin_s"])


def _reservation(case: Case) -> Iterator[Sentence]:
    yield Sentence(
        Kind.WHY,
        f"It asks for an advance reservation: Slurm alone decides when it starts, by {slurm_reason(case.job)}.",
    )


def _running(case: Case) -> Iterator[Sentence]:
    job = case.job
    yield Sentence(Kind.SINCE, f"It has run since {case.at(job['start_s'])}.")
    if 0 < job["time_limit_s"] < FOREVER_S:
        end_s = job["start_s"] + job["time_limit_s"]
        yield Sentence(Kind.NEXT, f"Its time limit ends at {case.at(end_s)}.", end_s)


def _suspended(case: Case) -> Iterator[Sentence]:
    yield Sentence(Kind.WHY, "It is suspended; slurmfair neither suspends nor resumes jobs.")


def _ended(case: Case) -> Iterator[Sentence]:
    yield Sentence(Kind.WHY, f"It has ended, or is about to; sacct -j {case.job['job_id']} tells how.")


ABOUT: dict[Standing, Callable[[Case], Iterator[Sentence]]] = {
    Standing.OPEN: _not_judged,
    Standing.HELD: _not_judged,
    Standing.GATED: _not_judged,
    Standing.RELEASED: _released,
    Standing.FOREIGN_HOLD: _foreign_hold,
    Standing.INELIGIBLE: _ineligible,
    Standing.SITE_LIMIT: _site_limit,
    Standing.CANNOT_RUN: _cannot_run,
    Standing.UNKNOWN: _unknown,
    Standing.CRON: _cron,
    Standing.RESERVATION: _reservation,
    Standing.RUNNING: _running,
    Standing.LATE_HOLD: _running,
    Standing.SUSPENDED: _suspended,
    Standing.ENDED: _ended,
}


def partitions_of(pools: list[Row]) -> str:
    return ", ".join(sorted({name for pool in pools for name in pool["partitions"]}))

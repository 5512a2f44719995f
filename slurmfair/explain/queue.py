"""Sentences about a job that stands in a queue of ours: what the last pass found, and what follows."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from slurmfair.cli.rows import aged
from slurmfair.cli.text import words
from slurmfair.explain.behind import behind
from slurmfair.explain.case import POLICIES, Case, counted, ordinal
from slurmfair.explain.kept import held_back
from slurmfair.explain.room import capacity, limit, parked, placement
from slurmfair.explain.terms import Kind, Sentence
from slurmfair.model import Outcome
from slurmfair.standing import Standing


def in_queue(case: Case) -> Iterator[Sentence]:
    """Yield what is to be said about a waiting job that was judged in the last pass."""
    outcome = case.outcome
    assert outcome is not None
    yield from _place(case)
    yield from WHY[outcome](case)
    yield from _hold(case)
    yield from _since(case)
    yield from _own_timer(case)
    yield from _ageing(case)
    yield from _expected(case)
    if case.view.about.get("shadow"):
        yield Sentence(
            Kind.WHY,
            "slurmfaird runs in shadow here: it decides but writes nothing, so Slurm alone starts jobs.",
        )


def _place(case: Case) -> Iterator[Sentence]:
    job, quota = case.job, case.quota
    if job["position"] <= 0:
        return
    policy = POLICIES[quota["policy"]]
    priority = aged(job["base"], job["effective"])
    others = (
        f"{counted(quota['pending'], 'job')} waiting there" if quota["pending"] else "no other waiting there"
    )
    yield Sentence(
        Kind.PLACE,
        f"It is {ordinal(job['position'])} in the queue of {quota['quota']} (policy {policy}, {others}) "
        f"with priority {priority}.",
    )


def _starts(case: Case) -> Iterator[Sentence]:
    grace_s = case.pool["place_grace_s"]
    held = "" if case.job["standing"] == Standing.OPEN else " and releases its hold"
    yield Sentence(
        Kind.WHY, f"Everything it needs is free and it is its turn: slurmfair lets it start now{held}."
    )
    reason = case.job["reason"]
    shown = (
        f" (its reason at the moment: {reason})"
        if reason not in ("", "None", "JobHeldAdmin", "JobHeldUser")
        else ""
    )
    yield Sentence(Kind.NEEDED, f"Slurm starts it in one of its next scheduling passes{shown}.")
    yield Sentence(
        Kind.NEXT,
        f"If Slurm has not started it within {words(grace_s)} of its release, that counts as a failed attempt "
        "and the jobs behind it are tried as its queue's policy says.",
    )


WHY: dict[Outcome, Callable[[Case], Iterator[Sentence]]] = {
    Outcome.STARTS: _starts,
    Outcome.BEHIND: behind,
    Outcome.LIMIT: limit,
    Outcome.CAPACITY: capacity,
    Outcome.PLACEMENT: placement,
    Outcome.HELD_BACK: held_back,
    Outcome.PARKED: parked,
}


def _hold(case: Case) -> Iterator[Sentence]:
    standing, outcome = case.job["standing"], case.outcome
    if outcome == Outcome.PARKED:
        yield Sentence(Kind.WHY, "slurmfair holds it until then.")
    elif standing == Standing.HELD and outcome != Outcome.STARTS:
        yield Sentence(
            Kind.WHY,
            "Slurm shows JobHeldAdmin and priority 0: slurmfair holds it, and releases it when its turn comes.",
        )
    elif standing == Standing.GATED and outcome != Outcome.STARTS:
        yield Sentence(
            Kind.WHY,
            "Slurm shows it as held: slurmfair's gate holds every new job, and slurmfair releases it when its turn comes.",
        )


def _since(case: Case) -> Iterator[Sentence]:
    job = case.job
    if job["waiting_s"] < 0:
        return
    in_vain = job["first_attempt_s"] >= 0 and case.outcome != Outcome.PARKED
    tried = f", and was first tried in vain at {case.at(job['first_attempt_s'])}" if in_vain else ""
    yield Sentence(Kind.SINCE, f"It has waited since {case.at(job['waiting_s'])}{tried}.")


def _own_timer(case: Case) -> Iterator[Sentence]:
    """Under Balance a blocked head lets others pass once its own time is up."""
    if case.quota["policy"] != "balance" or case.job["first_attempt_s"] < 0:
        return
    if case.outcome in (Outcome.STARTS, Outcome.BEHIND, Outcome.PARKED):
        return
    tau_s = case.settings["balance_timeout_s"]
    at_s = int(case.job["first_attempt_s"] + tau_s)
    if at_s > case.now_s:
        yield Sentence(
            Kind.NEXT,
            f"If it still waits at {case.at(at_s)}, the job behind it is tried too and may start before it.",
            at_s,
        )
    else:
        yield Sentence(
            Kind.WHY,
            f"It has failed for more than {words(tau_s)}, so jobs behind it are tried too and may start before it.",
        )


def _ageing(case: Case) -> Iterator[Sentence]:
    """Under Intelligent low jobs rise with time."""
    job, settings = case.job, case.settings
    low = case.quota["policy"] == "intelligent" and job["base"] < settings["high_threshold"]
    if not low or job["waiting_s"] < 0 or case.outcome == Outcome.PARKED:
        return
    every_s, cap = settings["aging_interval_s"], settings["aging_cap"]
    if job["base"] >= cap:
        return
    if job["effective"] >= cap:
        yield Sentence(Kind.PLACE, f"It has aged up to {cap}, the most that ageing gives.")
    elif settings["aging_mode"] == "linear":
        yield Sentence(Kind.NEXT, f"Its priority rises steadily, by one every {words(every_s)}, up to {cap}.")
    else:
        steps = int((case.now_s - job["waiting_s"]) // every_s) + 1
        at_s = int(job["waiting_s"] + steps * every_s)
        reached = min(cap, job["base"] + steps)
        later = f", and up to {cap} in time" if reached < cap else ""
        yield Sentence(Kind.NEXT, f"Its priority rises to {reached} at {case.at(at_s)}{later}.", at_s)


def _expected(case: Case) -> Iterator[Sentence]:
    """Slurm plans only jobs that it may start."""
    at_s = case.job["start_s"]
    if case.job["standing"] == Standing.OPEN and at_s > case.now_s:
        yield Sentence(
            Kind.EXPECTED,
            f"Slurm plans its start for {case.at(at_s)}, judged by the time limits of running jobs.",
            at_s,
        )

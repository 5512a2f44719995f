"""Sentences about a job that was not tried, because another one of its queue stands in front."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from slurmfair.cli.text import words
from slurmfair.explain.case import Case, Row, counted, goes_first, job_name
from slurmfair.explain.terms import Kind, Sentence
from slurmfair.explain.words import named, why_short


def behind(case: Case) -> Iterator[Sentence]:
    other = case.blocker
    yield Sentence(Kind.WHY, RULES[case.quota["policy"]](case))
    if other is None:
        yield Sentence(Kind.NEEDED, "The job in front belongs to somebody else and is not shown to you.")
        return
    by_submit = case.settings["order"] == "submit"
    high = case.settings["high_threshold"] if case.quota["policy"] == "intelligent" else None
    first = goes_first(case.job, other, by_submit, high)
    yield Sentence(Kind.WHY, f"It stands behind job {named(other)}, because {first}.")
    yield Sentence(Kind.NEEDED, f"Job {job_name(other)} must start or leave the queue; {why_short(other)}.")
    yield from _window_opens(case, other)


def _fifo_rule(case: Case) -> str:
    return "Under FIFO a job that cannot start stops everybody behind it."


def _round_robin_rule(case: Case) -> str:
    return "Under Round Robin every job is tried in turn; this one has not been tried yet."


def _balance_rule(case: Case) -> str:
    tau_s = case.settings["balance_timeout_s"]
    return (
        f"Under Balance a job that cannot start stops everybody behind it until it has failed for {words(tau_s)}; "
        "then one more job is tried as well."
    )


def _intelligent_rule(case: Case) -> str:
    high = case.settings["high_threshold"]
    if case.job["base"] >= high:
        return f"Under Intelligent the high jobs (priority {high} and more) start strictly in order."
    other, guard_s = case.blocker, case.settings["starvation_guard_s"]
    if other is not None and other["base"] < high and guard_s:
        return f"Under Intelligent a low job that has been first at the highest age for {words(guard_s)} stops all behind it."
    return (
        f"Under Intelligent a high job (priority {high} and more) that cannot start stops all jobs behind it."
    )


RULES: dict[str, Callable[[Case], str]] = {
    "fifo": _fifo_rule,
    "round_robin": _round_robin_rule,
    "balance": _balance_rule,
    "intelligent": _intelligent_rule,
}


def _window_opens(case: Case, other: Row) -> Iterator[Sentence]:
    """Under Balance the timeout of the job in front lets one more job be tried."""
    if case.quota["policy"] != "balance" or other["first_attempt_s"] < 0:
        return
    at_s = int(other["first_attempt_s"] + case.settings["balance_timeout_s"])
    between = case.job["position"] - other["position"] - 1
    most = case.settings["max_window"]
    if at_s <= case.now_s or 0 < most <= other["position"]:
        return
    who = (
        "this job is tried too"
        if between <= 0
        else f"the next job is tried too ({counted(between, 'job')} before this one)"
    )
    yield Sentence(Kind.NEXT, f"If job {job_name(other)} still waits at {case.at(at_s)}, {who}.", at_s)

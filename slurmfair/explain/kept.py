"""Sentences about a job that could start, were its room not kept for a job of another quota: for which one, and why that goes first."""

from __future__ import annotations

from collections.abc import Iterator

from slurmfair.cli.text import amount, words
from slurmfair.explain.case import Case, Row, job_name, of
from slurmfair.explain.room import beyond, beyond_share
from slurmfair.explain.terms import Kind, Sentence
from slurmfair.explain.words import named, needs
from slurmfair.model import FOREVER_S
from slurmfair.view import PROMISED


def held_back(case: Case) -> Iterator[Sentence]:
    other, resource = case.blocker, case.resource
    if other is None:
        hidden = "; jobs of other users are not shown to you" if case.view.about["private_jobs"] else ""
        yield Sentence(Kind.WHY, f"What is free is kept for a job of another quota that goes first{hidden}.")
    else:
        owner = case.quotas.get((other["pool"], other["quota"]))
        owed = f", and {_share(owner)}" if owner else ""
        yield Sentence(
            Kind.WHY,
            f"What is free is kept for job {named(other)}, which needs {needs(other, resource)}{owed}.",
        )
        yield from _goes_first(case, other)
    too_much, bound = _not_owed(case, other)
    if too_much is not None:
        yield Sentence(Kind.WHY, f"This job must not take it, because {too_much}.")
    whom = f"job {job_name(other)}" if other else "that job"
    yield Sentence(
        Kind.NEEDED,
        f"Either {whom} starts, or more is free than it needs, or jobs of {case.quota['quota']} end until this one "
        f"is within {bound}.",
    )
    if case.pool["fairshare"]["backfill_under_reservation"]:
        yield from _in_between(case, other, whom)


def _goes_first(case: Case, other: Row) -> Iterator[Sentence]:
    """Yield the rule by which the room is kept for the other job, where the numbers show which one it is."""
    holder = case.of_job(other)
    after_s, waited_s = case.pool["fairshare"]["starvation_after_s"], case.now_s - other["waiting_s"]
    if other["reserved"] == PROMISED:
        since = (
            f"; it was first tried in vain at {case.at(other['first_attempt_s'])}"
            if other["first_attempt_s"] >= 0
            else ""
        )
        text = f"That room was promised to it by an earlier decision, and a promise counts until it is used{since}."
    elif beyond_share(holder) is None:
        with_it = of(holder.quota["allocated"] + holder.need(holder.resource), holder.resource)
        text = f"It goes first, because with it {holder.quota['quota']} would hold {with_it}: what is within the fair share is owed."
    elif after_s and other["waiting_s"] >= 0 and waited_s >= after_s:
        text = f"It goes first, because it has waited for {words(waited_s)}: after {words(after_s)} room is kept for the first of all quotas."
    else:
        return
    yield Sentence(Kind.WHY, text)


def _in_between(case: Case, other: Row | None, whom: str) -> Iterator[Sentence]:
    """Yield by when the job must end if it is to start before the one that the room is kept for."""
    at_s = other["room_s"] if other else -1
    end = f" (it must end by {case.at(at_s)})" if case.now_s < at_s < FOREVER_S else ""
    yield Sentence(
        Kind.ADVICE,
        f"With a time limit so short that it cannot delay {whom}{end}, it may start before "
        f"(scontrol update JobId={case.job['job_id']} TimeLimit=...).",
    )


def _share(quota: Row) -> str:
    share = of(round(quota["fair_share"], 2), quota["resource"])
    return f"{quota['quota']} holds {amount(quota['allocated'])} of a fair share of {share}"


def _not_owed(case: Case, other: Row | None) -> tuple[str | None, str]:
    """Return why a job that was held back must leave room, and the bound that it must come within.

    That is its fair share; beside a promise it is what its quota deserves.
    """
    share = beyond_share(case) or beyond(
        case, "fair_share", "of a fair share of", "after_pass", "it and the jobs that start now"
    )
    if share is None and other is not None and other["reserved"] == PROMISED:
        return beyond(case, "deserved", "and deserves"), "what it deserves"
    return share, "the fair share"

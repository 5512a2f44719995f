"""Sentences about a job that was tried in vain: what it lacks, and for whom that is kept."""

from __future__ import annotations

from collections.abc import Iterator

from slurmfair.cli.text import amount, words
from slurmfair.explain.case import Case, Row, job_name, of
from slurmfair.explain.terms import Kind, Sentence
from slurmfair.explain.words import be, named, needs, per_node, slurm_reason


def limit(case: Case) -> Iterator[Sentence]:
    found = [
        (quota, resource)
        for quota in case.path
        for resource in quota["by_resource"]
        if _over(case, quota, resource)
    ]
    if not found:
        yield Sentence(Kind.WHY, "A limit on its quota or on one above it leaves no room for it.")
        return
    for quota, resource in found:
        held = quota["by_resource"][resource]
        soon = held["after_pass"] - held["allocated"]
        more = f" and gets {of(soon, resource)} for jobs that go first" if soon > 0 else ""
        need = case.need(resource)
        yield Sentence(
            Kind.WHY,
            f"Quota {quota['quota']} may hold {of(held['limit'], resource)} at most; it holds "
            f"{amount(held['allocated'])}{more}, and this job needs {amount(need)}.",
        )
        missing = held["after_pass"] + need - held["limit"]
        yield Sentence(
            Kind.NEEDED,
            f"Jobs of {quota['quota']} must give back {of(missing, resource)}; free nodes elsewhere do not help.",
        )


def _over(case: Case, quota: Row, resource: str) -> bool:
    amounts = quota["by_resource"][resource]
    limit = amounts["limit"]
    return limit is not None and bool(amounts["after_pass"] + case.need(resource) > limit)


def capacity(case: Case) -> Iterator[Sentence]:
    resource, pool = case.resource, case.pool
    need, admitted = case.need(resource), admitted_now(case)
    free = max(0.0, float(pool["free"]) - admitted)
    taken = f" once the jobs that start now have got their {amount(admitted)}" if admitted else ""
    size = f"{of(pool['capacity'], resource)} of pool {pool['pool']}"
    if need > free:
        yield Sentence(
            Kind.WHY, f"It needs {of(need, resource)}; of the {size} {amount(free)} {be(free)} free{taken}."
        )
        yield Sentence(Kind.NEEDED, f"Running jobs must end and give back {of(need - free, resource)} more.")
    else:
        yield Sentence(
            Kind.WHY,
            f"It needs {per_node(case)}. Of the {size} {amount(free)} {be(free)} free{taken}, but not on nodes that suit it.",
        )
        yield Sentence(Kind.NEEDED, "Running jobs must end on nodes that suit it.")
    yield from _reserved(case)


def _reserved(case: Case) -> Iterator[Sentence]:
    if case.job["reserved"]:
        yield Sentence(
            Kind.NEEDED,
            "Room is kept for it: what becomes free goes to it first, and jobs of quotas beyond their fair share wait.",
        )
        return
    share, beyond = case.pool["fairshare"], beyond_share(case)
    after_s = share["starvation_after_s"]
    if share["enforce"] != "holdback" or beyond is None:
        return
    yield Sentence(Kind.WHY, f"No room is kept for it, because {beyond}.")
    at_s = int(case.job["waiting_s"] + after_s)
    if after_s and case.job["waiting_s"] >= 0 and at_s > case.now_s:
        yield Sentence(
            Kind.NEXT,
            f"From {case.at(at_s)} on room is kept for it all the same, if it is the first of all quotas then.",
            at_s,
        )


def placement(case: Case) -> Iterator[Sentence]:
    yield Sentence(
        Kind.WHY,
        f"By count everything it needs is free, but Slurm did not start it within {words(case.pool['place_grace_s'])}; "
        f"Slurm's reason: {slurm_reason(case.job)}.",
    )
    yield Sentence(
        Kind.NEEDED,
        f"It needs {per_node(case)}; the free ones lie on other nodes, or Slurm keeps them for another job. "
        "It is tried again when more becomes free.",
    )
    yield from _reserved(case)


def held_back(case: Case) -> Iterator[Sentence]:
    other, resource = case.blocker, case.resource
    if other is None:
        yield Sentence(Kind.WHY, "What is free is kept for another job, whose quota is owed it.")
    else:
        owner = case.quotas.get((other["pool"], other["quota"]))
        owed = f", and {_share(owner)}" if owner else ""
        yield Sentence(
            Kind.WHY,
            f"What is free is kept for job {named(other)}, which needs {needs(other, resource)}{owed}.",
        )
    beyond = beyond_share(case)
    if beyond is not None:
        yield Sentence(Kind.WHY, f"This job must not take it, because {beyond}.")
    whom = f"job {job_name(other)}" if other else "that job"
    yield Sentence(
        Kind.NEEDED,
        f"Either {whom} starts, or more is free than it needs, or jobs of {case.quota['quota']} end until this one "
        "is within the fair share.",
    )
    if case.pool["fairshare"]["backfill_under_reservation"]:
        yield Sentence(
            Kind.ADVICE,
            f"With a time limit so short that it cannot delay {whom}, it may start before "
            f"(scontrol update JobId={case.job['job_id']} TimeLimit=...).",
        )


def _share(quota: Row) -> str:
    share = of(round(quota["fair_share"], 2), quota["resource"])
    return f"{quota['quota']} holds {amount(quota['allocated'])} of a fair share of {share}"


def beyond_share(case: Case) -> str | None:
    """Return which quota would be beyond its fair share with this job, None if none would be."""
    need, resource = case.need(case.resource), case.resource
    for quota in case.path:
        with_it = quota["allocated"] + need
        if with_it > quota["fair_share"]:
            share = of(round(quota["fair_share"], 2), resource)
            return f"with it {quota['quota']} would hold {amount(with_it)} of a fair share of {share}"
    return None


def parked(case: Case) -> Iterator[Sentence]:
    bounds = list(_too_small(case))
    for text in bounds or [
        "No nodes of its pool can ever hold it as it asks: the number, the type or the size of the nodes does not suffice."
    ]:
        yield Sentence(Kind.WHY, f"It can never start as it is. {text}")
    if case.settings["on_never_fit"] == "cancel":
        yield Sentence(
            Kind.NEEDED,
            "Its quota has such jobs cancelled (on_never_fit): so will it be, with the next cycles.",
        )
        return
    yield Sentence(
        Kind.NEEDED,
        "It is parked: it keeps its priority and time, stops nobody, and returns to its place once it can fit.",
    )
    yield Sentence(
        Kind.ADVICE,
        f"Ask for less (scontrol update JobId={case.job['job_id']} ...), cancel it, or ask for a larger limit.",
    )


def _too_small(case: Case) -> Iterator[str]:
    for quota in case.path:
        for resource, amounts in quota["by_resource"].items():
            need, limit = case.need(resource), amounts["limit"]
            if limit is not None and need > limit:
                yield f"It needs {of(need, resource)}, and quota {quota['quota']} may hold {amount(limit)} at most."
    need, resource = case.need(case.resource), case.resource
    if need > case.pool["configured"]:
        yield f"It needs {of(need, resource)}, and pool {case.pool['pool']} has {amount(case.pool['configured'])}."


def admitted_now(case: Case) -> float:
    """Return what the jobs get that were admitted in the last pass."""
    top = (row for row in case.view.quotas if row["pool"] == case.job["pool"] and not row["parent"])
    return float(sum(row["after_pass"] - row["allocated"] for row in top))

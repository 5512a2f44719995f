"""Sentences about a job that was tried in vain: what it lacks, and for whom that is kept."""

from __future__ import annotations

from collections.abc import Iterator

from slurmfair.cli.text import amount, words
from slurmfair.explain.case import Case, Row, admitted_now, of
from slurmfair.explain.nodes import on_nodes, on_what
from slurmfair.explain.terms import Kind, Sentence
from slurmfair.explain.words import be, per_node, slurm_reason
from slurmfair.model import FOREVER_S


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
    short = [name for name, left in pool["free_by_resource"].items() if case.need(name) > left]
    if need > free:
        yield Sentence(
            Kind.WHY, f"It needs {of(need, resource)}; of the {size} {amount(free)} {be(free)} free{taken}."
        )
        yield from on_nodes(case)
        yield Sentence(Kind.NEEDED, f"Running jobs must end and give back {of(need - free, resource)} more.")
    elif short:
        yield from _short_of(case, short)
    else:
        where = "but not on nodes that suit it" if not admitted else "and what suits it then is too little"
        yield Sentence(
            Kind.WHY,
            f"It needs {per_node(case)}. Of the {size} {amount(free)} {be(free)} free{taken}, {where}.",
        )
        yield from on_nodes(case)
        yield on_what(case)
    yield from _reserved(case)


def _short_of(case: Case, short: list[str]) -> Iterator[Sentence]:
    """Yield what is short beside the resource that the pool is divided by."""
    free = case.pool["free_by_resource"]
    for name in short:
        left = free[name]
        yield Sentence(
            Kind.WHY,
            f"It needs {of(case.need(name), name)}; of pool {case.pool['pool']} {amount(left)} {be(left)} free.",
        )
    missing = ", ".join(of(case.need(name) - free[name], name) for name in short)
    yield Sentence(Kind.NEEDED, f"Running jobs must end and give back {missing} more.")


def _reserved(case: Case) -> Iterator[Sentence]:
    if case.job["reserved"]:
        yield Sentence(
            Kind.NEEDED,
            "Room is kept for it: what becomes free goes to it first, and jobs of quotas beyond their fair share wait.",
        )
        yield from _foreseen(case)
        return
    share, too_much = case.pool["fairshare"], beyond_share(case)
    after_s = share["starvation_after_s"]
    if share["enforce"] != "holdback" or too_much is None:
        return
    yield Sentence(Kind.WHY, f"No room is kept for it, because {too_much}.")
    at_s = int(case.job["waiting_s"] + after_s)
    if after_s and case.job["waiting_s"] >= 0 and at_s > case.now_s:
        yield Sentence(
            Kind.NEXT,
            f"From {case.at(at_s)} on room is kept for it all the same, if it is the first of all quotas then.",
            at_s,
        )


def _foreseen(case: Case) -> Iterator[Sentence]:
    """Yield when there could be room; the plan knows by the time limits of running jobs alone."""
    at_s = case.job["room_s"]
    if case.now_s < at_s < FOREVER_S:
        yield Sentence(
            Kind.EXPECTED,
            f"As much as it needs is free at {case.at(at_s)} at the latest, by the time limits of running jobs; "
            "what is kept for other jobs is not counted.",
            at_s,
        )


def placement(case: Case) -> Iterator[Sentence]:
    if case.job["unplaced"]:
        grace = words(case.pool["place_grace_s"])
        yield Sentence(
            Kind.WHY,
            f"By count everything it needs is free, but Slurm did not start it within {grace}; "
            f"Slurm's reason: {slurm_reason(case.job)}.",
        )
        yield from on_nodes(case)
        yield Sentence(
            Kind.NEEDED,
            f"It needs {per_node(case)}; the free ones lie on other nodes, or Slurm keeps them for another job. "
            "It is tried again when more becomes free.",
        )
    else:
        yield Sentence(
            Kind.WHY,
            f"By count as much as it needs is free, but it needs {per_node(case)}, and what is free lies otherwise.",
        )
        yield from on_nodes(case)
        yield on_what(case)
    yield from _reserved(case)


def beyond_share(case: Case) -> str | None:
    """Return which quota would be beyond its fair share with this job, None if none would be."""
    return beyond(case, "fair_share", "of a fair share of")


def beyond(case: Case, bound: str, words: str, held: str = "allocated", others: str = "it") -> str | None:
    need, resource = case.need(case.resource), case.resource
    for quota in case.path:
        with_it = quota[held] + need
        if with_it > quota[bound]:
            most = of(round(quota[bound], 2), resource)
            return f"with {others} {quota['quota']} would hold {amount(with_it)} {words} {most}"
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
            "Its quota has such jobs cancelled (on_never_fit): so will it be, if the next cycles find the same.",
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

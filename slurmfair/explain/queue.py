"""Sentences about a job that stands in a queue of ours: what the last pass found, and what follows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import ceil

from slurmfair.cli.columns import aged
from slurmfair.cli.text import amount, printable, words
from slurmfair.explain.case import COLUMN_OF, POLICIES, Case, Row, counted, goes_first, job_name, of, ordinal
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


def _behind(case: Case) -> Iterator[Sentence]:
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


def _limit(case: Case) -> Iterator[Sentence]:
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


def _capacity(case: Case) -> Iterator[Sentence]:
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


def _placement(case: Case) -> Iterator[Sentence]:
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


def _held_back(case: Case) -> Iterator[Sentence]:
    other, resource = case.blocker, case.resource
    if other is None:
        yield Sentence(Kind.WHY, "What is free is kept for another job, whose quota is owed it.")
    else:
        owner = case.quotas.get((other["pool"], other["quota"]))
        owed = f", and {_share(owner)}" if owner else ""
        yield Sentence(
            Kind.WHY,
            f"What is free is kept for job {named(other)}, which needs {_needs(other, resource)}{owed}.",
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


def _parked(case: Case) -> Iterator[Sentence]:
    bounds = list(_too_small(case))
    for text in bounds or [
        "No nodes of its pool can ever hold it as it asks: the number, the type or the size of the nodes does not suffice."
    ]:
        yield Sentence(Kind.WHY, f"It can never start as it is. {text}")
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


WHY: dict[Outcome, Callable[[Case], Iterator[Sentence]]] = {
    Outcome.STARTS: _starts,
    Outcome.BEHIND: _behind,
    Outcome.LIMIT: _limit,
    Outcome.CAPACITY: _capacity,
    Outcome.PLACEMENT: _placement,
    Outcome.HELD_BACK: _held_back,
    Outcome.PARKED: _parked,
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


def named(job: Row) -> str:
    """Return a job of somebody with its owner."""
    return f"{job_name(job)} ({printable(job['user'])}, {printable(job['quota']) or 'no quota'})"


SHORT = {
    Outcome.BEHIND: "it stands behind another job itself",
    Outcome.STARTS: "it is let start now",
    Outcome.LIMIT: "it waits because of a limit of its quota",
    Outcome.CAPACITY: "it waits because too little is free",
    Outcome.PLACEMENT: "it waits because Slurm found no place for it",
    Outcome.HELD_BACK: "it waits because what is free is kept for a job of another quota",
    Outcome.PARKED: "it can never start as it is",
}


def why_short(job: Row) -> str:
    return (
        SHORT[Outcome(job["outcome"])]
        if job["outcome"] >= 0
        else f"Slurm's reason for it: {slurm_reason(job)}"
    )


def slurm_reason(job: Row) -> str:
    return printable(job["reason_text"] or job["reason"] or "None")


def _needs(job: Row, resource: str) -> str:
    return of(job[COLUMN_OF[resource]], resource)


def admitted_now(case: Case) -> float:
    """Return what the jobs get that were admitted in the last pass."""
    top = (row for row in case.view.quotas if row["pool"] == case.job["pool"] and not row["parent"])
    return float(sum(row["after_pass"] - row["allocated"] for row in top))


def per_node(case: Case) -> str:
    """Return what a job needs on each node."""
    job = case.job
    if len(case.parts) > 1:
        return "room for all its components at once"
    where = "on one node" if job["nodes"] <= 1 else f"on each of {job['nodes']} nodes"
    count = max(1, job["nodes"])
    asked = [(name, job[column] / count) for name, column in COLUMN_OF.items() if job[column]]
    amounts = [of(ceil(value), name) for name, value in asked]
    if job["gpus"] and job["gpu_type"]:
        amounts[0] += f" of type {printable(job['gpu_type'])}"
    return f"{', '.join(amounts)} {where}"


def be(value: float) -> str:
    return "is" if value == 1 else "are"

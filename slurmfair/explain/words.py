"""Words about jobs that several sentences share."""

from __future__ import annotations

from math import ceil

from slurmfair.cli.text import printable
from slurmfair.explain.case import COLUMN_OF, Case, Row, job_name, of
from slurmfair.model import Outcome


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


def needs(job: Row, resource: str) -> str:
    return of(job[COLUMN_OF[resource]], resource)


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

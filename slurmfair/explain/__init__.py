"""Why a job waits and what has to happen, as sentences made from the published view. Nothing is guessed."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from slurmfair.cli.job_ids import JobId, rows_of
from slurmfair.cli.rows import state_of
from slurmfair.cli.text import Clock, printable
from slurmfair.explain.case import Case, case_of, counted, job_name, wanted
from slurmfair.explain.nodes import node_room
from slurmfair.explain.outside import outside, partitions_of
from slurmfair.explain.queue import in_queue
from slurmfair.explain.terms import Explanation, Kind, Sentence
from slurmfair.model import Outcome
from slurmfair.standing import Standing
from slurmfair.view import View

MOST = 20  # records of one array that are explained one by one


def explain(view: View, asked: JobId, clock: Clock) -> list[Explanation]:
    """Return an explanation of each record that a job id asks for, waiting ones first; [] for an unknown job.

    A heterogeneous job is one entry and gets one explanation, unless a component was asked for.
    """
    rows = np.flatnonzero(rows_of(view, [asked]))
    chosen = [row for row in rows.tolist() if asked.component >= 0 or view.jobs["het_offset"][row] <= 0]
    chosen.sort(key=lambda row: bool(view.jobs["standing"][row] >= Standing.RUNNING))
    return [explained(case_of(view, row, clock)) for row in chosen[:MOST]]


def explained(case: Case) -> Explanation:
    """Return what is to be said about one entry."""
    job = case.job
    sentences = tuple(in_queue(case) if case.outcome is not None and job["quota"] else outside(case))
    return Explanation(
        job_id=job["job_id"],
        name=job_name(job),
        code=_code(case),
        headline=_headline(case),
        sentences=sentences,
        waits_for=job["blocker"] if case.outcome is not None else -1,
        nodes=node_room(case) if case.outcome in (Outcome.CAPACITY, Outcome.PLACEMENT) else None,
    )


def _code(case: Case) -> str:
    """Return the outcome of the pass, or what the job is to us."""
    if case.outcome is not None and case.job["quota"]:
        return case.outcome.name
    state = state_of(case.job["standing"], case.job["outcome"], case.job["quota"])
    return "UNMANAGED" if state == "unmanaged" else Standing(case.job["standing"]).name


VERBS = {
    Standing.RUNNING: "runs",
    Standing.LATE_HOLD: "runs",
    Standing.SUSPENDED: "is suspended",
    Standing.ENDED: "has ended",
}


def _headline(case: Case) -> str:
    job = case.job
    verb = VERBS.get(Standing(job["standing"]), "waits")
    where = f"quota {printable(job['quota'])}" if job["quota"] else "no quota"
    tasks = f"{counted(job['tasks'], 'task')}, each " if job["task_list"] and job["tasks"] > 1 else ""
    return f"Job {job_name(job)} of {printable(job['user'])} {verb}: {tasks}{wanted(case)}, {where}."


def unknown(view: View, text: str, private: bool) -> Explanation:
    """Return what can be said about a job that is not in the view, or that the caller may not see."""
    places = partitions_of(view.about["pools"])
    hidden = (
        " It may also belong to somebody else: other users' jobs are private here (PrivateData=jobs)."
        if private
        else ""
    )
    return Explanation(
        job_id=-1,
        name=text,
        code="NOT_FOUND",
        headline=f"Job {text} neither waits nor runs in the partitions that slurmfair manages ({places}).",
        sentences=tuple(_unknown(text, hidden)),
    )


def _unknown(text: str, hidden: str) -> Iterable[Sentence]:
    yield Sentence(
        Kind.WHY,
        "It may have ended, be in another partition, have come after the last decision, or never have existed."
        + hidden,
    )
    yield Sentence(Kind.ADVICE, f"Slurm knows more: squeue -j {text}, or sacct -j {text} once it has ended.")

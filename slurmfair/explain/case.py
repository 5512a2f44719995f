"""The facts of one job, taken from the published view, and the words for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from slurmfair.cli.job_ids import shown
from slurmfair.cli.rows import aged, of_quotas
from slurmfair.cli.text import Clock, amount, printable, words
from slurmfair.model import Outcome
from slurmfair.standing import Standing
from slurmfair.view import View

Row = Mapping[str, Any]
COLUMN_OF = {"gres/gpu": "gpus", "cpu": "cpus", "mem": "mem_mib"}
UNITS = {"gres/gpu": "GPU", "cpu": "CPU", "mem": "MiB"}
POLICIES = {"fifo": "FIFO", "round_robin": "Round Robin", "balance": "Balance", "intelligent": "Intelligent"}
IN_LINE = (Standing.OPEN, Standing.HELD, Standing.GATED)


@dataclass(frozen=True, slots=True)
class Case:
    """One entry of a queue (a job, an array's waiting tasks, a whole heterogeneous job) and what surrounds it."""

    view: View
    job: Row
    parts: tuple[Row, ...]  # the components of a heterogeneous job; the job alone otherwise
    clock: Clock
    quotas: Mapping[tuple[str, str], Row] = field(repr=False)

    @property
    def now_s(self) -> int:
        return int(self.view.about["now_s"])

    @property
    def outcome(self) -> Outcome | None:
        """What the last pass found, None for a job that is in no queue."""
        in_line = self.job["standing"] in IN_LINE and self.job["outcome"] >= 0
        return Outcome(self.job["outcome"]) if in_line else None

    @property
    def quota(self) -> Row:
        return self.quotas[self.job["pool"], self.job["quota"]]

    @property
    def path(self) -> list[Row]:
        """Return the job's quota and all above it."""
        rows = [self.quota]
        while rows[-1]["parent"]:
            rows.append(self.quotas[self.job["pool"], rows[-1]["parent"]])
        return rows

    @property
    def pool(self) -> Row:
        return next(row for row in self.view.about["pools"] if row["pool"] == self.job["pool"])

    @property
    def settings(self) -> Row:
        """Return the settings of the queue policy (config.QueuePolicy)."""
        found: Row = self.quota["policy_settings"]
        return found

    @property
    def resource(self) -> str:
        return str(self.pool["resource"])

    def need(self, resource: str) -> int:
        """Return what must be free at once: of one task, or of all components together."""
        return int(sum(part[COLUMN_OF[resource]] for part in self.parts))

    @property
    def blocker(self) -> Row | None:
        """Return the job it stands behind or is held back for, None if there is none or it may not be seen."""
        return row_of(self.view, int(self.job["blocker"]))

    def of_job(self, job: Row) -> Case:
        """Return the case of another job."""
        found = np.flatnonzero(self.view.jobs["job_id"] == job["job_id"])
        return case_of(self.view, int(found[0]), self.clock)

    def at(self, moment_s: float) -> str:
        """Return a moment in both forms: the clock's, and from now."""
        away = moment_s - self.now_s
        near = f"in {words(away)}" if away > 0 else f"{words(-away)} ago"
        return f"{self.clock(moment_s)} ({near})"


def row_of(view: View, job_id: int) -> Row | None:
    """Return the record with this id."""
    if job_id <= 0:
        return None
    rows = np.flatnonzero(view.jobs["job_id"] == job_id)
    return view.row(int(rows[0])) if len(rows) else None


def case_of(view: View, row: int, clock: Clock) -> Case:
    """Return the case of one record."""
    job = view.row(row)
    parts: tuple[Row, ...] = (job,)
    if job["het_id"] > 0:
        rows = np.flatnonzero(view.jobs["het_id"] == job["het_id"])
        parts = tuple(view.row(int(one)) for one in rows)
    return Case(view, job, parts, clock, of_quotas(view))


def admitted_now(case: Case) -> float:
    """Return what the jobs get that were admitted in the last pass."""
    top = (row for row in case.view.quotas if row["pool"] == case.job["pool"] and not row["parent"])
    return float(sum(row["after_pass"] - row["allocated"] for row in top))


def job_name(job: Row) -> str:
    """Return the id as squeue shows it."""
    return shown(
        job["job_id"], job["array_id"], job["array_task"], job["task_list"], job["het_id"], job["het_offset"]
    )


def of(value: float, resource: str) -> str:
    """Return an amount with its unit, such as "4 GPUs"."""
    unit = UNITS[resource]
    plural = "" if value == 1 or unit == "MiB" else "s"
    return f"{amount(value)} {unit}{plural}"


def counted(value: int, thing: str) -> str:
    """Return a number of things."""
    return f"{value} {thing}" + ("" if value == 1 else "s")


def ordinal(place: int) -> str:
    ending = "th" if place % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(place % 10, "th")
    return f"{place}{ending}"


def wanted(case: Case) -> str:
    """Return what a job asks for, such as "4 GPUs (h100) on 2 nodes"."""
    job = case.job
    if len(case.parts) > 1:
        return f"{of(case.need(case.resource), case.resource)} in {counted(len(case.parts), 'component')}"
    kind = f" ({printable(job['gpu_type'])})" if job["gpu_type"] else ""
    nodes = counted(int(job["nodes"]), "node")
    if not job["gpus"]:
        return f"{of(job['cpus'], 'cpu')} on {nodes}"
    return f"{of(job['gpus'], 'gres/gpu')}{kind} on {nodes}"


def goes_first(job: Row, other: Row, by_submit: bool, high: int | None) -> str:
    """Return why `other` stands before `job` in the order of their quota, with the numbers.

    `high` is the threshold of Intelligent's high lane, None under other policies.
    """
    if high is not None and other["base"] >= high > job["base"]:
        return f"its priority {other['base']} is in the high lane ({high} and more), this job's {job['base']} is not"
    if not by_submit and other["effective"] != job["effective"]:
        mine, its = (aged(one["base"], one["effective"]) for one in (job, other))
        return f"its priority {its} is higher than this job's {mine}"
    alike = "" if by_submit else f"both have priority {job['effective']:.3g}, and "
    if other["order_s"] != job["order_s"]:
        return f"{alike}it has been in line for {words(abs(job['order_s'] - other['order_s']))} longer"
    return f"{alike}both came in the same second; the lower job id goes first"

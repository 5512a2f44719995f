"""The fields of sfprio: letter, names, header and how a cell is made. Letters that sprio has mean the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from slurmfair.cli.job_ids import shown
from slurmfair.cli.rows import Rows, aged, reason_of
from slurmfair.cli.text import span
from slurmfair.model import FOREVER_S
from slurmfair.view import Column

NO_VALUE = "N/A"
HIGHEST = 0xFFFFFFFF  # priorities are 32 bit numbers in Slurm; sprio normalises by the highest

Cells = Callable[[Rows], list[Any]]


@dataclass(frozen=True, slots=True)
class Field:
    """One kind of cell. `names` are for `Field:width`, the first one in --helpformat."""

    letter: str
    names: tuple[str, ...]
    header: str
    about: str
    cells: Cells
    key: str = ""  # column of the view to sort by; "" sorts by the cells, which takes longer


def _text(column: str) -> Cells:
    return lambda rows: rows.texts(column)


def _number(column: str) -> Cells:
    return lambda rows: rows.numbers(column)


def _moment(column: str) -> Cells:
    return lambda rows: [rows.clock(at_s) if at_s > 0 else NO_VALUE for at_s in rows.numbers(column)]


def _since(column: str) -> Cells:
    def cells(rows: Rows) -> list[Any]:
        return [span(rows.now_s - at_s) if at_s >= 0 else "-" for at_s in rows.numbers(column)]

    return cells


def _unknown(rows: Rows) -> list[Any]:
    """A part of Slurm's own priority, which slurmctld tells sprio and nobody else."""
    return [NO_VALUE] * len(rows.rows)


def _ids(rows: Rows) -> list[Any]:
    parts = (rows.numbers(name) for name in ("job_id", "array_id", "array_task"))
    het = (rows.numbers(name) for name in ("het_id", "het_offset"))
    job, array, task = parts
    return list(map(shown, job, array, task, rows.texts("task_list"), *het))


def _effective(rows: Rows) -> list[Any]:
    pairs = zip(rows.numbers("base"), rows.numbers("effective"), strict=True)
    return [aged(base, effective) for base, effective in pairs]


def _reasons(rows: Rows) -> list[Any]:
    blockers, slurm = rows.numbers("blocker"), rows.texts("reason")
    named = zip(rows.states, rows.numbers("outcome"), blockers, slurm, strict=True)
    return [reason_of(*one) for one in named]


def _slurm_reasons(rows: Rows) -> list[Any]:
    return [text or "None" for text in rows.texts("reason")]


def _norm(rows: Rows) -> list[Any]:
    return [f"{priority / HIGHEST:.14f}" for priority in rows.numbers("priority")]


def _ratio(rows: Rows) -> list[Any]:
    return ["-" if value is None else f"{value:.3f}" for value in rows.quota_fact("ratio")]


def _entitled(rows: Rows) -> list[Any]:
    return ["-" if value is None else "yes" if value else "no" for value in rows.quota_fact("entitled")]


def _quota_priority(rows: Rows) -> list[Any]:
    return ["-" if value is None else value for value in rows.quota_fact("priority")]


def _positive(column: str) -> Cells:
    return lambda rows: [value if value > 0 else "-" for value in rows.numbers(column)]


def _time_limits(rows: Rows) -> list[Any]:
    return ["UNLIMITED" if value >= FOREVER_S else span(value) for value in rows.numbers("time_limit_s")]


def _cluster(rows: Rows) -> list[Any]:
    return [str(rows.view.about.get("cluster", ""))] * len(rows.rows)


# A field is one row.
# fmt: off
FIELDS = (
    Field("i", ("JobArrayID", "JobID"), "JOBID", "job id as squeue shows it", _ids, "job_id"),
    Field("r", ("Partition",), "PARTITION", "partition; several with commas", _text("partition"), "partition"),
    Field("u", ("UserName", "User"), "USER", "user", _text("user"), "user"),
    Field("o", ("Account",), "ACCOUNT", "account", _text("account"), "account"),
    Field("n", ("QOS", "QOSName"), "QOSNAME", "QOS", _text("qos"), "qos"),
    Field("c", ("Cluster",), "CLUSTER", "cluster", _cluster),
    Field("Y", ("PriorityLong", "Priority"), "PRIORITY", "Slurm's priority, as last read", _number("priority"), "priority"),
    Field("y", ("NormPriority",), "PRIORITY", "Slurm's priority over the highest there is", _norm, "priority"),
    Field("S", ("Rank", "Site"), "SITE", "the rank that slurmfair gives it (site factor)", _number("rank"), "rank"),
    Field("N", ("Nice",), "NICE", "the user's nice", _number("nice"), "nice"),
    Field("a", ("NormAge",), "AGE", "normalised age", _unknown),
    Field("A", ("AgePriority",), "AGE", "age", _unknown),
    Field("b", ("NormAssoc",), "ASSOC", "normalised association", _unknown),
    Field("B", ("AssocPriority",), "ASSOC", "association", _unknown),
    Field("f", ("NormFairShare",), "FAIRSHARE", "normalised fair share of Slurm", _unknown),
    Field("F", ("FairSharePriority",), "FAIRSHARE", "fair share of Slurm", _unknown),
    Field("j", ("NormJobSize",), "JOBSIZE", "normalised size", _unknown),
    Field("J", ("JobSizePriority",), "JOBSIZE", "size", _unknown),
    Field("p", ("NormPartition",), "PARTITION", "normalised partition", _unknown),
    Field("P", ("PartitionPriority",), "PARTITION", "partition's priority", _unknown),
    Field("q", ("NormQOS",), "QOS", "normalised QOS", _unknown),
    Field("Q", ("QOSPriority",), "QOS", "priority of the QOS", _unknown),
    Field("s", ("SLUID",), "SLUID", "Slurm's own long id", _unknown),
    Field("t", ("NormTRES",), "TRES", "normalised TRES", _unknown),
    Field("T", ("TRESPriority",), "TRES", "TRES", _unknown),
    Field("g", ("Quota",), "QUOTA", "path of its quota", _text("quota"), "quota"),
    Field("G", ("Pool",), "POOL", "pool", _text("pool"), "pool"),
    Field("m", ("Policy",), "POLICY", "policy of its queue", _text("policy"), "policy"),
    Field("d", ("JobPriority",), "PRIO", "job priority, 1 to 9", _number("base"), "base"),
    Field("e", ("EffectivePriority",), "PRIO", "job priority with its ageing, such as 3->5", _effective, "effective"),
    Field("k", ("Position",), "POS", "position in its quota's order", _positive("position"), "position"),
    Field("K", ("Place",), "PLACE", "place in its pool's order", _positive("place"), "place"),
    Field("x", ("State",), "STATE", "what it is to slurmfair", lambda rows: list(rows.states)),
    Field("z", ("Reason",), "REASON", "why it waits", _reasons),
    Field("Z", ("SlurmReason",), "SLURM_REASON", "Slurm's reason", _slurm_reasons),
    Field("X", ("Blocker",), "BLOCKER", "the job it stands behind or is held back for", _positive("blocker"), "blocker"),
    Field("w", ("Waiting", "PendingTime"), "WAITING", "how long it has waited", _since("waiting_s"), "waiting_s"),
    Field("W", ("WaitingSince",), "WAITING_SINCE", "since when it waits", _moment("waiting_s"), "waiting_s"),
    Field("h", ("Tried",), "TRIED", "how long it has been tried in vain", _since("first_attempt_s"), "first_attempt_s"),
    Field("H", ("FirstAttempt",), "FIRST_ATTEMPT", "when it was first tried in vain", _moment("first_attempt_s"), "first_attempt_s"),
    Field("O", ("OrderTime",), "ORDER_TIME", "time that orders jobs of one priority", _moment("order_s"), "order_s"),
    Field("V", ("SubmitTime",), "SUBMIT_TIME", "when it was submitted", _moment("submit_s"), "submit_s"),
    Field("E", ("EligibleTime",), "ELIGIBLE_TIME", "since when it is eligible", _moment("eligible_s"), "eligible_s"),
    Field("R", ("StartTime",), "START_TIME", "when it started, or Slurm's plan", _moment("start_s"), "start_s"),
    Field("L", ("TimeLimit",), "TIME_LIMIT", "time limit", _time_limits, "time_limit_s"),
    Field("I", ("GPUs",), "GPUS", "GPUs of one task", _number("gpus"), "gpus"),
    Field("C", ("NumCPUs", "CPUs"), "CPUS", "CPUs of one task", _number("cpus"), "cpus"),
    Field("D", ("NumNodes", "Nodes"), "NODES", "nodes of one task", _number("nodes"), "nodes"),
    Field("l", ("Entitled",), "ENTITLED", "whether its quota is entitled to more", _entitled),
    Field("v", ("Ratio",), "RATIO", "what its quota holds over its fair share", _ratio),
    Field("U", ("QuotaPriority",), "QPRIO", "priority of its quota", _quota_priority),
    Field("M", ("Name",), "NAME", "name", _text("name"), "name"),
)
# fmt: on
BY_LETTER = {one.letter: one for one in FIELDS}
BY_NAME = {name.lower(): one for one in FIELDS for name in one.names}


def sort_key(rows: Rows, asked: Field) -> Column:
    """Return numbers to sort the rows by."""
    if asked.key:
        column = rows.view.jobs[asked.key][rows.rows]
        return _alphabetical(rows.view.texts[asked.key])[column] if asked.key in rows.view.texts else column
    cells = asked.cells(rows)
    place = {cell: n for n, cell in enumerate(sorted(set(cells), key=_numbers_last))}
    return np.asarray([place[cell] for cell in cells], dtype=np.int64)


def _alphabetical(values: list[str]) -> Column:
    """Return the place of each text in alphabetical order."""
    place = np.empty(len(values), dtype=np.int64)
    place[sorted(range(len(values)), key=values.__getitem__)] = np.arange(len(values))
    return place


def _numbers_last(cell: object) -> tuple[bool, float, str]:
    return (True, float(cell), "") if isinstance(cell, int) else (False, 0.0, str(cell))

"""Runs of jobs from slurmdbd: read in chunks, each run once, with its true start and end.

Our own edge asks for all runs, also those before a requeue; through pyslurm only a job's last run can be had.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Protocol

import numpy as np

from slurmfair.model import Coded, Ints, RunTable
from slurmfair.slurm import parse
from slurmfair.slurm.attributes import Record, coded, text_of, tres_text

if TYPE_CHECKING:
    from slurmfair.slurm._accounting import Accounting

CHUNK_S = 86400
MOST_CHUNKS = 200


@dataclass(frozen=True, slots=True)
class RawRuns:
    """Accounting's fields under Slurm's names; `tres` and `qos` are names, not numbers."""

    numbers: Mapping[str, Ints]
    texts: Mapping[str, Sequence[str]]


class Source(Protocol):
    """A way to accounting. Errors are OSError or pyslurm's."""

    def chunk(self, cluster: str, since_s: int, until_s: int) -> RawRuns:
        """Return the runs that overlap a window."""

    def close(self) -> None:
        """Let go of the connection."""


def all_runs(
    source: Source, cluster: str, since_s: int, until_s: int, progress: Callable[[float], None] | None
) -> RunTable:
    """Return the runs of a cluster that overlap a window; `progress` hears the share done after each chunk.

    The connection serves one read: slurmdbd answers all that comes over it from one snapshot of its database,
    taken at the first question (docs/decisions/0017).
    """
    parts = []
    try:
        for start_s, end_s in chunks(since_s, until_s):
            parts.append(source.chunk(cluster, start_s, end_s))
            if progress:
                progress((end_s - since_s) / (until_s - since_s))
    finally:
        source.close()
    return run_table(parts)


def chunks(since_s: int, until_s: int) -> Iterator[tuple[int, int]]:
    """Return windows of a day, longer ones if there were too many, that cover the whole window."""
    step_s = max(CHUNK_S, -(-(until_s - since_s) // MOST_CHUNKS))
    for start_s in range(since_s, until_s, step_s):
        yield start_s, min(start_s + step_s, until_s)


def run_table(parts: Sequence[RawRuns]) -> RunTable:
    """Return the runs that did start, each once, oldest first; the last reading of a run is the right one."""
    if not parts:
        return run_table([_nothing()])
    number = {name: np.concatenate([part.numbers[name] for part in parts]) for name in parts[0].numbers}
    text = {name: [word for part in parts for word in part.texts[name]] for name in parts[0].texts}
    started = (number["start"] > 0) & (number["start"] < parse.NO_VAL)
    last = len(started) - 1 - np.unique(number["db_index"][::-1], return_index=True)[1]
    rows = last[started[last]]
    rows = rows[np.lexsort((number["jobid"][rows], number["start"][rows]))]
    tres = _column(text["tres"], rows)
    amounts = np.array([parse.tres(value)[:3] for value in tres.values], dtype=np.int64).reshape(-1, 3)
    task = number["array_task_id"][rows]
    return RunTable(
        job_id=number["jobid"][rows],
        array_id=number["array_job_id"][rows],
        array_task=np.where(task == parse.NO_VAL, -1, task),
        submit_s=number["submit"][rows],
        start_s=number["start"][rows],
        end_s=number["end"][rows],
        suspended_s=number["suspended"][rows],
        resources=amounts[tres.codes],
        nodes=number["alloc_nodes"][rows],
        state=number["state"][rows],
        user=_column(text["user"], rows),
        account=_column(text["account"], rows),
        partition=_column(text["partition"], rows),
        qos=_column(text["qos"], rows),
        name=_column(text["jobname"], rows),
    )


def _column(texts: Sequence[str], rows: Ints) -> Coded:
    """Return some rows of a column of texts."""
    return coded([texts[row] for row in rows.tolist()])


class OwnAccounting:
    """slurmdbd through our own edge; the connection is opened when needed."""

    def __init__(self) -> None:
        """Load our edge; pyslurm must be loaded before. Raises ModuleNotFoundError where it was not built."""
        import slurmfair.slurm._accounting as _accounting

        self._own = _accounting
        self._open: Accounting | None = None
        self._tres: dict[int, str] = {}
        self._qos: dict[int, str] = {}

    def chunk(self, cluster: str, since_s: int, until_s: int) -> RawRuns:
        """Return the runs that overlap a window."""
        found = self._connection().runs(cluster, since_s, until_s)
        numbers = np.empty((len(self._own.NUMBERS), len(found)), dtype=np.int64)
        words = dict(zip(self._own.TEXTS, found.columns(numbers), strict=True))
        number = dict(zip(self._own.NUMBERS, numbers, strict=True))
        return RawRuns(number, {
            **words,
            "tres": [parse.named_tres(text, self._tres) for text in words["tres_alloc_str"]],
            "qos": [self._qos.get(qos, "") for qos in number["qosid"].tolist()],
        })  # fmt: skip

    def close(self) -> None:
        """Let go of the connection."""
        if self._open:
            self._open.close()
        self._open = None

    def _connection(self) -> Accounting:
        """Return the connection, opened and with fresh names if there was none."""
        if self._open is None:
            self._open = self._own.Accounting()
            self._tres, self._qos = self._open.tres_names(), self._open.qos_names()
        return self._open


class PyslurmAccounting:
    """slurmdbd through pyslurm."""

    def __init__(self, pyslurm: ModuleType) -> None:
        self._pyslurm = pyslurm

    def chunk(self, cluster: str, since_s: int, until_s: int) -> RawRuns:
        """Return the runs that overlap a window."""
        wanted = self._pyslurm.db.JobFilter(start_time=since_s, end_time=until_s, clusters=[cluster])
        return raw_runs(list(self._pyslurm.db.Jobs.load(wanted).values()))

    def close(self) -> None:
        """Do nothing: each request has its own connection."""


NUMBERS = {
    "jobid": "id",
    "array_job_id": "array_id",
    "db_index": "db_index",
    "submit": "submit_time",
    "start": "start_time",
    "end": "end_time",
    "suspended": "suspended_time",
    "alloc_nodes": "num_nodes",
}
TEXTS = {"user": "user_name", "account": "account", "partition": "partition", "qos": "qos", "jobname": "name"}


def raw_runs(jobs: Sequence[Record]) -> RawRuns:
    """Return pyslurm's accounting records as columns."""
    numbers = {name: [_int(getattr(job, attribute)) for job in jobs] for name, attribute in NUMBERS.items()}
    numbers["db_index"] = [_signed(index) for index in numbers["db_index"]]
    numbers["state"] = [parse.state_number(str(job.state)) for job in jobs]
    numbers["array_task_id"] = [_int(job.array_task_id) if job.array_id else parse.NO_VAL for job in jobs]
    texts = {name: [text_of(job, attribute) for job in jobs] for name, attribute in TEXTS.items()}
    texts["tres"] = [tres_text(job.allocated_tres) for job in jobs]
    return RawRuns({name: np.array(column, dtype=np.int64) for name, column in numbers.items()}, texts)


def _nothing() -> RawRuns:
    """Return no runs at all."""
    return raw_runs([])


def _int(value: object) -> int:
    """Return a number, 0 for none."""
    return value if isinstance(value, int) else 0


def _signed(number: int) -> int:
    """Return an unsigned 64-bit number as a signed one with the same bits."""
    return number - (1 << 64) if number >= 1 << 63 else number

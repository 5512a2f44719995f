"""Job ids as Slurm writes them: 123, 123_4, 123_[4-9%2], 123+1."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from math import gcd

import numpy as np

from slurmfair.errors import SlurmfairError
from slurmfair.view import Column, View

_ID = re.compile(r"(\d{1,10})(?:_(\d{1,9})|_\[([\d,:%-]+)\]|_(\*)|\+(\d{1,4}))?", re.ASCII)
_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9})(?::(\d{1,9}))?)?", re.ASCII)
_FORMS = "write 123, 123_4 or 123_[4-9] for tasks of an array, 123+1 for a component of a heterogeneous job"


@dataclass(frozen=True, slots=True)
class JobId:
    """What a job id asks for: a whole job, some tasks of an array, or one component."""

    number: int
    tasks: tuple[range, ...] = ()  # () for all
    component: int = -1  # -1 for all
    text: str = ""  # as it was written

    def __str__(self) -> str:
        return self.text or str(self.number)


def job_ids(text: str) -> list[JobId]:
    """Return the ids of a comma separated list.

    Raises:
        SlurmfairError: one is not a job id.
    """
    return [job_id(part) for part in re.split(r",(?![^\[]*\])", text) if part.strip()]


def job_id(text: str) -> JobId:
    """Return what one id means.

    Raises:
        SlurmfairError: it is none.
    """
    found = _ID.fullmatch(text.strip())
    if found is None:
        raise SlurmfairError(f"Invalid job id: {text.strip()[:60]}; {_FORMS}")
    number, task, listed, _, component = found.groups()
    tasks = (range(int(task), int(task) + 1),) if task else task_ranges(listed or "")
    return JobId(int(number), tasks, int(component) if component else -1, text.strip())


def task_ranges(listed: str) -> tuple[range, ...]:
    """Return the tasks of a list such as "4-9%2" or "1-119:2,130" without writing them all down."""
    parts = (_RANGE.fullmatch(part) for part in listed.partition("%")[0].split(","))
    return tuple(
        range(int(part[1]), int(part[2] or part[1]) + 1, max(1, int(part[3] or 1))) for part in parts if part
    )


def overlap(one: range, other: range) -> bool:
    """Tell whether two ranges have a number in common, in constant time."""
    if not one or not other:
        return False
    common = gcd(one.step, other.step)
    apart, rest = divmod(other.start - one.start, common)
    if rest:
        return False
    turns = other.step // common
    first = one.start + apart * pow(one.step // common, -1, turns) % turns * one.step
    both = one.step * turns
    first += max(0, -((first - max(one.start, other.start)) // both)) * both
    return first < min(one.stop, other.stop)


def rows_of(view: View, asked: Iterable[JobId]) -> Column:
    """Return a mask of the records that the ids ask for.

    A plain id finds the record, every record of that array, and every component of that heterogeneous job.
    """
    wanted = np.zeros(len(view), dtype=np.bool_)
    whole = [one.number for one in asked if not one.tasks and one.component < 0]
    if whole:
        for column in ("job_id", "array_id", "het_id"):
            wanted |= np.isin(view.jobs[column], whole)
    for one in asked:
        if one.component >= 0:
            wanted |= (view.jobs["het_id"] == one.number) & (view.jobs["het_offset"] == one.component)
        for row in np.flatnonzero(view.jobs["array_id"] == one.number) if one.tasks else ():
            wanted[row] |= _has_task(view, int(row), one.tasks)
    return wanted


def _has_task(view: View, row: int, asked: tuple[range, ...]) -> bool:
    task = int(view.jobs["array_task"][row])
    if task >= 0:
        return any(task in tasks for tasks in asked)
    waiting = task_ranges(view.text("task_list", row))
    return any(overlap(tasks, some) for tasks in asked for some in waiting)


def shown(job: int, array: int, task: int, listed: str, leader: int, component: int) -> str:
    """Return a record's id as squeue shows it."""
    if leader > 0 and component >= 0:
        return f"{leader}+{component}"
    if array <= 0:
        return str(job)
    if task >= 0:
        return f"{array}_{task}"
    return f"{array}_[{listed}]" if listed else str(array)

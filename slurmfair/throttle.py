"""How many tasks of an array run at once: the array's own bound, and ours while only a part of it may start.

An array is one record, and Slurm starts as many of its tasks as it can. Where a pass lets only some of them
go, the record goes out with a bound, and the array's own is noted in the admin comment (SLURM.md 4.1).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slurmfair.model import Bools, Bytes, Change, Ints, JobTable
from slurmfair.slurm.parse import (
    BASE_STATE,
    BaseState,
    Tag,
    Throttle,
    Waits,
    throttle_of,
    with_tag,
    with_throttle,
)
from slurmfair.standing import WAITS

LEAVE = -1


@dataclass(frozen=True, slots=True)
class Throttles:
    """The bounds of every record's array, shape (n_jobs,); 0 for none."""

    own: Ints  # set by the user
    ours: Ints  # in force now in the place of it
    noted: Bools  # the record that leads the array carries our note, whatever became of the bound
    at_work: Ints  # running and suspended tasks of the array: Slurm counts both


def throttles_of(jobs: JobTable) -> Throttles:
    """Return the bounds. Ours counts as long as nobody has changed it since; it then holds for split tasks too."""
    found = [throttle_of(text) for text in jobs.admin_comment.values]
    leads = (jobs.array_id > 0) & (jobs.job_id == jobs.array_id)
    noted = leads & np.asarray([one is not None for one in found] or [False])[jobs.admin_comment.codes]
    own, ours = jobs.tasks_throttle.copy(), np.zeros(len(jobs), dtype=np.int64)
    for row in np.flatnonzero(noted).tolist():
        note = found[jobs.admin_comment.codes[row]]
        if note is not None and note.ours == jobs.tasks_throttle[row]:
            tasks = jobs.array_id == jobs.array_id[row]
            own[tasks], ours[tasks] = note.own, note.ours
    return Throttles(own, ours, noted, tasks_at_work(jobs))


def tasks_at_work(jobs: JobTable) -> Ints:
    """Return how many tasks of each record's array run or are suspended, 0 for plain jobs."""
    base = jobs.state & BASE_STATE
    busy = (jobs.array_id > 0) & ((base == BaseState.RUNNING) | (base == BaseState.SUSPENDED))
    if not busy.any():
        return np.zeros(len(jobs), dtype=np.int64)
    ids, counts = np.unique(jobs.array_id[busy], return_counts=True)
    place = np.minimum(np.searchsorted(ids, jobs.array_id), len(ids) - 1)
    return np.where(ids[place] == jobs.array_id, counts[place], 0).astype(np.int64)


def startable_tasks(jobs: JobTable, throttles: Throttles) -> Ints:
    """Return how many tasks of each record its user lets start now: 1 for a plain job."""
    bounded = (throttles.own > 0) & (jobs.state == BaseState.PENDING)
    left = np.clip(throttles.own - throttles.at_work, 0, jobs.tasks_waiting)
    return np.where(bounded, left, jobs.tasks_waiting)


def without_ours(jobs: JobTable, reasons: Bytes, throttles: Throttles) -> Bytes:
    """Return the classes of reasons, those of tasks that our bound keeps back as waiting their turn."""
    if not throttles.ours.any():
        return reasons
    limited = np.asarray([name == "JobArrayTaskLimit" for name in jobs.reason.values] or [False])
    kept_back = (throttles.ours > 0) & limited[jobs.reason.codes]
    return np.where(kept_back, np.uint8(WAITS.index(Waits.TURN)), reasons)


def wanted_throttle(jobs: JobTable, throttles: Throttles, rows: Ints, tasks: Ints, may_start: Ints) -> Ints:
    """Return the bound to write to each of these records, LEAVE for none, shape (n,).

    `tasks` may start as far as the user goes, `may_start` as far as the pass does; 0 for a record that is held.
    """
    leads = (jobs.array_id[rows] > 0) & (jobs.job_id[rows] == jobs.array_id[rows])
    in_part = leads & (may_start > 0) & (may_start < tasks)
    bound = np.where(in_part, throttles.at_work[rows] + may_start, throttles.own[rows])
    stale = throttles.noted[rows] & (throttles.ours[rows] == 0)
    return np.where(leads & ((bound != jobs.tasks_throttle[rows]) | stale), bound, LEAVE)


def text_with_throttle(text: str, throttle: int, own: int) -> str:
    """Return the admin comment that goes out with a bound; a bound that is the array's own needs no note."""
    if throttle == own:
        return with_throttle(text, None)
    return with_throttle(with_tag(text, Tag.FREE), Throttle(throttle, own))


def restored(jobs: JobTable, throttles: Throttles, row: int, why: str) -> Change:
    """Return the change that gives an array its own bound back."""
    text = text_with_throttle(jobs.admin_comment[row], int(throttles.own[row]), int(throttles.own[row]))
    return Change(int(jobs.job_id[row]), throttle=int(throttles.own[row]), tag=text, why=why)

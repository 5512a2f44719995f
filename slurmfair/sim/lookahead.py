"""What backfill knows of the future: when running jobs end at the latest, and which nodes are reserved when."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from slurmfair.model import Bools, Ints
from slurmfair.sim.job import Allocation, Job
from slurmfair.slurm.parse import BaseState

if TYPE_CHECKING:
    from slurmfair.sim.controller import Controller

Group = Sequence[tuple[Job, str]]  # jobs that start together, and the partition of each


class Lookahead:
    """The plan of one backfill pass. Reservations are on whole nodes."""

    def __init__(self, ctl: Controller) -> None:
        self._ctl, self._nodes = ctl, ctl.nodes
        self._nodes.planned[:] = False
        n = len(self._nodes.specs)
        self._from_s = self._to_s = np.zeros(0, np.int64)  # of the reservations
        self._taken = np.zeros((0, n), np.bool_)
        self._reserved: Counter[str] = Counter()  # by partition
        self._future: tuple[Ints, Ints] | None = None
        self._failed: dict[Hashable, int] = {}  # shortest time limit with which such a job did not fit now

    def start_or_reserve(self, group: Group) -> int:
        """Start the jobs if they can all start now, else reserve nodes for them; return how many started."""
        limit_s = max(job.spec.time_limit_s for job, _ in group)
        if (places := self._now(group, limit_s)) is not None:
            for (job, partition), place in zip(group, places, strict=True):
                self._ctl.start(job, place, partition)
            self._future = None
            return len(group)
        for job, _ in group:
            job.planned_s = 0
        self._reserve(group, limit_s)
        return 0

    def _now(self, group: Group, limit_s: int) -> list[Allocation] | None:
        """Return where the group can start now, None for nowhere.

        During a pass free nodes only become fewer: what did not fit does not fit later, nor with a longer limit.
        """
        alike = tuple((*job.spec.shape, partition) for job, partition in group)
        if self._failed.get(alike, limit_s + 1) <= limit_s:
            return None
        blocked = self._blocked(np.array([self._ctl.now_s]), limit_s)[0]
        places = self._places(group, self._nodes.usable & ~blocked, self._nodes.free)
        if places is None:
            self._failed[alike] = limit_s
        return places

    def _reserve(self, group: Group, limit_s: int) -> None:
        """Reserve nodes for the earliest start within the window, unless its partition has its reservations."""
        most, partition = self._ctl.rules.bf_job_part_count_reserve, group[0][1]
        if most and self._reserved[partition] >= most:
            return
        self._reserved[partition] += 1
        when_s, places = self._earliest(group, limit_s)
        if not places:
            return
        taken = np.zeros(len(self._nodes.specs), np.bool_)
        for (job, _), place in zip(group, places, strict=True):
            job.planned_s = when_s
            taken[place.rows] = True
        self._nodes.planned |= taken
        self._from_s, self._to_s = np.append(self._from_s, when_s), np.append(self._to_s, when_s + limit_s)
        self._taken = np.vstack((self._taken, taken))

    def _earliest(self, group: Group, limit_s: int) -> tuple[int, list[Allocation]]:
        """Return when all of the group can start together within the window, and where; nowhere for never."""
        ends_s, free = self._profile()
        now_s = self._ctl.now_s
        times_s = np.unique(np.concatenate((ends_s, self._to_s)))
        times_s = times_s[(times_s > now_s) & (times_s <= now_s + self._ctl.rules.bf_window_s)]
        allowed = self._nodes.sound & ~self._blocked(times_s, limit_s)
        then = np.searchsorted(ends_s, times_s, side="right") - 1
        enough = np.ones(len(times_s), np.bool_)
        for job, partition in group:
            fits = self._nodes.fitting(job.spec, free)[then] & allowed & self._nodes.members[partition]
            enough &= fits.sum(axis=1) >= job.spec.nodes
        for row in np.flatnonzero(enough):
            if (places := self._places(group, allowed[row], free[then[row]])) is not None:
                return int(times_s[row]), places
        return 0, []

    def _profile(self) -> tuple[Ints, Ints]:
        """Return the times at which running jobs end at the latest, from now on, and what is free from each on."""
        if self._future is None:
            running = [job for job in self._ctl.jobs.values() if job.base == BaseState.RUNNING]
            running.sort(key=lambda job: job.end_s)
            ends_s = np.array([self._ctl.now_s, *(job.end_s for job in running)], np.int64)
            free = np.repeat(self._nodes.free[None], len(ends_s), axis=0)
            for row, job in enumerate(running, 1):
                assert job.allocation is not None
                free[row:, job.allocation.rows] += job.allocation.amounts
            self._future = ends_s, free
        return self._future

    def _blocked(self, times_s: Ints, limit_s: int) -> Bools:
        """Return which nodes somebody in front needs before a job that starts then would end, shape (n_times, n_nodes)."""
        overlaps = (self._from_s < times_s[:, None] + limit_s) & (times_s[:, None] < self._to_s)
        blocked: Bools = overlaps.astype(np.float32) @ self._taken.astype(np.float32) > 0
        return blocked

    def _places(self, group: Group, allowed: Bools, free: Ints) -> list[Allocation] | None:
        """Return an allocation for each of the group, side by side, None if they do not all fit."""
        free, places = free.copy(), []
        for job, partition in group:
            rows = self._nodes.place(job.spec, allowed & self._nodes.members[partition], free)
            if rows is None:
                return None
            place = self._nodes.allocation(job.spec, rows, free)
            free[place.rows] -= place.amounts
            places.append(place)
        return places

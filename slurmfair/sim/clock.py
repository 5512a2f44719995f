"""Time of a simulated cluster: planned events of jobs, and the ticks of the schedulers."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from enum import Enum, auto
from itertools import count

from slurmfair.sim.job import Job

NEVER_S = 1 << 60
Act = Callable[[Job], None]


class Tick(Enum):
    """What comes round."""

    PASS = auto()
    FULL_PASS = auto()
    BACKFILL = auto()
    CALC = auto()


class Clock:
    """The time now, and what is due when. Events of one second come in the order in which they were planned."""

    def __init__(self, start_s: int) -> None:
        self.now_s = self._start_s = start_s
        self._ticket = count()
        self._events: list[tuple[int, int, Act, Job, int]] = []
        self._ticks = dict.fromkeys(Tick, NEVER_S)

    def at(self, when_s: int, act: Act, job: Job) -> None:
        """Plan an act; it lapses when the job's stamp changes."""
        heapq.heappush(self._events, (when_s, next(self._ticket), act, job, job.stamp))

    def soon(self, tick: Tick, delay_s: int) -> None:
        """Let a tick come after a delay, unless it comes earlier anyway."""
        self._ticks[tick] = min(self._ticks[tick], self.now_s + delay_s)

    def on_grid(self, tick: Tick, step_s: int) -> None:
        """Let a tick come at the next multiple of a step since the start."""
        passed = (self.now_s - self._start_s) // step_s
        self._ticks[tick] = min(self._ticks[tick], self._start_s + (passed + 1) * step_s)

    def next_s(self) -> int:
        """Return when something is due, NEVER_S for nothing."""
        return min(self._events[0][0] if self._events else NEVER_S, *self._ticks.values())

    def due(self) -> Iterator[tuple[Act, Job]]:
        """Yield the acts that are due; those that they plan for now as well."""
        while self._events and self._events[0][0] <= self.now_s:
            _, _, act, job, stamp = heapq.heappop(self._events)
            if stamp == job.stamp:
                yield act, job

    def take(self, tick: Tick) -> bool:
        """Tell whether a tick is due, and take it off."""
        if self._ticks[tick] > self.now_s:
            return False
        self._ticks[tick] = NEVER_S
        return True

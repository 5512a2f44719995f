"""Measure subject and yardstick by turns in one process and compare their medians (PERFORMANCE 0 and 5)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import median
from typing import TypeAlias

REPEATS = 7  # at least; short subjects are run for about SECONDS each
SECONDS = 0.5
MOST_REPEATS = 201
LARGE = 31 << 20  # bytes; the most that the C library learns to keep


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the report: a figure, what it must not pass, and what was measured."""

    name: str
    value: float
    most: float
    unit: str = "x"
    detail: str = ""

    @property
    def ok(self) -> bool:
        return self.value <= self.most

    def __str__(self) -> str:
        verdict = "ok" if self.ok else "short"
        goal = f"at most {self.most:g}"
        return f"{self.name:44}  {self.value:8.3f} {self.unit:3}  {goal:14}  {verdict:5}  {self.detail}"


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds of every repeat."""

    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        return median(self.seconds)

    def __str__(self) -> str:
        return "{:.3g} / {:.3g} / {:.3g} ms".format(
            *(1e3 * s for s in (min(self.seconds), self.median, max(self.seconds)))
        )


Benchmark: TypeAlias = Callable[[], Iterator[Line]]
BENCHMARKS: list[Benchmark] = []


def benchmark(function: Benchmark) -> Benchmark:
    """Register a function that yields lines."""
    BENCHMARKS.append(function)
    return function


def by_turns(
    *subjects: Callable[[], object],
    repeats: int = REPEATS,
    clock: Callable[[], float] = time.thread_time,
) -> tuple[Times, ...]:
    """Return the times of each subject, one run of each after the other, after one run to warm up.

    The clock leaves out the time in which neighbours had the core; give `time.perf_counter` for what waits.
    """
    seconds: list[list[float]] = [[] for _ in subjects]
    bytearray(LARGE)  # as in a process that has lived: freed memory is kept, not given back each time
    start = time.perf_counter()
    for subject in subjects:
        subject()
    warm_up = time.perf_counter() - start
    repeats = max(repeats, min(MOST_REPEATS, int(SECONDS * len(subjects) / warm_up)))
    for _ in range(repeats):
        for subject, column in zip(subjects, seconds, strict=True):
            start = clock()
            subject()
            column.append(clock() - start)
    return tuple(Times(tuple(column)) for column in seconds)


def ratio(name: str, subject: Times, yardstick: Times, most: float) -> Line:
    """Return the line that compares two medians."""
    return Line(name, subject.median / yardstick.median, most, detail=f"{subject}  against  {yardstick}")

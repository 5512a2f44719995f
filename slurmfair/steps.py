"""Capacity and deserved amounts over time, as the daemon saw them (SEMANTICS 7.1)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from slurmfair.model import RESOURCES, Floats, Ints

CAPACITY = ""  # stands for the pool where the path of a quota stands else


@dataclass(frozen=True, slots=True)
class Steps:
    """From `time_s` on, `path` has `amounts`; sorted by time. The first step of a path holds from ever."""

    time_s: Ints  # shape (n_steps,)
    path: tuple[str, ...]
    amounts: Floats  # shape (n_steps, 3): in the order of RESOURCES
    last: dict[str, tuple[float, ...]] = field(repr=False)  # amounts of the last step of each path

    def __len__(self) -> int:
        return len(self.path)


NO_STEPS = Steps(np.empty(0, np.int64), (), np.empty((0, len(RESOURCES))), {})


def steps_of(rows: Iterable[tuple[int, str, tuple[float, ...]]]) -> Steps:
    """Return steps from rows of time, path and amounts, in any order of time."""
    rows = sorted(rows, key=lambda row: row[0])
    if not rows:
        return NO_STEPS
    times, paths, amounts = zip(*rows, strict=True)
    last = dict(zip(paths, amounts, strict=True))
    return Steps(np.array(times, dtype=np.int64), paths, np.array(amounts, dtype=np.float64), last)


def noted(steps: Steps, now_s: int, current: Mapping[str, tuple[float, ...]]) -> Steps:
    """Return the steps with what changed since the last one of each path.

    After the clock stepped back the change counts from the last step on: the past stays as it is.
    """
    new = {path: amounts for path, amounts in current.items() if steps.last.get(path) != amounts}
    if not new:
        return steps
    when_s = max(now_s, int(steps.time_s[-1])) if len(steps) else now_s
    return Steps(
        np.append(steps.time_s, np.full(len(new), when_s)),
        steps.path + tuple(new),
        np.vstack([steps.amounts, np.array(list(new.values()), dtype=np.float64)]),
        steps.last | new,
    )


def forgotten_steps(steps: Steps, before_s: int) -> Steps:
    """Return the steps without those that were over before `before_s`, if they are more than the others.

    Seldom, because the history is built afresh after it.
    """
    latest = {path: i for i, path in enumerate(steps.path) if steps.time_s[i] <= before_s}
    kept = [i for i, path in enumerate(steps.path) if steps.time_s[i] > before_s or latest[path] == i]
    if 2 * len(kept) >= len(steps):
        return steps
    return Steps(steps.time_s[kept], tuple(steps.path[i] for i in kept), steps.amounts[kept], steps.last)

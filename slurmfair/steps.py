"""Capacity and deserved amounts over time, as the daemon saw them (SEMANTICS 7.1)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slurmfair.model import RESOURCES, Floats, Ints

CAPACITY = ""  # stands for the pool where the path of a quota stands else


@dataclass(frozen=True, slots=True)
class Steps:
    """From `time_s` on, `path` has `amounts`; sorted by time. The first step of a path holds from ever."""

    time_s: Ints  # shape (n_steps,)
    path: tuple[str, ...]
    amounts: Floats  # shape (n_steps, 3): in the order of RESOURCES

    def __len__(self) -> int:
        return len(self.path)


NO_STEPS = Steps(np.empty(0, np.int64), (), np.empty((0, len(RESOURCES))))


def steps_of(rows: list[tuple[int, str, tuple[float, ...]]]) -> Steps:
    """Return steps from rows of time, path and amounts, in any order of time."""
    if not rows:
        return NO_STEPS
    rows = sorted(rows, key=lambda row: row[0])
    times, paths, amounts = zip(*rows, strict=True)
    return Steps(np.array(times, dtype=np.int64), paths, np.array(amounts, dtype=np.float64))


def noted(steps: Steps, now_s: int, current: dict[str, tuple[float, ...]]) -> Steps:
    """Return the steps with what changed since the last one of each path.

    After the clock stepped back the change counts from the last step on: the past stays as it is.
    """
    last = {path: tuple(steps.amounts[i].tolist()) for i, path in enumerate(steps.path)}
    new = [(path, amounts) for path, amounts in current.items() if last.get(path) != amounts]
    if not new:
        return steps
    when_s = max(now_s, int(steps.time_s[-1])) if len(steps) else now_s
    return Steps(
        np.append(steps.time_s, np.full(len(new), when_s)),
        steps.path + tuple(path for path, _ in new),
        np.vstack([steps.amounts, np.array([amounts for _, amounts in new], dtype=np.float64)]),
    )

"""Room that was promised: what was reserved once stays reserved until it is used (docs/decisions/0011)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slurmfair.config import Pool
from slurmfair.model import UNSET_S, Bools, Decision, Ints, Queue


@dataclass(frozen=True, slots=True)
class Promises:
    """The entries of one pool that a pass reserved for, and the settings under which it did."""

    entry_id: Ints
    pool: Pool | None = None  # None: read from the state file, of the pass before a restart


def nothing_promised() -> Promises:
    return Promises(np.zeros(0, np.int64))


def promised(promises: Promises, pool: Pool, entry_id: Ints, first_attempt_s: Ints) -> Bools:
    """Return which entries were promised their room, shape (n,).

    New settings of the pool end all promises; what makes an entry another one (its need, its quota, its
    place in the queue) has cleared its first attempt, and ends its own.
    """
    if promises.pool is not None and promises.pool != pool:
        return np.zeros(len(entry_id), np.bool_)
    return np.isin(entry_id, promises.entry_id) & (first_attempt_s != UNSET_S)


def promises_of(queue: Queue, decision: Decision, pool: Pool) -> Promises:
    """Return what a pass has promised."""
    return Promises(queue.entry_id[decision.reserved], pool)

"""First in, first out: a blocked head stops everybody behind it (SEMANTICS 4.1)."""

from __future__ import annotations

import numpy as np

from slurmfair.model import Closes
from slurmfair.policy.terms import Judged, Settings, Waiting, all_of, by_priority


def fifo(waiting: Waiting, settings: Settings, now_s: int) -> Judged:
    """Return priority order in which every failure closes the quota."""
    effective, rank = by_priority(waiting, settings)
    closes = all_of(Closes.QUOTA, len(effective))
    return Judged(effective, rank, closes, closes, np.zeros(len(effective), np.int32))

"""Round Robin: every pass walks the whole queue, what fits starts (SEMANTICS 4.2)."""

from __future__ import annotations

import numpy as np

from slurmfair.model import Closes
from slurmfair.policy.terms import Judged, Settings, Waiting, all_of, by_priority


def round_robin(waiting: Waiting, settings: Settings, now_s: int) -> Judged:
    """Return priority order in which a failure closes nothing."""
    effective, rank = by_priority(waiting, settings)
    closes = all_of(Closes.NOTHING, len(effective))
    return Judged(effective, rank, closes, closes, np.zeros(len(effective), np.int32))

"""Balance: FIFO whose window grows by one for each neighbour that has failed long enough (SEMANTICS 4.3)."""

from __future__ import annotations

import numpy as np

from slurmfair.model import Closes
from slurmfair.policy.terms import Judged, Settings, Waiting, all_of, by_priority, expired


def balance(waiting: Waiting, settings: Settings, now_s: int) -> Judged:
    """Return priority order in which only an entry whose timeout has not expired closes the quota.

    That is the window of SEMANTICS: the expired prefix and one more. An array whose task has just
    started has a new timer, so it closes the quota.
    """
    effective, rank = by_priority(waiting, settings)
    late = expired(waiting.first_attempt_s, settings.timeout_s[waiting.leaf], now_s)
    closes = np.where(late, np.uint8(Closes.NOTHING), np.uint8(Closes.QUOTA))
    fresh = all_of(Closes.QUOTA, len(effective))
    return Judged(effective, rank, closes, fresh, np.zeros(len(effective), np.int32))

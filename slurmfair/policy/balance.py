"""Balance: FIFO whose window grows by one for each neighbour that has failed long enough (SEMANTICS 4.3)."""

from __future__ import annotations

import numpy as np

from slurmfair.policy.terms import NOTHING, QUOTA, Judgement, Settings, Waiting, expired


def balance(waiting: Waiting, settings: Settings, now_s: int) -> Judgement:
    """Return that only an entry whose timeout has not expired closes the quota.

    That is the window of SEMANTICS: the expired prefix and one more. An array whose task has just
    started has a new timer, so it closes the quota.
    """
    late = expired(waiting.first_attempt_s, settings.timeout_s.take(waiting.leaf), now_s)
    return Judgement(closes=np.where(late, NOTHING, QUOTA), closes_fresh=QUOTA)

"""Round Robin: every pass walks the whole queue, what fits starts (SEMANTICS 4.2)."""

from __future__ import annotations

from slurmfair.policy.terms import NOTHING, Judgement, Settings, Waiting


def round_robin(waiting: Waiting, settings: Settings, now_s: int) -> Judgement:
    """Return that a failure closes nothing."""
    return Judgement(closes=NOTHING, closes_fresh=NOTHING)

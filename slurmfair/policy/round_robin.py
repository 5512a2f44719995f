"""Round Robin: every pass walks the whole queue, what fits starts (SEMANTICS 4.2)."""

from __future__ import annotations

from slurmfair.policy.terms import NOTHING, Judgement, Settings, Waiting, by_priority


def round_robin(waiting: Waiting, settings: Settings, now_s: int) -> Judgement:
    """Return priority order in which a failure closes nothing."""
    effective, rank = by_priority(waiting, settings)
    return Judgement(effective, rank, NOTHING, NOTHING)

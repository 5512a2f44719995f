"""First in, first out: a blocked head stops everybody behind it (SEMANTICS 4.1)."""

from __future__ import annotations

from slurmfair.policy.terms import QUOTA, Judgement, Settings, Waiting, by_priority


def fifo(waiting: Waiting, settings: Settings, now_s: int) -> Judgement:
    """Return priority order in which every failure closes the quota."""
    effective, rank = by_priority(waiting, settings)
    return Judgement(effective, rank, QUOTA, QUOTA)

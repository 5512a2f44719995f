"""First in, first out: a blocked head stops everybody behind it (SEMANTICS 4.1)."""

from __future__ import annotations

from slurmfair.policy.terms import QUOTA, Judgement, Settings, Waiting


def fifo(waiting: Waiting, settings: Settings, now_s: int) -> Judgement:
    """Return that every failure closes the quota."""
    return Judgement(closes=QUOTA, closes_fresh=QUOTA)

"""What each quota is owed now: its fair share, and the numbers that people may ask about."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slurmfair.config import FairShare
from slurmfair.fairshare import PRESETS, divided, rounded
from slurmfair.history import PoolUsage
from slurmfair.model import Floats, Quotas


@dataclass(frozen=True, slots=True)
class Shares:
    """Shape (n_quotas, n_resources) but for the times."""

    fair_share: Floats  # F, orders the quotas
    entitlement: Floats  # F in whole units: what a reservation may be made for
    usage: Floats  # u
    due: Floats  # w
    corrected: Floats  # P
    effective: Floats
    history_from_s: int  # since when the history is known
    capacity_from_s: int  # since when capacity and deserved are known

    def shown(self) -> dict[str, Floats]:
        return {"due": self.due, "corrected": self.corrected, "effective": self.effective}


def shares_of(
    quotas: Quotas,
    capacity: Floats,
    request: Floats,
    usage: PoolUsage,
    fairshare: FairShare,
) -> Shares:
    """Return the shares of one pool; while fair share is off, history has no weight (K = 0)."""
    k = fairshare.k if fairshare.enabled else 0.0
    division = divided(quotas, capacity, request, usage.usage, k, fairshare.preset)
    whole = division.share if PRESETS[fairshare.preset].unit else rounded(quotas, division.share)
    return Shares(
        fair_share=np.ascontiguousarray(division.share),
        entitlement=np.ascontiguousarray(whole),
        usage=usage.usage,
        due=division.due,
        corrected=division.corrected,
        effective=division.effective,
        history_from_s=usage.from_s,
        capacity_from_s=usage.capacity_from_s,
    )

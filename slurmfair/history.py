"""What each quota consumed: the history as a cycle needs it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from slurmfair.model import Floats, Quotas


@dataclass(frozen=True, slots=True)
class PoolUsage:
    """Usage of one pool's quotas, u of SEMANTICS 7.1, shape (n_quotas, n_resources)."""

    usage: Floats = field(repr=False)
    from_s: int  # since when the history is known
    degraded: tuple[str, ...] = ()


def no_usage(quotas: Quotas, now_s: int) -> PoolUsage:
    """Return a history in which nothing was consumed."""
    return PoolUsage(np.zeros((len(quotas), len(quotas.resources))), now_s)

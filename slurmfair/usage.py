"""What each quota held, and held beyond its deserved amount, in the window of the past (SEMANTICS 7.1, 7.2).

Integrals are amounts times seconds, decayed to now. Less than 2^-960 GPU-seconds is 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slurmfair._core import interval_sums
from slurmfair.config import FairShare
from slurmfair.ledger import Ledger
from slurmfair.model import Floats, Quotas
from slurmfair.steps import Steps
from slurmfair.sweeps import History, Integrals, built, decay_for, holding_table
from slurmfair.windows import window_start

__all__ = ["History", "Integrals", "Trusted", "advance", "allocated", "trusted", "usage"]


def advance(
    history: History | None,
    ledger: Ledger,
    steps: Steps,
    quotas: Quotas,
    fairshare: FairShare,
    now_s: int,
) -> tuple[History, Integrals]:
    """Return the history brought up to now, and the integrals over the window.

    `history` is used up; it is built afresh if there is none, or if something has changed before its head.
    """
    start_s = window_start(fairshare.window, now_s)
    half_life_s = fairshare.half_life_s
    if (
        history is None
        or not history.follows(ledger, steps, quotas, half_life_s)
        or now_s < history.origin_s + history.head.at
        or start_s < history.origin_s + history.tail.at
    ):
        history = built(ledger, steps, quotas, half_life_s, start_s, now_s)
    else:
        history.take_in(ledger, steps)
    return history, history.read(ledger, start_s, now_s)


def usage(integrals: Integrals, fairshare: FairShare) -> Floats:
    """Return u of SEMANTICS 7.1, shape (n_quotas, n_resources): the part of what could be had that was had.

    The preset `kai` counts everything held, over the capacity, from the first second.
    """
    basis, min_history_s = fairshare.usage, fairshare.min_history_s
    if fairshare.preset == "kai":
        basis, min_history_s = "total", 0.0
    floor = min_history_s * integrals.surplus_now
    if basis == "total":
        above, below = integrals.allocated, np.broadcast_to(integrals.capacity, integrals.allocated.shape)
        floor = np.broadcast_to(min_history_s * integrals.capacity_now, above.shape)
    elif basis == "surplus":
        above, below = integrals.over_quota, integrals.surplus
    else:
        above, below = integrals.over_quota, _sums_of_siblings(integrals)
    below = np.maximum(below, floor)
    return np.divide(above, below, out=np.zeros_like(above), where=below > 0)


def _sums_of_siblings(integrals: Integrals) -> Floats:
    """Return what each quota's group has consumed of the surplus, shape (n_quotas, n_resources)."""
    sums = np.zeros_like(integrals.over_quota)
    np.add.at(sums, integrals.group, integrals.over_quota)
    return np.asarray(sums[integrals.group])


@dataclass(frozen=True, slots=True)
class Trusted:
    """Usage as it may be used, given its age."""

    usage: Floats
    degraded: bool


def trusted(usage: Floats, age_s: float, staleness_s: float) -> Trusted:
    """Return the last usage, flagged when its source has been silent, and 0 for all when it was for long.

    Twelve times the staleness is an hour at the default of five minutes (SEMANTICS 7.2).
    """
    if age_s > 12 * staleness_s:
        return Trusted(np.zeros_like(usage), True)
    return Trusted(usage, age_s > staleness_s)


def allocated(ledger: Ledger, quotas: Quotas, start_s: int, end_s: int, half_life_s: float = 0.0) -> Floats:
    """Return what each quota's runs took in a span of time, shape (n_quotas, n_resources), decayed to its end.

    One pass over the runs; inner quotas have the sums of what is below them. Suspensions do not count.
    """
    near = 1 << ((max(1, end_s - start_s).bit_length() + 1) // 2)
    decay = decay_for(half_life_s, end_s - start_s, near)
    tables = (decay.far, decay.far_length, decay.near_length, decay.near)
    if half_life_s <= 0:
        tables = (np.empty(0),) * 4
    node, amounts = holding_table(ledger, quotas)
    out = np.zeros((len(quotas) + 1, len(quotas.resources)))  # the last row for quotas that are no more
    node[node < 0] = len(quotas)
    for runs in (ledger.open, ledger.recent, ledger.closed):
        interval_sums(runs.key, runs.end_s, runs.holding, node, amounts, start_s, end_s, *tables, out)
        at = runs.find(ledger.pauses.key)
        mine = at >= 0
        holding = np.ascontiguousarray(runs.holding[at[mine]])
        paused = np.zeros_like(out)
        interval_sums(
            np.ascontiguousarray(ledger.pauses.from_s[mine]),
            np.ascontiguousarray(ledger.pauses.to_s[mine]),
            holding,
            node,
            amounts,
            start_s,
            end_s,
            *tables,
            paused,
        )
        out -= paused
    for row in range(len(quotas) - 1, -1, -1):
        if quotas.parent[row] >= 0:
            out[quotas.parent[row]] += out[row]
    return out[: len(quotas)]

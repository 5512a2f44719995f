"""Fair shares: deserved first, then the surplus by weight corrected by past use (SEMANTICS 7.3, 7.4).

Each resource is divided on its own, level by level, in the order of `Quotas.resources`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slurmfair._core import divide_levels, round_shares
from slurmfair.model import Floats, Ints, Quotas


@dataclass(frozen=True, slots=True)
class Preset:
    """What distinguishes one way to divide from another (SEMANTICS 7.10)."""

    unit: float  # size of what cannot be split inside the rounds, 0 to divide exactly
    plain_if_all_zero: (
        bool  # use plain weights where history leaves everybody weight 0, else nobody gets more
    )


PRESETS: dict[str, Preset] = {
    "slurmfair": Preset(unit=0.0, plain_if_all_zero=True),
    "kai": Preset(unit=1.0, plain_if_all_zero=False),
}


@dataclass(frozen=True, slots=True)
class Siblings:
    """The rows of a tree group by group: a parent's own group before its children's, priority falling."""

    rows: Ints  # shape (n_quotas,)
    start: Ints  # shape (n_groups + 1,): where a group begins in rows
    parent: Ints  # shape (n_groups,): -1 for the top

    def __len__(self) -> int:
        return len(self.parent)


@dataclass(frozen=True, slots=True)
class Division:
    """The shares and why they are so, shape (n_quotas, n_resources) unless said otherwise.

    The three weights are those of the first round a quota took part in, 0 if it took part in none.
    """

    share: Floats  # F
    due: Floats  # w: part of the active quotas' weights
    corrected: Floats  # P = max(0, w + K (w - u))
    effective: Floats  # the part of the surplus it was given a claim to
    short: Floats  # shape (n_quotas + 1, n_resources): deserved beyond what there was, [p + 1] below p, [0] on top
    rounds: int
    visits: int  # quotas looked at in all rounds together


def siblings(quotas: Quotas) -> Siblings:
    """Return the groups of siblings, in the order in which they are divided."""
    n = len(quotas)
    ranks = _falling_ranks(quotas.priority)
    parent = quotas.parent.astype(np.int64)
    width = int(ranks.max(initial=0)) + 1
    key = ((parent + 1) * width + ranks) * n + np.arange(n)
    rows = np.sort(key) % max(n, 1)
    first = np.ones(n, dtype=bool)
    first[1:] = parent[rows][1:] != parent[rows][:-1]
    begins = np.flatnonzero(first)
    return Siblings(rows, np.append(begins, n).astype(np.int64), parent[rows][begins])


def _falling_ranks(priority: Ints) -> Ints:
    """Return 0 for the highest priority, 1 for the next, shape (n_quotas,)."""
    if len(priority) == 0 or (priority == priority[0]).all():
        return np.zeros(len(priority), dtype=np.int64)
    values, rank = np.unique(priority, return_inverse=True)
    return np.asarray(len(values) - 1 - rank, dtype=np.int64)


def divided(
    quotas: Quotas,
    capacity: Floats,
    request: Floats,
    usage: Floats,
    k: float,
    preset: str = "slurmfair",
    *,
    unit: Floats | None = None,
    seniority: Ints | None = None,
) -> Division:
    """Return the division of `capacity`, shape (n_resources,), by SEMANTICS 7.4.

    `request` is what runs and waits, `usage` is u of SEMANTICS 7.1, both of shape (n_quotas, n_resources).
    `unit`, shape (n_resources,), overrides the preset's: 0 divides exactly, more divides in whole units.
    `seniority`, shape (n_quotas,), ranks the quotas from the oldest; the order of the tree if not given.
    """
    n, n_resources = matrix = quotas.deserved.shape
    chosen = PRESETS[preset]
    groups = siblings(quotas)
    share, due, corrected, effective = (np.zeros((n_resources, n)) for _ in range(4))
    short = np.zeros((n_resources, n + 1))
    rounds, visits = divide_levels(
        groups.rows,
        groups.start,
        groups.parent,
        np.ascontiguousarray(quotas.priority, dtype=np.int64),
        _ranked(seniority, n),
        _columns(quotas.deserved, matrix),
        _columns(quotas.limit, matrix),
        _columns(_per_resource(quotas.weight, n_resources), matrix),
        _columns(request, matrix),
        _columns(usage, matrix),
        _columns(capacity, (n_resources,)),
        _columns(np.full(n_resources, chosen.unit) if unit is None else unit, (n_resources,)),
        max(k, 0.0),
        chosen.plain_if_all_zero,
        np.empty(n, dtype=np.int64),
        np.empty(n),
        np.empty(n),
        share,
        due,
        corrected,
        effective,
        short,
    )
    return Division(
        np.ascontiguousarray(share.T),
        np.ascontiguousarray(due.T),
        np.ascontiguousarray(corrected.T),
        np.ascontiguousarray(effective.T),
        np.ascontiguousarray(short.T),
        rounds,
        visits,
    )


def rounded(
    quotas: Quotas, share: Floats, *, unit: Floats | None = None, seniority: Ints | None = None
) -> Floats:
    """Return the shares in whole units, by largest remainder at each level, sums kept (SEMANTICS 7.4, step 5).

    Ties go to the older quota, in the order of the tree if `seniority` is not given. A group whose sum
    is not whole, because its quotas want no more, is rounded down.
    """
    n, n_resources = matrix = quotas.deserved.shape
    groups = siblings(quotas)
    out = np.zeros((n_resources, n))
    if n > 0:
        round_shares(
            groups.rows,
            groups.start,
            groups.parent,
            _ranked(seniority, n),
            _columns(share, matrix),
            _columns(np.ones(n_resources) if unit is None else unit, (n_resources,)),
            np.empty(n, dtype=np.int64),
            np.empty(n),
            out,
        )
    return np.ascontiguousarray(out.T)


def scaled(quotas: Quotas, share: Floats, capacity: Floats) -> Floats:
    """Return the shares cut in proportion wherever they exceed what there is, level by level.

    Only for showing what over-committed deserved quotas really come to; F itself is never scaled
    (SEMANTICS 7.4, step 2).
    """
    out = np.array(share, dtype=np.float64)
    groups = siblings(quotas)
    for g, parent in enumerate(groups.parent):
        rows = groups.rows[groups.start[g] : groups.start[g + 1]]
        amount = capacity if parent < 0 else out[parent]
        total = out[rows].sum(axis=0)
        out[rows] *= np.divide(amount, total, out=np.ones_like(total), where=total > amount)
    return out


def _per_resource(weight: Floats, n_resources: int) -> Floats:
    """Return weights of shape (n_quotas, n_resources), from one weight a quota or one a resource."""
    return weight if weight.ndim == 2 else np.repeat(weight[:, None], n_resources, axis=1)


def _ranked(seniority: Ints | None, n: int) -> Ints:
    if seniority is None:
        return np.arange(n)
    if seniority.shape != (n,):
        raise ValueError(f"seniority has shape {seniority.shape}, not {(n,)}")
    return np.ascontiguousarray(seniority, dtype=np.int64)


def _columns(values: Floats, shape: tuple[int, ...]) -> Floats:
    """Return one row a resource, as the kernels want it; ValueError if the shape is another than `shape`."""
    if values.shape != shape:
        raise ValueError(f"an array of shape {values.shape} stands where {shape} is needed")
    return np.ascontiguousarray(values.T, dtype=np.float64)

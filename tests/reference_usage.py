"""The slow model of usage: one stretch between two changes after the other, written from SEMANTICS 7.1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import exp2, expm1, inf, log

Levels = Sequence[tuple[int, float]]  # from each time on; the first holds from ever


@dataclass(frozen=True)
class Span:
    """What one quota held over some time."""

    quota: str
    amount: float
    start_s: float
    end_s: float = inf


@dataclass
class Sums:
    allocated: dict[str, float]
    over_quota: dict[str, float]
    surplus: dict[str, float]  # by parent, "" for the top
    capacity: float


def level(levels: Levels, at_s: float) -> float:
    value = levels[0][1]
    for time_s, later in levels:
        if time_s <= at_s:
            value = later
    return value


def weight(start_s: float, end_s: float, now_s: float, half_life_s: float) -> float:
    """Return the integral of 2^-((now - t) / h) over a stretch."""
    if half_life_s == 0:
        return end_s - start_s
    unit = half_life_s / log(2)
    return -unit * expm1((start_s - end_s) / unit) * exp2((end_s - now_s) / half_life_s)


def sums(
    spans: Sequence[Span],
    parents: Mapping[str, str],
    deserved: Mapping[str, Levels],
    capacity: Levels,
    start_s: int,
    now_s: int,
    half_life_s: float,
) -> Sums:
    """Return the integrals over a window; `parents` has "" for a quota at the top."""
    times = {float(start_s), float(now_s)}
    times |= {moment for span in spans for moment in (span.start_s, span.end_s)}
    times |= {float(moment) for levels in (*deserved.values(), capacity) for moment, _ in levels}
    moments = sorted(moment for moment in times if start_s <= moment <= now_s)
    groups = {"", *parents.values()}
    total = Sums(dict.fromkeys(parents, 0.0), dict.fromkeys(parents, 0.0), dict.fromkeys(groups, 0.0), 0.0)
    for begin, end in pairwise(moments):
        length = weight(begin, end, now_s, half_life_s)
        held = dict.fromkeys(parents, 0.0)
        for span in spans:
            if span.start_s <= begin < span.end_s:
                quota = span.quota
                while quota:
                    held[quota] += span.amount
                    quota = parents[quota]
        due = {quota: level(deserved[quota], begin) for quota in parents}
        for quota in parents:
            total.allocated[quota] += held[quota] * length
            total.over_quota[quota] += max(0.0, held[quota] - due[quota]) * length
        for group in groups:
            pool = max(due[group], held[group]) if group else level(capacity, begin)
            inside = sum(min(held[q], due[q]) for q, parent in parents.items() if parent == group)
            total.surplus[group] += max(0.0, pool - inside) * length
        total.capacity += level(capacity, begin) * length
    return total

"""The slow model of division: exact fractions, one quota at a time, written from SEMANTICS 7.3 and 7.4.

`kai_division` is the same for KAI's arithmetic, written from KAI.md 2 and 3. Both are the documentation
of slurmfair/fairshare.py and share no code with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import floor


@dataclass
class Node:
    """One quota and one resource; None stands for unlimited."""

    name: str
    parent: str | None
    deserved: Fraction | None
    limit: Fraction | None
    weight: Fraction
    priority: int
    request: Fraction
    usage: Fraction
    age: int = 0  # smaller is older

    @property
    def cap(self) -> Fraction:
        return self.request if self.limit is None else min(self.limit, self.request)


def exact(value: float | int | str) -> Fraction:
    """Return the decimal number that a person wrote, not its nearest float."""
    return Fraction(str(value))


def division(nodes: Sequence[Node], capacity: Fraction, k: Fraction) -> dict[str, Fraction]:
    """Return F of every node."""
    share: dict[str, Fraction] = {}
    for parent, group in families(nodes):
        amount = capacity if parent is None else share[parent]
        share.update(divide_group(group, amount, k))
    return share


def families(nodes: Sequence[Node]) -> Iterable[tuple[str | None, list[Node]]]:
    """Yield each parent with its children, from the top down."""
    waiting: list[str | None] = [None]
    while waiting:
        parent = waiting.pop(0)
        group = [node for node in nodes if node.parent == parent]
        if group:
            yield parent, group
        waiting.extend(node.name for node in group)


def divide_group(group: Sequence[Node], amount: Fraction, k: Fraction) -> dict[str, Fraction]:
    share = {q.name: min(amount if q.deserved is None else q.deserved, q.cap) for q in group}
    rest = amount - sum(share.values())
    for priority in sorted({q.priority for q in group}, reverse=True):
        capped = True
        while rest > 0 and capped:
            active = [q for q in group if q.priority == priority and q.weight > 0 and share[q.name] < q.cap]
            effective = effective_weights(active, k)
            pool, capped = rest, False
            for q in active:
                part = pool * effective[q.name]
                given = min(part, q.cap - share[q.name])
                capped = capped or given < part
                share[q.name] += given
                rest -= given
    return share


def effective_weights(active: Sequence[Node], k: Fraction) -> dict[str, Fraction]:
    total = sum((q.weight for q in active), Fraction(0))
    due = {q.name: q.weight / total for q in active}
    corrected = {q.name: max(Fraction(0), due[q.name] + k * (due[q.name] - q.usage)) for q in active}
    everything = sum(corrected.values())
    if everything == 0:
        return due
    return {name: value / everything for name, value in corrected.items()}


def kai_division(nodes: Sequence[Node], capacity: Fraction, k: Fraction) -> dict[str, Fraction]:
    """Return KAI's fair shares, in exact arithmetic."""
    share: dict[str, Fraction] = {}
    for parent, group in families(nodes):
        amount = capacity if parent is None else share[parent]
        share.update(kai_group(group, amount, max(k, Fraction(0))))
    return share


def kai_group(group: Sequence[Node], amount: Fraction, k: Fraction) -> dict[str, Fraction]:
    share = {q.name: min(amount if q.deserved is None else q.deserved, q.cap) for q in group}
    left = amount - sum(share.values())
    noted: dict[str, Fraction] = {}
    if left <= 0:
        return share
    levels = sorted({q.priority for q in group}, reverse=True)
    for priority in levels:
        band = [q for q in group if q.priority == priority]
        again = True
        while again and left != 0:
            left, again = kai_round(band, share, noted, left, k)
    for priority in levels:
        owed = [q for q in group if q.priority == priority and q.name in noted]
        for q in sorted(owed, key=lambda q: (-noted[q.name], q.age, q.name)):
            unit = min(Fraction(1), left) if left > 0 else Fraction(0)
            share[q.name] += unit
            left -= unit
    return share


def kai_round(
    band: Sequence[Node], share: dict[str, Fraction], noted: dict[str, Fraction], left: Fraction, k: Fraction
) -> tuple[Fraction, bool]:
    """Return what is left after one round and whether another one follows."""
    hungry = [q for q in band if share[q.name] < q.cap]
    total = sum((q.weight for q in hungry), Fraction(0))
    if total == 0:
        return left, False
    due = {q.name: q.weight / total for q in hungry}
    score = {q.name: max(Fraction(0), due[q.name] + k * (due[q.name] - q.usage)) for q in hungry}
    everything = sum(score.values())
    if everything == 0:
        return left, False
    pool, again = left, False
    for q in hungry:
        if q.weight == 0:
            continue
        part = pool * score[q.name] / everything
        wants = q.cap - share[q.name]
        if wants <= part:
            again = again or wants < part
            given = wants
            noted.pop(q.name, None)
        else:
            given = Fraction(floor(part))
            if part > given:
                noted[q.name] = part - given
        share[q.name] += given
        left -= given
    return left, again

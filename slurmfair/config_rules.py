"""Rules that can never match, because earlier rules of the pool take every job they could have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import product
from math import prod

from slurmfair.config import Match

MOST_POINTS = 100  # combinations of names looked at; a longer rule is compared with one rule at a time
_WILD = ""  # stands for all names that no rule lists


class RuleIndex:
    """The rules of a pool in the order in which they are tried, found by their rarest name."""

    def __init__(self) -> None:
        self._by_name: dict[tuple[int, str], list[tuple[Match, int]]] = {}
        self._count: Counter[tuple[int, str]] = Counter()

    def add(self, match: Match, line: int, partitions: Iterable[str]) -> int | None:
        """Add a rule of a pool with these partitions; return the line of one that leaves it no job, None if it can match.

        A rule that names no partition has all of the pool. Jobs with several partitions need no look of their own:
        what is taken in each of them is taken.
        """
        narrowed = replace(match, partitions=match.partitions or frozenset(partitions))
        lists = tuple(tuple(sorted(names)) or (_WILD,) for names in _sets(narrowed))
        taker = self._taker(narrowed, lists)
        key = self._rarest(lists)
        for name in lists[key]:
            self._by_name.setdefault((key, name), []).append((narrowed, line))
        return taker

    def _rarest(self, lists: tuple[tuple[str, ...], ...]) -> int:
        """Return which of the four lists to file a rule under: the one whose names are seen least."""
        self._count.update((dimension, name) for dimension, names in enumerate(lists) for name in names)
        listed = [dimension for dimension in range(4) if lists[dimension] != (_WILD,)]
        return min(listed or (0,), key=lambda dim: sum(self._count[dim, name] for name in lists[dim]))

    def _taker(self, match: Match, lists: tuple[tuple[str, ...], ...]) -> int | None:
        if prod(len(names) for names in lists) <= MOST_POINTS:
            taker = None
            for point in product(*lists):
                taker = next((line for rule, line in self._near(point) if _takes(rule, point)), None)
                if taker is None:
                    return None
            return taker
        first = tuple(names[0] for names in lists)
        return next((line for rule, line in self._near(first) if _covers(rule, match)), None)

    def _near(self, point: tuple[str, ...]) -> Iterator[tuple[Match, int]]:
        """Yield the rules that might take a point: filed under one of its names, or under no name."""
        for dimension, name in enumerate(point):
            yield from self._by_name.get((dimension, name), ())
            if name != _WILD:
                yield from self._by_name.get((dimension, _WILD), ())


def _sets(match: Match) -> tuple[frozenset[str], ...]:
    return (match.accounts, match.users, match.qos, match.partitions)


def _takes(rule: Match, point: tuple[str, ...]) -> bool:
    return all(not names or name in names for names, name in zip(_sets(rule), point, strict=True))


def _covers(rule: Match, match: Match) -> bool:
    return all(
        not had or (wanted and wanted <= had) for had, wanted in zip(_sets(rule), _sets(match), strict=True)
    )

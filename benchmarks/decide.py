"""Decide: the waiting entries of a pool in, outcome of each and the outgoing order out (PERFORMANCE 5)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from benchmarks.harness import Line, Times, benchmark, by_turns, ratio
from benchmarks.pools import PoolCase, pool
from slurmfair.order import rank_order

FREE = {"nearly full": 0.02, "half empty": 0.5}


def lexsort(n: int) -> Callable[[], object]:
    """Return the yardstick: numpy's sort of n entries by three keys."""
    keys = np.random.default_rng(0).integers(0, 1 << 40, (3, n))
    return lambda: np.lexsort(tuple(keys))


def decided(case: PoolCase) -> Callable[[], object]:
    return lambda: rank_order(case.decide(), case.queue)


@benchmark
def decide() -> Iterator[Line]:
    for n_leaves in (100, 1000):
        for name, free in FREE.items():
            small = decided(pool(10_000, n_leaves, free))
            yield line_of(10_000, n_leaves, name, *by_turns(small, lexsort(10_000)))
            middle, large = (decided(pool(n, n_leaves, free)) for n in (100_000, 500_000))
            times = by_turns(middle, lexsort(100_000), large, lexsort(500_000))
            yield line_of(100_000, n_leaves, name, *times[:2])
            yield line_of(500_000, n_leaves, name, *times[2:])
            growth = times[2].median / times[0].median
            yield Line(f"decide growth 100k to 500k, {n_leaves} quotas, {name}", growth, 7.0)


def line_of(n: int, n_leaves: int, name: str, subject: Times, yardstick: Times) -> Line:
    """Return one line; with 1,000 quotas 10,000 jobs are but ten a quota, so the quotas themselves count."""
    goal = 1.5 if n_leaves == 1000 and n == 10_000 else 1.0
    return ratio(f"decide {n} jobs, {n_leaves} quotas, {name}", subject, yardstick, goal)


@benchmark
def decide_nodes() -> Iterator[Line]:
    """The number of nodes must not matter: 100 times the nodes with the same free room."""
    few, many = pool(100_000, 100, 0.5, n_nodes=200), pool(100_000, 100, 0.005, n_nodes=20_000)
    yield ratio(
        "decide 20,000 nodes against 200",
        *reversed(by_turns(decided(few), decided(many))),
        1.25,
    )

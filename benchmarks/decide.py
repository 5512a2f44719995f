"""Decide: the waiting entries of a pool in, outcome of each and the outgoing order out (PERFORMANCE 5)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from benchmarks.harness import Line, benchmark, by_turns, ratio
from benchmarks.pools import PoolCase, pool
from slurmfair.order import rank_order

FREE = {"nearly full": 0.02, "half empty": 0.5}
SIZES = (10_000, 100_000, 500_000)


def lexsort(n: int) -> Callable[[], object]:
    """Return the yardstick: numpy's sort of n entries by three keys."""
    keys = np.random.default_rng(0).integers(0, 1 << 40, (3, n))
    return lambda: np.lexsort(tuple(keys))


def decided(case: PoolCase) -> Callable[[], object]:
    return lambda: rank_order(case.decide(), case.queue)


@benchmark
def decide() -> Iterator[Line]:
    for n_leaves, goal in ((100, 1.0), (1000, 1.5)):
        for name, free in FREE.items():
            medians = {}
            for n in SIZES:
                subject, yardstick = by_turns(decided(pool(n, n_leaves, free)), lexsort(n))
                medians[n] = subject.median
                yield ratio(f"decide {n} jobs, {n_leaves} quotas, {name}", subject, yardstick, goal)
            growth = medians[500_000] / medians[100_000]
            yield Line(f"decide growth 100k to 500k, {n_leaves} quotas, {name}", growth, 7.0)


@benchmark
def decide_nodes() -> Iterator[Line]:
    """The number of nodes must not matter: 100 times the nodes with the same free room."""
    few, many = pool(100_000, 100, 0.5, n_nodes=200), pool(100_000, 100, 0.005, n_nodes=20_000)
    yield ratio("decide 20,000 nodes against 200", *reversed(by_turns(decided(few), decided(many))), 1.25)

"""Usage and division: what the past and the shares cost in a cycle (PERFORMANCE 5)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from math import inf

import numpy as np

from benchmarks.harness import Line, benchmark, by_turns, ratio
from slurmfair.config import FairShare, Window
from slurmfair.fairshare import divided
from slurmfair.ledger import RECENT_S, Ledger
from slurmfair.model import GPU, RESOURCES, Floats, Ints, Quotas
from slurmfair.runs import Holdings, Known, Runs, runs_of
from slurmfair.steps import CAPACITY, Steps, steps_of
from slurmfair.usage import History, advance, allocated

NOW_S = 1_800_000_000
WEEK_S = 7 * 86400
NEW_S = 3000  # the last one in a hundred runs came in this time
N_QUOTAS = 1000
SIZES = np.array([1.0, 2.0, 4.0, 8.0, 16.0])
STEPS: Steps = steps_of([(0, CAPACITY, (500_000.0, 0.0, 0.0))])
WINDOW = Window("sliding", WEEK_S)


def flat_quotas() -> Quotas:
    return Quotas(
        path=tuple(f"q{i}" for i in range(N_QUOTAS)),
        parent=np.full(N_QUOTAS, -1, dtype=np.int32),
        deserved=np.full((N_QUOTAS, 1), 20.0),
        limit=np.full((N_QUOTAS, 1), inf),
        weight=np.ones(N_QUOTAS),
        priority=np.full(N_QUOTAS, 100),
        resources=(GPU,),
    )


def week(n: int) -> Runs:
    """Return n runs that ended in the last week, the last hundredth of them in the last minutes."""
    rng = np.random.default_rng(0)
    old = rng.integers(NOW_S - WEEK_S, NOW_S - NEW_S, n - n // 100)
    new = rng.integers(NOW_S - NEW_S + 1, NOW_S, n // 100)
    start_s = np.sort(np.concatenate([old, new]))
    length_s = np.minimum(rng.exponential(3600.0, n).astype(np.int64) + 1, WEEK_S)
    last_s = np.where(start_s > NOW_S - NEW_S, NOW_S, NOW_S - NEW_S)
    key = (np.arange(1, n + 1) << 32) | start_s
    holding = rng.integers(0, N_QUOTAS * len(SIZES), n).astype(np.int32)
    return runs_of(key, np.minimum(start_s + length_s, last_s), holding, Known.RECORD)


def ledger(closed: Runs, recent: Runs, version: int) -> Ledger:
    """Return a ledger in which the recent runs are those that came with `version`."""
    leaf = np.repeat(np.arange(N_QUOTAS, dtype=np.int32), len(SIZES))
    amounts = np.zeros((len(leaf), len(RESOURCES)))
    amounts[:, GPU] = np.tile(SIZES, N_QUOTAS)
    holdings = Holdings(leaf, amounts, {})
    altered = ((version, NOW_S - NEW_S + 1),) if version else ()
    return Ledger(
        flat_quotas().path, holdings, recent=recent, closed=closed, version=version, altered=altered
    )


@benchmark
def usage() -> Iterator[Line]:
    """A full pass against numpy.bincount of the same runs, and one cycle against a full pass."""
    for n in (1_000_000, 10_000_000):
        runs = week(n)
        quota = runs.holding // len(SIZES)
        gpu_s = SIZES[runs.holding % len(SIZES)] * (runs.end_s - runs.start_s)
        yardstick = partial(np.bincount, quota, gpu_s, N_QUOTAS)
        before, after = ledgers(runs)
        for half_life_s in (0.0, 3 * 86400.0):
            words = "decayed" if half_life_s else "plain"
            yield from full_pass(f"{n} runs, {words}", after, yardstick, half_life_s, n)
            yield from increments(f"{n} runs, {words}", before, after, half_life_s)


def ledgers(runs: Runs) -> tuple[Ledger, Ledger]:
    """Return the ledger before and after the last hundredth of the runs came."""
    new = runs.start_s > NOW_S - NEW_S
    bulk = runs.take(runs.end_s < NOW_S - NEW_S - RECENT_S)
    recent = ~new & (runs.end_s >= NOW_S - NEW_S - RECENT_S)
    return ledger(bulk, runs.take(recent), 0), ledger(bulk, runs.take(recent | new), 1)


def full_pass(
    name: str, book: Ledger, yardstick: Callable[[], Ints], half_life_s: float, n: int
) -> Iterator[Line]:
    fairshare, quotas = FairShare(window=WINDOW, half_life_s=half_life_s), flat_quotas()
    direct, bound = by_turns(lambda: allocated(book, quotas, NOW_S - WEEK_S, NOW_S, half_life_s), yardstick)
    yield ratio(f"usage allocated {name}", direct, bound, 4.0)
    # No goal was set for the surplus, which needs the runs in the order of time: this is a ceiling.
    surplus, bound = by_turns(
        lambda: advance(None, book, STEPS, quotas, fairshare, NOW_S), yardstick, repeats=5
    )
    yield ratio(f"usage surplus {name}", surplus, bound, 100.0)
    yield Line(f"usage surplus {name}", 1e9 * surplus.median / n, inf, "ns")


def increments(name: str, before: Ledger, after: Ledger, half_life_s: float) -> Iterator[Line]:
    """One cycle that adds a hundredth of the runs, and one that adds nothing."""
    fairshare, quotas = FairShare(window=WINDOW, half_life_s=half_life_s), flat_quotas()
    history, _ = advance(None, before, STEPS, quotas, fairshare, NOW_S - NEW_S)

    def fresh() -> History:
        return replace(history, head=history.head.copy(), tail=history.tail.copy())

    step, whole = by_turns(
        lambda: advance(fresh(), after, STEPS, quotas, fairshare, NOW_S),
        lambda: advance(None, after, STEPS, quotas, fairshare, NOW_S),
        repeats=5,
    )
    yield ratio(f"usage 1 % new, {name}", step, whole, 0.02)
    history, _ = advance(None, after, STEPS, quotas, fairshare, NOW_S)
    idle, _ = by_turns(lambda: advance(history, after, STEPS, quotas, fairshare, NOW_S), lambda: None)
    most_ms = len(after) / 1e6  # well below a millisecond a million runs
    yield Line(f"usage nothing new, {name}", 1e3 * idle.median, most_ms, "ms", str(idle))


def tree(n: int, n_resources: int) -> tuple[Quotas, Floats, Floats, Floats]:
    """Return a tree of three levels with capacity, requests and usage; half of the leaves want more than they get."""
    rng = np.random.default_rng(1)
    n_top, n_middle = max(1, round(n ** (1 / 3))), max(1, round(n ** (2 / 3)))
    parent = np.full(n, -1, dtype=np.int32)
    parent[n_top : n_top + n_middle] = rng.integers(0, n_top, len(parent[n_top : n_top + n_middle]))
    parent[n_top + n_middle :] = rng.integers(n_top, n_top + n_middle, len(parent[n_top + n_middle :]))
    leaf = np.ones(n, dtype=bool)
    leaf[parent[parent >= 0]] = False
    request = np.where(leaf[:, None], rng.integers(0, 60, (n, n_resources)), 0).astype(np.float64)
    for row in range(n - 1, -1, -1):
        if parent[row] >= 0:
            request[parent[row]] += request[row]
    quotas = Quotas(
        path=tuple(map(str, range(n))),
        parent=parent,
        deserved=np.where(leaf[:, None], rng.integers(0, 4, (n, n_resources)), 0).astype(np.float64),
        limit=np.full((n, n_resources), inf),
        weight=rng.integers(1, 10, n).astype(np.float64),
        priority=np.full(n, 100),
        resources=tuple(range(n_resources)),
    )
    return quotas, np.full(n_resources, 10.0 * n), request, rng.random((n, n_resources)) * 2 / n


@benchmark
def division() -> Iterator[Line]:
    """A division of a tree of three levels: linear in the quotas, per quota and round."""
    for n_resources in (1, 3):
        per_visit = {}
        for n in (10, 100, 1000, 5000):
            case = tree(n, n_resources)
            (times,) = by_turns(partial(divided, *case, 1.0), repeats=31)
            found = divided(*case, 1.0)
            per_visit[n] = 1e9 * times.median / found.visits
            detail = f"{times}, {found.rounds} rounds, {found.visits} quotas visited"
            yield Line(f"division {n} quotas, {n_resources} resources", per_visit[n], inf, "ns", detail)
        growth = per_visit[5000] / per_visit[1000]
        yield Line(f"division 5,000 against 1,000, {n_resources} resources", growth, 1.5)

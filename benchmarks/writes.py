"""Writes: how many a cycle needs when all shares move, and how long it takes to find them (PERFORMANCE 3.5 and 5)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.decide import lexsort
from benchmarks.harness import Line, benchmark, by_turns, ratio
from slurmfair.config import Ranks
from slurmfair.model import Coded, Floats, Ints
from slurmfair.plan import Pending, Plan, plan_changes
from slurmfair.ranks import rank_scale
from slurmfair.throttle import LEAVE

WINDOW = 500
N_QUOTAS = 100
CYCLES = 9
SCALE = rank_scale(Ranks(), own_factors=0, window=WINDOW)
NO_BUDGET = 1 << 40


@dataclass(frozen=True, slots=True)
class Virtual:
    """Jobs in the order of a virtual time: place in the quota's queue over the quota's share."""

    quota: Ints
    turn: Ints
    share: Floats

    def places(self, drift: float, rng: np.random.Generator) -> Ints:
        """Return the place of each job after every share has moved by at most the given part."""
        share = self.share * (1 + rng.uniform(-drift, drift, len(self.share)))
        order = np.argsort(self.turn / share[self.quota], kind="stable")
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        return place


def virtual(n: int, rng: np.random.Generator) -> Virtual:
    """Return n jobs of quotas of very unequal size."""
    share = rng.uniform(0.5, 1.5, N_QUOTAS) / np.arange(1, N_QUOTAS + 1)
    quota = rng.choice(N_QUOTAS, n, p=share / share.sum())
    order = np.argsort(quota, kind="stable")
    turn = np.empty(n, np.int64)
    turn[order] = np.arange(n) - np.searchsorted(quota[order], quota[order]) + 1
    return Virtual(quota, turn, share)


def pending(place: Ints) -> Pending:
    """Return open, unranked records of one partition."""
    n = len(place)
    none, text = np.zeros(n, np.bool_), np.zeros(n, np.int32)
    return Pending(
        job_id=np.arange(1, n + 1),
        place=place,
        unwanted=none,
        held=none,
        gated=none,
        pinned=none,
        rank=np.zeros(n, np.int64),
        priority=np.ones(n, np.int64),
        partition=Coded(text, ("train", "interactive")),
        admin_comment=Coded(text, ("",)),
        throttle=np.full(len(place), LEAVE),
        own_throttle=np.zeros(len(place), np.int64),
    )


def planned(records: Pending) -> Callable[[], Plan]:
    return lambda: plan_changes(records, SCALE, WINDOW, NO_BUDGET)


@benchmark
def writes() -> Iterator[Line]:
    for n in (10_000, 100_000, 500_000):
        rng = np.random.default_rng(1)
        jobs = virtual(n, rng)
        for drift, most in ((0.0, 0), (0.0001, 25), (0.001, 100), (0.01, WINDOW // 2)):
            first = pending(jobs.places(0.0, rng))
            now = replace(first, rank=planned(first)().rank)
            counts = []
            for _ in range(CYCLES):
                plan = planned(replace(now, place=jobs.places(drift, rng)))()
                now = replace(now, rank=plan.rank)
                counts.append(len(plan.changes))
            detail = f"least {min(counts)}, most {max(counts)} of {CYCLES} cycles"
            yield Line(
                f"writes a cycle, {n} jobs, shares move {drift:.2%}",
                float(np.median(counts)),
                most,
                "",
                detail,
            )


@benchmark
def plan_time() -> Iterator[Line]:
    for n, goal in ((10_000, 0.7), (100_000, 0.2), (500_000, 0.2)):
        rng = np.random.default_rng(1)
        jobs = virtual(n, rng)
        first = pending(jobs.places(0.0, rng))
        moved = replace(first, rank=planned(first)().rank, place=jobs.places(0.01, rng))
        subject, yardstick = by_turns(planned(moved), lexsort(n))
        yield ratio(f"plan {n} jobs, shares move 1 %", subject, yardstick, goal)

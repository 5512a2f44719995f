"""Which pool, leaf and job priority each job has, decided once for each kind of job.

A hundred thousand jobs share a few accounts, QOS and partitions, and rules name few of the users. So every text is
first reduced to a class (a name that the policy tells apart, or any other), and each combination of classes that
occurs is decided once.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np

from slurmfair.config import Config, JobPriority, Match, Pool
from slurmfair.model import Coded, Codes, Ints, JobTable, Quotas

UNMANAGED = -1
LOWEST, HIGHEST = 1, 9
_ANY = ""  # the class of all names that the policy does not tell apart
_NO_NUMBER = 0
_SMALL_TABLE = 1 << 20  # combinations up to which a table is quicker than sorting


class Owned(Protocol):
    """A table of jobs or of runs, as far as it says whose they are."""

    @property
    def account(self) -> Coded: ...
    @property
    def user(self) -> Coded: ...
    @property
    def qos(self) -> Coded: ...
    @property
    def partition(self) -> Coded: ...


_Facts: TypeAlias = tuple[str, str, str, frozenset[str]]  # account, user, QOS, partitions of a kind of job


def quota_arrays(pool: Pool) -> Quotas:
    """Return the tree of a pool as arrays, in the order of `pool.quotas`."""
    shape = (len(pool.quotas), len(pool.resources))
    return Quotas(
        path=tuple(quota.path for quota in pool.quotas),
        parent=np.array([quota.parent for quota in pool.quotas], np.int32),
        deserved=np.array([quota.deserved for quota in pool.quotas], np.float64).reshape(shape),
        limit=np.array([quota.limit for quota in pool.quotas], np.float64).reshape(shape),
        weight=np.array([quota.weight for quota in pool.quotas], np.float64),
        priority=np.array([quota.priority for quota in pool.quotas], np.int64),
        resources=pool.resources,
    )


def leaf_of_jobs(config: Config, jobs: Owned) -> tuple[Ints, Ints]:
    """Return the pool and the leaf of each job, each of shape (n_jobs,).

    The leaf is an index into the pool's quotas; -1 where we leave the job alone. A job belongs to the first pool, in
    the order of the file, that has any of its partitions: Slurm lists all of a waiting job's, in changing order, and
    of a running job the one it runs in. In the pool the first rule that matches decides, else `unmatched`.
    """
    columns = _classes(config, jobs)
    kinds, kind = _distinct([classes for classes, _ in columns], [len(names) for _, names in columns])
    pools = [_Rules(pool) for pool in config.pools]
    partitions = [frozenset(text.split(",")) for text in columns[3][1]]
    accounts, users, qos = (names for _, names in columns[:3])
    decided = np.empty((len(kinds[0]), 2), np.int64)
    for row, (a, u, q, p) in enumerate(zip(*(column.tolist() for column in kinds), strict=True)):
        decided[row] = _place(pools, (accounts[a], users[u], qos[q], partitions[p]))
    return decided[kind, 0], decided[kind, 1]


def job_priorities(config: Config, jobs: JobTable) -> Ints:
    """Return the priority, 1 to 9, of each job inside its quota, shape (n_jobs,)."""
    settings = config.job_priority
    found = np.full(len(jobs), _NO_NUMBER, np.int64)
    for source in settings.sources:
        open_rows = np.flatnonzero(found == _NO_NUMBER)
        if len(open_rows) == 0:
            break
        found[open_rows] = _SOURCES[source](settings, jobs, open_rows)
    return np.where(found == _NO_NUMBER, settings.default, found)


@dataclass(frozen=True, slots=True)
class _Rule:
    order: int
    leaf: int
    match: Match

    def takes(self, facts: _Facts) -> bool:
        account, user, qos, partitions = facts
        match = self.match
        return (
            (not match.accounts or account in match.accounts)
            and (not match.users or user in match.users)
            and (not match.qos or qos in match.qos)
            and (not match.partitions or not match.partitions.isdisjoint(partitions))
        )


class _Rules:
    """The rules of a pool, found by a name that they ask for."""

    def __init__(self, pool: Pool) -> None:
        self.partitions = frozenset(pool.partitions)
        self._unmatched = pool.unmatched
        self._by_name: dict[tuple[str, str], list[_Rule]] = {}
        for rule in _rules_in_order(pool):
            for name in _filed_under(rule.match):
                self._by_name.setdefault(name, []).append(rule)

    def leaf(self, facts: _Facts) -> int:
        """Return the leaf of the first rule that takes a kind of job."""
        account, user, qos, _ = facts
        near = (("account", account), ("user", user), ("qos", qos), _ANYWHERE)
        firsts = (
            next((rule for rule in self._by_name.get(name, ()) if rule.takes(facts)), None) for name in near
        )
        first = min((rule for rule in firsts if rule), key=lambda rule: rule.order, default=None)
        return first.leaf if first else self._unmatched


_ANYWHERE = ("", "")


def _rules_in_order(pool: Pool) -> Iterator[_Rule]:
    order = 0
    for leaf, quota in enumerate(pool.quotas):
        for match in quota.matches:
            yield _Rule(order, leaf, match)
            order += 1


def _filed_under(match: Match) -> list[tuple[str, str]]:
    for dimension, names in (("account", match.accounts), ("user", match.users), ("qos", match.qos)):
        if names:
            return [(dimension, name) for name in names]
    return [_ANYWHERE]


def _place(pools: Sequence[_Rules], facts: _Facts) -> tuple[int, int]:
    for index, rules in enumerate(pools):
        if not rules.partitions.isdisjoint(facts[3]):
            return index, rules.leaf(facts)
    return UNMANAGED, UNMANAGED


def _classes(config: Config, jobs: Owned) -> list[tuple[Codes, list[str]]]:
    """Return class and names of classes for account, user, QOS and partition; class 0 is any other name."""
    matches = [match for pool in config.pools for quota in pool.quotas for match in quota.matches]
    managed = {partition for pool in config.pools for partition in pool.partitions}
    return [
        _class_of(jobs.account, {name for match in matches for name in match.accounts}),
        _class_of(jobs.user, {name for match in matches for name in match.users}),
        _class_of(jobs.qos, {name for match in matches for name in match.qos}),
        _class_of(
            jobs.partition,
            {text for text in jobs.partition.values if not managed.isdisjoint(text.split(","))},
        ),
    ]


def _class_of(column: Coded, told_apart: Iterable[str]) -> tuple[Codes, list[str]]:
    """Return the class of each row, and the name of each class."""
    names = [_ANY, *set(told_apart).intersection(column.values)]
    number = {name: index for index, name in enumerate(names)}
    of_code = np.array([number.get(value, 0) for value in column.values], np.int32)
    return of_code[column.codes], names


def _distinct(columns: Sequence[Codes], sizes: Sequence[int]) -> tuple[tuple[Ints, ...], Ints]:
    """Return the combinations that occur, one array a column, and which of them each row has."""
    key = np.zeros(len(columns[0]), np.int64)
    for column, size in zip(columns, sizes, strict=True):
        key *= size
        key += column
    if math.prod(sizes) > _SMALL_TABLE:
        found, which = np.unique(key, return_inverse=True)
    else:
        occurs = np.zeros(math.prod(sizes), np.bool_)
        occurs[key] = True
        found = np.flatnonzero(occurs)
        which = (np.cumsum(occurs) - 1)[key]
    return np.unravel_index(found, tuple(sizes)), which


def _from_levels(column: Coded, rows: Ints, levels: dict[str, int] | None) -> Ints:
    """Return the number that a mapping gives each row, 0 for none."""
    of_code = np.array([(levels or {}).get(value, _NO_NUMBER) for value in column.values], np.int64)
    return of_code[column.codes[rows]]


def _by_qos(settings: JobPriority, jobs: JobTable, rows: Ints) -> Ints:
    return _from_levels(jobs.qos, rows, settings.qos)


def _by_account(settings: JobPriority, jobs: JobTable, rows: Ints) -> Ints:
    return _from_levels(jobs.account, rows, settings.accounts)


def _by_comment(settings: JobPriority, jobs: JobTable, rows: Ints) -> Ints:
    """Return what users ask for in the comment, no more than their QOS allows."""
    if not settings.comment_pattern:
        return np.full(len(rows), _NO_NUMBER, np.int64)
    search = re.compile(settings.comment_pattern).search
    codes = jobs.comment.codes[rows]
    asked = np.zeros(len(jobs.comment.values), np.int64)
    for code in np.flatnonzero(np.bincount(codes, minlength=len(asked))).tolist():
        if (hit := search(jobs.comment.values[code])) is not None:
            asked[code] = _level(hit[1])
    most_by_qos = settings.comment_max_qos or {}
    most = np.array([most_by_qos.get(qos, settings.comment_max_default) for qos in jobs.qos.values], np.int64)
    return np.minimum(asked[codes], most[jobs.qos.codes[rows]])


def _level(text: str | None) -> int:
    """Return the number that a user wrote, clamped to 1 to 9; 0 for what is not a number."""
    if text is None or not (text.isascii() and text.isdigit()):
        return _NO_NUMBER
    return min(max(int(text[:18]), LOWEST), HIGHEST)


def _by_nice(settings: JobPriority, jobs: JobTable, rows: Ints) -> Ints:
    """Return the default less one for each whole step of nice (more for negative nice, which operators give)."""
    if settings.nice_step == 0:
        return np.full(len(rows), _NO_NUMBER, np.int64)
    nice = jobs.nice[rows]
    steps = np.sign(nice) * (np.abs(nice) // settings.nice_step)
    return np.where(steps == 0, _NO_NUMBER, np.clip(settings.default - steps, LOWEST, HIGHEST))


_SOURCES = {"qos": _by_qos, "comment": _by_comment, "nice": _by_nice, "accounts": _by_account}

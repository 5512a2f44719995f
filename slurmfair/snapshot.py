"""From one reading of the cluster to what a pass needs: per pool a queue, the room, and who holds what.

Nothing here knows Slurm; whole columns at a time, because the queue may hold half a million jobs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slurmfair.config import Config, Pool
from slurmfair.matching import job_priorities, leaf_of_jobs, quota_arrays
from slurmfair.model import Bytes, Floats, Ints, JobTable, Masks, Quotas, Reading, Room
from slurmfair.room import NodeClasses, class_masks, node_classes, room_of
from slurmfair.standing import Standing, holds_resources, waiting
from slurmfair.throttle import Throttles, startable_tasks


@dataclass(frozen=True, slots=True)
class Entries:
    """The waiting entries of one pool, ids ascending, before their timers are known; shape (n,).

    `records` are the rows of the job table that belong to an entry, and `entry_of` the entry of each.
    """

    rows: Ints  # row of the leading record
    records: Ints
    entry_of: Ints
    leaf: Ints
    need: Ints  # shape (n, 3)
    nodes: Ints
    tasks: Ints
    classes: Masks


@dataclass(frozen=True, slots=True)
class Running:
    """Jobs that hold resources of a pool, shape (n,): who gives back what, and when at the latest."""

    rows: Ints
    end_by_s: Ints
    held: Ints  # shape (n, 3)
    classes: Masks


@dataclass(frozen=True, slots=True)
class PoolSnapshot:
    pool: Pool
    quotas: Quotas
    room: Room
    classes: NodeClasses
    entries: Entries
    running: Running
    allocated: Floats  # shape (n_quotas, n_resources)


@dataclass(frozen=True, slots=True)
class Snapshot:
    reading: Reading
    standing: Bytes  # Standing of each record
    pool_of: Ints  # index of the pool of each record, -1 for none
    leaf_of: Ints  # index of its leaf in that pool, -1 for none
    job_priority: Ints
    throttles: Throttles
    tasks: Ints  # tasks of a record that its user lets start now
    pools: tuple[PoolSnapshot, ...]


def take_snapshot(reading: Reading, standing: Bytes, throttles: Throttles, config: Config) -> Snapshot:
    """Return what each pool's pass needs; jobs that no rule takes are left out."""
    jobs = reading.jobs
    pool_of, leaf_of = leaf_of_jobs(config, jobs)
    tasks = startable_tasks(jobs, throttles)
    standing = _without_torn_het_jobs(jobs, standing, pool_of)
    pools = tuple(
        _pool_snapshot(pool, reading, standing, pool_of == index, leaf_of, tasks)
        for index, pool in enumerate(config.pools)
    )
    priorities = job_priorities(config, jobs)
    return Snapshot(reading, standing, pool_of, leaf_of, priorities, throttles, tasks, pools)


def _without_torn_het_jobs(jobs: JobTable, standing: Bytes, pool_of: Ints) -> Bytes:
    """A heterogeneous job is ours only when all its components wait, in one pool (SLURM.md 4.2).

    Standing next to a component that is held by somebody else, the others are not ours to write either.
    """
    het = np.flatnonzero((jobs.het_id > 0) & (jobs.state == 0))
    if not len(het):
        return standing
    _, group = np.unique(jobs.het_id[het], return_inverse=True)
    count = np.bincount(group)
    ours = np.bincount(group, weights=waiting(standing[het]))
    low = np.full(len(count), np.iinfo(np.int64).max)
    high = np.full(len(count), -1)
    np.minimum.at(low, group, pool_of[het])
    np.maximum.at(high, group, pool_of[het])
    torn = ((ours != count) | (low != high))[group] & waiting(standing[het])
    out = standing.copy()
    out[het[torn]] = Standing.INELIGIBLE
    return out


def _pool_snapshot(
    pool: Pool, reading: Reading, standing: Bytes, here: np.ndarray, leaf_of: Ints, tasks: Ints
) -> PoolSnapshot:
    classes = node_classes(pool, reading.nodes)
    masks = class_masks(pool, classes, reading.jobs)
    quotas = quota_arrays(pool)
    mine = here & (leaf_of >= 0)
    entries = _entries(reading.jobs, np.flatnonzero(mine & waiting(standing)), leaf_of, tasks, masks, classes)
    holding = np.flatnonzero(here & holds_resources(standing))
    running = Running(
        holding,
        _latest_end_s(reading.jobs, holding),
        reading.jobs.held_resources[holding],
        masks[holding],
    )
    allocated = charged(quotas, leaf_of[holding], reading.jobs.held_resources[holding])
    return PoolSnapshot(pool, quotas, room_of(pool, classes), classes, entries, running, allocated)


def _latest_end_s(jobs: JobTable, rows: Ints) -> Ints:
    return jobs.start_s[rows] + jobs.suspended_s[rows] + jobs.time_limit_s[rows]


def charged(quotas: Quotas, leaf: Ints, amounts: Ints) -> Floats:
    """Return what each quota holds, shape (n_quotas, n_resources): rows of leaf -1 are nobody's."""
    held = np.zeros((len(quotas), len(quotas.resources)))
    owned = leaf >= 0
    np.add.at(held, leaf[owned], amounts[owned][:, list(quotas.resources)])
    return summed_up(quotas, held)


def summed_up(quotas: Quotas, leaves: Floats) -> Floats:
    """Return the amounts with each inner quota's the sum of its children's."""
    out = leaves.copy()
    for child in range(len(quotas) - 1, -1, -1):
        if quotas.parent[child] >= 0:
            out[quotas.parent[child]] += out[child]
    return out


def _entries(
    jobs: JobTable, rows: Ints, leaf_of: Ints, tasks: Ints, masks: Masks, classes: NodeClasses
) -> Entries:
    rows = rows[tasks[rows] > 0]
    key = np.where(jobs.het_id[rows] > 0, jobs.het_id[rows], jobs.job_id[rows])
    _, entry_of = np.unique(key, return_inverse=True)
    entry_of = entry_of.reshape(-1).astype(np.int64)
    n = int(entry_of.max()) + 1 if len(rows) else 0
    lead = np.zeros(n, dtype=np.int64)
    by_id = np.argsort(-jobs.job_id[rows], kind="stable")
    lead[entry_of[by_id]] = rows[by_id]  # the lowest id of an entry is written last
    wanted, nodes = _demand(jobs, rows, masks, classes)
    need = np.stack([_sums(entry_of, wanted[:, r], n) for r in range(wanted.shape[1])], axis=1)
    anywhere = np.zeros(n, dtype=np.uint64)
    np.bitwise_or.at(anywhere, entry_of, masks[rows])
    return Entries(
        lead, rows, entry_of, leaf_of[lead], need, _sums(entry_of, nodes, n), tasks[lead], anywhere
    )


def _sums(group: Ints, amounts: Ints, n: int) -> Ints:
    return np.bincount(group, weights=amounts, minlength=n)[:n].astype(np.int64)


def _demand(jobs: JobTable, rows: Ints, masks: Masks, classes: NodeClasses) -> tuple[Ints, Ints]:
    """Return resources and nodes that each record wants; an exclusive job takes whole nodes (SLURM.md 12.1)."""
    wanted = jobs.wanted[rows].copy()
    nodes = np.maximum(1, jobs.nodes_wanted[rows])
    largest = classes.largest_node(masks[rows])  # shape (n, 3)
    whole = jobs.exclusive[rows]
    wanted[whole] = np.maximum(wanted[whole], nodes[whole, None] * largest[whole])
    size = np.maximum(1, largest[:, classes.main])
    return wanted, np.maximum(nodes, -(-wanted[:, classes.main] // size))

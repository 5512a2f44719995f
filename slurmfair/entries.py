"""The entries of a pool as a look shows them: for the timers, and as the queue of a pass."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from slurmfair.config import Pool
from slurmfair.model import UNSET_S, Bools, Floats, Ints, Queue
from slurmfair.promises import Promises, promised
from slurmfair.slurm.parse import Tag
from slurmfair.snapshot import PoolSnapshot, Snapshot, summed_up
from slurmfair.standing import TAGS, Standing, tags
from slurmfair.timers import Remembered, Seen, eligible_since


def seen_in(snapshot: Snapshot, pool: Pool, before: Seen, requeued: Mapping[int, int]) -> Seen:
    """Return every entry of the pool that Slurm knows and that has not ended, ids ascending.

    `before` is the last look; `requeued` when people last had jobs requeued, by job id.
    """
    jobs, standing = snapshot.reading.jobs, snapshot.standing
    here = _in_pool(snapshot, pool) & (standing != Standing.ENDED)
    leads = (jobs.het_id == 0) | (jobs.het_id == jobs.job_id)
    rows = np.flatnonzero(here & leads)
    rows = rows[np.argsort(jobs.job_id[rows], kind="stable")]
    user_held = np.asarray([value == "JobHeldUser" for value in jobs.reason.values] or [False])
    foreign = standing[rows] == Standing.FOREIGN_HOLD
    later = jobs.begin_s[rows] > snapshot.reading.now_s
    watched = np.isin(jobs.job_id[rows], before.entry_id[before.bound | before.user_held])
    ours = tags(jobs)[rows] != TAGS.index(Tag.NONE)
    return Seen(
        entry_id=jobs.job_id[rows],
        submit_s=jobs.submit_s[rows],
        leaf=snapshot.leaf_of[rows].astype(np.int32),
        job_priority=snapshot.job_priority[rows],
        need=jobs.wanted[rows],
        restarts=jobs.restarts[rows],
        user_requeued_s=_times(requeued, jobs.job_id[rows]),
        user_held=foreign & user_held[jobs.reason.codes[rows]],
        bound=jobs.dependent[rows] | later,
        since_s=eligible_since(jobs.submit_s[rows], jobs.eligible_s[rows], watched, ours),
        path=tuple(quota.path for quota in pool.quotas),
        policy=tuple(quota.policy.name for quota in pool.quotas),
    )


def _times(of_job: Mapping[int, int], job_id: Ints) -> Ints:
    """Return the time of each job, UNSET_S where there is none."""
    times = np.full(len(job_id), UNSET_S, dtype=np.int64)
    for row in np.flatnonzero(np.isin(job_id, np.fromiter(of_job, dtype=np.int64))).tolist():
        times[row] = of_job[int(job_id[row])]
    return times


def _in_pool(snapshot: Snapshot, pool: Pool) -> Bools:
    index = next(i for i, found in enumerate(snapshot.pools) if found.pool is pool)
    return (snapshot.pool_of == index) & (snapshot.leaf_of >= 0)


def queue_of(
    snapshot: Snapshot, found: PoolSnapshot, timers: Remembered, stuck: Bools, promises: Promises
) -> tuple[Queue, Ints]:
    """Return the queue of a pass, and the row of each of its entries in the memory of timers."""
    jobs, entries = snapshot.reading.jobs, found.entries
    entry_id = jobs.job_id[entries.rows]
    at = np.searchsorted(timers.seen.entry_id, entry_id)
    queue = Queue(
        entry_id=entry_id,
        leaf=entries.leaf.astype(np.int32),
        job_priority=snapshot.job_priority[entries.rows],
        order_s=timers.order_s[at],
        waiting_since_s=timers.waiting_since_s[at],
        first_attempt_s=timers.first_attempt_s[at],
        need=entries.need,
        nodes=entries.nodes,
        tasks=entries.tasks,
        time_limit_s=jobs.time_limit_s[entries.rows],
        classes=entries.classes,
        lane=jobs.gpu_type.codes[entries.rows],
        unplaced=stuck,
        leading_since_s=timers.leading_since_s[at],
        promised=promised(promises, found.pool, entry_id, timers.first_attempt_s[at]),
    )
    return queue, at


def request_of(found: PoolSnapshot, queue: Queue) -> Floats:
    """Return what runs and waits, shape (n_quotas, n_resources)."""
    quotas = found.quotas
    waiting = np.zeros((len(quotas), len(quotas.resources)))
    amount = queue.need[:, list(quotas.resources)] * queue.tasks[:, None]
    np.add.at(waiting, queue.leaf, amount)
    return found.allocated + summed_up(quotas, waiting)

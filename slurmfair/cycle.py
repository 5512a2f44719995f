"""One cycle: a reading and what is remembered go in, changes and a new memory come out. Nothing is touched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from slurmfair.config import Config
from slurmfair.entries import queue_of, request_of, seen_in
from slurmfair.history import PoolUsage, no_usage
from slurmfair.memory import Memory, PoolMemory
from slurmfair.model import (
    Bools,
    Bytes,
    Change,
    Coded,
    Decision,
    Floats,
    Ints,
    Outcome,
    Queue,
    Reading,
)
from slurmfair.order import order_jobs, rank_order
from slurmfair.placing import NOT_STUCK, recalled, remembered, unplaced
from slurmfair.plan import Pending, Plan, plan_changes
from slurmfair.promises import promises_of
from slurmfair.ranks import RankScale, looks_pinned, rank_scale
from slurmfair.release import release
from slurmfair.shares import Shares, shares_of
from slurmfair.slurm.parse import Waits
from slurmfair.snapshot import PoolSnapshot, Snapshot, take_snapshot
from slurmfair.standing import WAITS, Standing, marked, reason_classes, standings
from slurmfair.throttle import restored, throttles_of, wanted_throttle, without_ours
from slurmfair.timers import advance, after_pass, after_pause
from slurmfair.unfit import SURE_AFTER, found_unfit, nothing_unfit, to_cancel
from slurmfair.walk import Running

NOT_PLACED = -1


@dataclass(frozen=True, slots=True)
class Channel:
    """What the cluster's settings say about ranks."""

    own_factors: int  # sum of Slurm's own PriorityWeight*
    by_site_factor: bool = True


@dataclass(frozen=True, slots=True)
class PoolCycle:
    """What one pass over one pool saw and found."""

    snapshot: PoolSnapshot
    queue: Queue
    request: Floats
    shares: Shares
    decision: Decision
    place: Ints  # shape (n_entries,): 0-based place in the outgoing order, -1 for held
    plan: Plan
    memory: PoolMemory


@dataclass(frozen=True, slots=True)
class Cycle:
    snapshot: Snapshot
    pools: tuple[PoolCycle, ...]
    changes: tuple[Change, ...]
    left_over: int
    rank: Ints = field(repr=False)  # shape (n_jobs,): rank that a record has or gets, 0 for none
    memory: Memory = field(repr=False)
    reasons: Bytes = field(repr=False)
    warnings: tuple[str, ...] = ()
    degraded: tuple[str, ...] = ()

    @property
    def n_waiting(self) -> int:
        return sum(len(pool.queue) for pool in self.pools)

    def memory_after(self, done: Sequence[Change]) -> Memory:
        """Return the memory once these changes went out: each write hides the job's reason until Slurm's next pass."""
        jobs = self.snapshot.reading.jobs
        written = np.isin(jobs.job_id, [change.job_id for change in done])
        classes = {int(jobs.job_id[row]): int(self.reasons[row]) for row in np.flatnonzero(written)}
        return replace(self.memory, blanked={**self.memory.blanked, **classes})


@dataclass(frozen=True, slots=True)
class Look:
    """A reading made sense of: what a decision and the history start from."""

    snapshot: Snapshot
    reasons: Bytes = field(repr=False)  # classes of reasons, an index into standing.WAITS
    blanked: Mapping[int, int] = field(repr=False)


def look_at(reading: Reading, config: Config, memory: Memory) -> Look:
    """Return the reading as a snapshot of the pools."""
    reasons, blanked = _seen_reasons(reading, memory.blanked)
    throttles = throttles_of(reading.jobs)
    reasons = without_ours(reading.jobs, reasons, throttles)
    standing = standings(reading.jobs, reasons, reading.now_s)
    return Look(take_snapshot(reading, standing, throttles, config), reasons, blanked)


def run_cycle(
    look: Look,
    config: Config,
    channel: Channel,
    memory: Memory,
    usage: Mapping[str, PoolUsage] | None = None,
    requeued: Mapping[int, int] | None = None,
) -> Cycle:
    """Return everything that follows from one look.

    `usage` is the history of each pool, by name; `requeued` when people last had jobs requeued, by job id.
    """
    snapshot = look.snapshot
    jobs, now_s = snapshot.reading.jobs, snapshot.reading.now_s
    pause_s = pause_since(memory.last_cycle_s, now_s, config.cycle.interval_s)
    scale = rank_scale(config.ranks, channel.own_factors, config.cycle.window)
    budget = config.cycle.write_budget
    astray = _astray(snapshot, look.reasons)[:budget]
    pools: list[PoolCycle] = []
    for found in snapshot.pools:
        name = found.pool.name
        known = usage.get(name) if usage else None
        spent = len(astray) + sum(len(pool.plan.changes) for pool in pools)
        pools.append(
            _pool_cycle(
                snapshot, found, known or no_usage(found.quotas, now_s), memory.of_pool(name), requeued or {}, pause_s,
                scale, channel, config, max(0, budget - spent),
            )
        )  # fmt: skip
    rank = np.where(jobs.site_factor > 0, jobs.site_factor, 0)
    for pool in pools:
        rank[pool.snapshot.entries.records] = pool.plan.rank
    return Cycle(
        snapshot=snapshot,
        pools=tuple(pools),
        changes=astray + tuple(change for pool in pools for change in pool.plan.changes),
        left_over=sum(pool.plan.left_over for pool in pools),
        rank=rank,
        memory=Memory(
            pools={pool.snapshot.pool.name: pool.memory for pool in pools},
            blanked=look.blanked,
            last_cycle_s=now_s,
        ),
        reasons=look.reasons,
        warnings=(
            *_clock_warnings(memory.last_cycle_s, now_s),
            *(warning for pool in pools for warning in _warnings(pool)),
        ),
        degraded=tuple(text for one in (usage or {}).values() for text in one.degraded),
    )


def pause_since(last_cycle_s: int | None, now_s: int, interval_s: float) -> int:
    """Return for how long nobody was tried: the daemon or Slurm was away, or the clock was set back (negative)."""
    if last_cycle_s is None:
        return 0
    gap_s = now_s - last_cycle_s
    return gap_s if gap_s < 0 or gap_s > 2 * interval_s + 5 else 0


def _seen_reasons(reading: Reading, blanked: Mapping[int, int]) -> tuple[Bytes, dict[int, int]]:
    """Return the classes of reasons with those that our write blanked put back, and the blanks that last.

    Slurm shows None from our write to its next look at the job (SLURM.md 5.4).
    """
    jobs = reading.jobs
    reasons = reason_classes(jobs)
    if not blanked:
        return reasons, {}
    none = np.asarray([value == "None" for value in jobs.reason.values] or [False])[jobs.reason.codes]
    rows = np.flatnonzero(none & np.isin(jobs.job_id, np.fromiter(blanked, dtype=np.int64)))
    lasting = {int(jobs.job_id[row]): blanked[int(jobs.job_id[row])] for row in rows}
    held = WAITS.index(Waits.ADMIN_HOLD), WAITS.index(Waits.HELD)
    for row in rows:
        before = lasting[int(jobs.job_id[row])]
        if before not in held:  # what was held was released by that very write
            reasons[row] = before
    return reasons, lasting


def _astray(snapshot: Snapshot, reasons: Bytes) -> tuple[Change, ...]:
    """Return releases of holds of ours, and of bounds on arrays, that no queue accounts for any more.

    Jobs that started just before our hold reached them (SLURM.md 10), and held jobs that a new policy, a
    move to another partition or a reservation took out of our queues; arrays whose last task has started.
    """
    jobs = snapshot.reading.jobs
    marks = marked(jobs, reasons)
    ours = (marks == Standing.HELD) | (marks == Standing.GATED)
    unmanaged = (snapshot.leaf_of < 0) | (snapshot.standing == Standing.RESERVATION)
    late = snapshot.standing == Standing.LATE_HOLD
    throttles = snapshot.throttles
    bounded = throttles.noted & (throttles.ours > 0) & (snapshot.standing != Standing.ENDED) & ~late
    for found in snapshot.pools:
        bounded[found.entries.records] = False
    return tuple(
        [release(jobs, row, "started before our hold reached it") for row in np.flatnonzero(late).tolist()]
        + [
            release(jobs, row, "held by us, and no longer ours to order")
            for row in np.flatnonzero(ours & unmanaged).tolist()
        ]
        + [
            restored(jobs, throttles, row, "no part of it waits for us: its own throttle")
            for row in np.flatnonzero(bounded & ~(ours & unmanaged)).tolist()
        ]
    )


def _pool_cycle(
    snapshot: Snapshot,
    found: PoolSnapshot,
    usage: PoolUsage,
    memory: PoolMemory,
    requeued: Mapping[int, int],
    pause_s: int,
    scale: RankScale,
    channel: Channel,
    config: Config,
    budget: int,
) -> PoolCycle:
    now_s = snapshot.reading.now_s
    pool, quotas = found.pool, found.quotas
    timers = advance(
        after_pause(memory.timers, pause_s), seen_in(snapshot, pool, memory.timers.seen, requeued), now_s
    )
    main_free = int(found.room.free[found.classes.main])
    jobs, rows = snapshot.reading.jobs, found.entries.rows
    recall = recalled(memory.placing, jobs.job_id[rows], jobs.tasks_waiting[rows])
    stuck = unplaced(recall, main_free, pool.place_grace_s, now_s)
    queue, at = queue_of(snapshot, found, timers, stuck, memory.promises)
    request = request_of(found, queue)
    resources = list(quotas.resources)
    shares = shares_of(
        quotas, found.room.capacity[resources].astype(np.float64), request, usage, pool.fairshare
    )
    decision = order_jobs(
        queue,
        quotas,
        [quota.policy for quota in pool.quotas],
        found.room,
        found.allocated,
        shares.fair_share,
        pool.fairshare,
        now_s,
        entitlement=shares.entitlement,
        running=Running(found.running.end_by_s, found.running.held, found.running.classes),
    )
    place = np.full(len(queue), NOT_PLACED, dtype=np.int64)
    outgoing = rank_order(decision, queue)
    place[outgoing] = np.arange(len(outgoing))
    unfit = found_unfit(
        nothing_unfit() if pause_s else memory.unfit, _unwanted(found, queue, decision), now_s
    )
    cancel = to_cancel(unfit, queue.entry_id, config.cycle.interval_s, now_s)
    plan = plan_changes(
        _pending(snapshot, found, decision, place, cancel, channel), scale, config.cycle.window, budget
    )
    unheld = snapshot.standing[found.entries.rows] == Standing.OPEN
    let_go = unheld & (decision.outcome == Outcome.STARTS)
    return PoolCycle(
        snapshot=found,
        queue=queue,
        request=request,
        shares=shares,
        decision=decision,
        place=place,
        plan=plan,
        memory=PoolMemory(
            after_pass(timers, at, decision),
            remembered(recall, stuck, let_go, main_free, now_s),
            promises_of(queue, decision, pool),
            unfit,
        ),
    )


def _pending(
    snapshot: Snapshot,
    found: PoolSnapshot,
    decision: Decision,
    place: Ints,
    cancel: Bools,
    channel: Channel,
) -> Pending:
    """Return the records that may be written, each with the place of its entry."""
    jobs, rows, entry_of = snapshot.reading.jobs, found.entries.records, found.entries.entry_of
    throttles = snapshot.throttles
    standing = snapshot.standing[rows]
    pinned = looks_pinned(jobs.priority[rows], jobs.site_factor[rows], jobs.nice[rows], channel.own_factors)
    unpin = pinned & (standing == Standing.OPEN) & channel.by_site_factor
    return Pending(
        job_id=jobs.job_id[rows],
        place=place[entry_of],
        unwanted=cancel[entry_of],
        held=standing == Standing.HELD,
        gated=standing == Standing.GATED,
        pinned=unpin,
        rank=jobs.site_factor[rows] if channel.by_site_factor else jobs.priority[rows],
        priority=jobs.priority[rows],
        partition=Coded(jobs.partition.codes[rows], jobs.partition.values),
        admin_comment=Coded(jobs.admin_comment.codes[rows], jobs.admin_comment.values),
        throttle=wanted_throttle(jobs, throttles, rows, snapshot.tasks[rows], decision.may_start[entry_of]),
        own_throttle=throttles.own[rows],
    )


def _unwanted(found: PoolSnapshot, queue: Queue, decision: Decision) -> Ints:
    """Return the ids of entries that can never fit where the policy wants such gone (`on_never_fit`)."""
    cancels = np.array([quota.policy.on_never_fit == "cancel" for quota in found.pool.quotas], np.bool_)
    return queue.entry_id[(decision.outcome == Outcome.PARKED) & cancels[found.entries.leaf]]


def _clock_warnings(last_cycle_s: int | None, now_s: int) -> list[str]:
    """Return a warning for the one cycle that finds the clock behind the cycle before."""
    if last_cycle_s is None or now_s >= last_cycle_s:
        return []
    return [
        f"the cluster's clock went back by {last_cycle_s - now_s} s; nothing is charged twice for that time"
    ]


def _warnings(pool: PoolCycle) -> list[str]:
    """Return what an administrator should know about a pool now."""
    quotas, room = pool.snapshot.quotas, pool.snapshot.room
    main = quotas.resources[0]
    name = pool.snapshot.pool.name
    found = []
    deserved = float(quotas.deserved[quotas.parent < 0, 0].sum())
    if deserved > room.capacity[main]:
        found.append(f"pool {name}: deserved {deserved:g} > capacity {int(room.capacity[main])}")
    if not room.capacity[main]:
        partitions = ", ".join(pool.snapshot.pool.partitions)
        found.append(f"pool {name}: no capacity in partitions {partitions}; all nodes are down or reserved")
    stuck = int(np.count_nonzero(pool.memory.placing.stuck_free != NOT_STUCK))
    if stuck:
        found.append(f"pool {name}: {stuck} jobs could start by our count and Slurm does not start them")
    unfit = len(pool.memory.unfit.entry_id)
    if unfit:
        found.append(
            f"pool {name}: {unfit} jobs can never fit; a job is cancelled once {SURE_AFTER} cycles find it so"
        )
    return found

"""The history of all pools from cycle to cycle: who ran what, what was promised, what there was.

The ledger is fed by live looks and by accounting; both may be late, overlap and repeat themselves. What
is learnt is kept in the state file, so that an outage of slurmdbd, slurmctld or ourselves loses nothing.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field, replace

import numpy as np

from slurmfair.config import Config, Pool
from slurmfair.errors import SlurmUnavailable
from slurmfair.ledger import NEVER_S, Ledger, Merge, Rows, forgotten, ledger_of, moves, renamed
from slurmfair.matching import leaf_of_jobs
from slurmfair.model import RESOURCES, UNSET_S, Floats, Ints, Quotas, RunTable
from slurmfair.reads import Records, merge_live, merge_records, sightings
from slurmfair.runs import Pauses, run_keys
from slurmfair.slurm.cluster import Cluster
from slurmfair.slurm.parse import BASE_STATE, STATE_FLAGS, BaseState
from slurmfair.snapshot import PoolSnapshot, Snapshot
from slurmfair.state import State
from slurmfair.steps import CAPACITY, NO_STEPS, Steps, forgotten_steps, noted, steps_of
from slurmfair.usage import History, advance, trusted, usage
from slurmfair.windows import window_start

log = logging.getLogger(__name__)

OVERLAP_S = 600  # of two reads of accounting
READ_EVERY_S = 300
RETRY_S = 60  # while slurmdbd is away, or while the end of a run or whose requeue it was is not known
BOOKED_WITHIN_S = 30  # what happened so long ago has reached accounting
FORGET_EVERY_S = 3600
REQUEUES_KEPT_S = 86400  # by then it has changed the order times that are remembered
TELL_EVERY_S = 5.0
MICRO = 1_000_000  # amounts are kept as whole millionths

RUNS = "runs", ("pool", "job_id", "start_s", "end_s", "quota", "gpus", "cpus", "mem", "known"), 3
PAUSES = "pauses", ("pool", "job_id", "start_s", "from_s", "to_s"), 4
STEPS = "steps", ("pool", "time_s", "quota", "gpus", "cpus", "mem"), 3


@dataclass(frozen=True, slots=True)
class PoolUsage:
    """Usage of one pool's quotas, u of SEMANTICS 7.1, shape (n_quotas, n_resources)."""

    usage: Floats = field(repr=False)
    from_s: int  # since when the history is known, the beginning of the window at the earliest
    capacity_from_s: int  # since when capacity and deserved are known; before, what they were then counts
    degraded: tuple[str, ...] = ()


def no_usage(quotas: Quotas, now_s: int) -> PoolUsage:
    """Return a history in which nothing was consumed."""
    return PoolUsage(np.zeros((len(quotas), len(quotas.resources))), now_s, now_s)


@dataclass(slots=True)
class PoolPast:
    """What is known of one pool."""

    ledger: Ledger
    steps: Steps
    history: History | None = None
    known_from_s: int = NEVER_S  # from here on all runs are in the ledger, as far as accounting knows


class Past:
    """All pools' histories, in memory and in the state file."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.pools: dict[str, PoolPast] = {}
        self.accounting_s = int(state.meta("accounting_s") or 0)  # up to here accounting was read
        self.covered_s = self.accounting_s  # up to here accounting was read twice
        self.tried_s = 0
        self.away_since_s: int | None = None
        self.forgot_s = 0
        self.requeued: dict[int, int] = {}  # by job id: when a person last had the job requeued
        self.wondering = False  # a job waits again, and accounting was not asked why since
        self._load()

    def catch_up(self, cluster: Cluster, config: Config, now_s: int) -> None:
        """Read accounting if it is time; an absent slurmdbd is noted, and asked again later."""
        oldest_s = min(window_start(pool.fairshare.window, now_s) for pool in config.pools)
        longer = any(
            window_start(pool.fairshare.window, now_s) < self._past(pool).known_from_s
            for pool in config.pools
        )
        if not self._is_time(now_s, longer):
            return
        self.tried_s = now_s
        since_s = oldest_s if longer else max(oldest_s, self.covered_s - OVERLAP_S)
        try:
            table = cluster.runs(since_s, now_s, _Progress())
        except SlurmUnavailable as err:
            if self.away_since_s is None:
                self.away_since_s = now_s
                log.warning("accounting does not answer, history goes on from live looks: %s", err)
            return
        if self.away_since_s is not None:
            log.info("accounting answers again after %d s", now_s - self.away_since_s)
        self.away_since_s = None
        self._merge_records(table, config, now_s)
        self._note_requeues(table, now_s)
        self.covered_s = min(self.accounting_s or now_s, now_s)
        self.accounting_s = now_s
        for pool in config.pools:
            self._past(pool).known_from_s = min(self._past(pool).known_from_s, since_s)
        self._note_reads(now_s)

    def _is_time(self, now_s: int, longer: bool) -> bool:
        """Tell whether to ask; sooner if a run's end is a guess, a requeue unexplained, or a window longer than what was read."""
        since_s = now_s - self.tried_s
        if since_s < 0 or since_s >= READ_EVERY_S:
            return True
        guesses = any(len(past.ledger.unsure()) for past in self.pools.values())
        unsure = guesses or longer or self.wondering or self.away_since_s is not None
        return since_s >= RETRY_S and unsure

    def _merge_records(self, table: RunTable, config: Config, now_s: int) -> None:
        pool_of, leaf_of = leaf_of_jobs(config, table)
        held = table.resources.any(axis=1) & (table.start_s > 0)
        for index, pool in enumerate(config.pools):
            rows = np.flatnonzero((pool_of == index) & (leaf_of >= 0) & held)
            records = Records(
                now_s,
                tuple(quota.path for quota in pool.quotas),
                table.job_id[rows],
                table.start_s[rows],
                np.where(table.end_s[rows] > 0, table.end_s[rows], UNSET_S),
                leaf_of[rows].astype(np.int32),
                table.resources[rows].astype(np.float64),
                table.suspended_s[rows],
            )
            past = self._past(pool)
            self._keep(pool.name, past, merge_records(past.ledger, records))

    def _note_requeues(self, table: RunTable, now_s: int) -> None:
        """Note which runs ended because somebody, or the job's own exit code, asked for it.

        A run that lost its nodes ended in another state (docs/decisions/0018).
        """
        asked = np.flatnonzero(table.state & STATE_FLAGS["REQUEUED"])
        by_time = asked[np.argsort(table.end_s[asked], kind="stable")]
        found = dict(zip(table.job_id[by_time].tolist(), table.end_s[by_time].tolist(), strict=True))
        known = {job_id: at_s for job_id, at_s in self.requeued.items() if at_s > now_s - REQUEUES_KEPT_S}
        self.requeued = known | found

    def look(self, snapshot: Snapshot) -> dict[str, PoolUsage]:
        """Take one live look into the ledgers; return each pool's usage now."""
        now_s = snapshot.reading.now_s
        found = {}
        for index, pool in enumerate(snapshot.pools):
            past = self._past(pool.pool)
            self._follow_moves(pool, past)
            leaf = np.where(snapshot.pool_of == index, snapshot.leaf_of, -1).astype(np.int32)
            seen = sightings(snapshot.reading.jobs, leaf, pool.quotas.path, now_s)
            self._keep(pool.pool.name, past, merge_live(past.ledger, seen))
            self._note_steps(pool, past, now_s)
            found[pool.pool.name] = self._usage(pool, past, now_s)
        jobs = snapshot.reading.jobs
        again = (jobs.restarts > 0) & (jobs.state & BASE_STATE == BaseState.PENDING) & (snapshot.leaf_of >= 0)
        self.wondering = bool((jobs.submit_s[again] > self.accounting_s - BOOKED_WITHIN_S).any())
        if now_s - self.forgot_s > FORGET_EVERY_S or now_s < self.forgot_s:
            self._forget(snapshot, now_s)
        return found

    def _usage(self, pool: PoolSnapshot, past: PoolPast, now_s: int) -> PoolUsage:
        fairshare = pool.pool.fairshare
        past.history, integrals = advance(
            past.history, past.ledger, past.steps, pool.quotas, fairshare, now_s
        )
        # Live looks keep the history fresh; accounting that is away only leaves gaps from before.
        known = trusted(usage(integrals, fairshare), 0.0, fairshare.staleness_s)
        degraded: tuple[str, ...] = ()
        if self.away_since_s is not None and now_s - self.away_since_s > fairshare.staleness_s:
            degraded = (
                f"pool {pool.pool.name}: accounting has not answered for {now_s - self.away_since_s} s",
            )
        seen_s = int(past.steps.time_s[0])  # the first look
        return PoolUsage(
            known.usage, max(min(past.known_from_s, seen_s), integrals.start_s), seen_s, degraded
        )

    def _note_steps(self, pool: PoolSnapshot, past: PoolPast, now_s: int) -> None:
        """Write down what there is and what is promised, where it differs from what was noted last."""
        current = {CAPACITY: tuple(float(amount) for amount in pool.room.capacity)}
        for path, deserved in zip(pool.quotas.path, pool.quotas.deserved.tolist(), strict=True):
            amounts = [0.0] * len(RESOURCES)
            for resource, amount in zip(pool.quotas.resources, deserved, strict=True):
                amounts[resource] = amount
            current[path] = tuple(amounts)
        before = len(past.steps)
        past.steps = noted(past.steps, now_s, current)
        if len(past.steps) > before:
            self._keep_steps(pool.pool.name, past.steps)

    def _follow_moves(self, pool: PoolSnapshot, past: PoolPast) -> None:
        """Let quotas that a new policy moved in the tree take their history along (SEMANTICS 7.2)."""
        known = tuple(dict.fromkeys(path for path in past.steps.path if path != CAPACITY))
        gone = moves(known, pool.quotas.path)
        if not gone:
            return
        past.ledger = renamed(past.ledger, gone)
        past.steps = replace(past.steps, path=tuple(gone.get(path, path) for path in past.steps.path))
        number = self.state.number_of
        self.state.rename_quotas(
            number(pool.pool.name), {number(old): number(new) for old, new in gone.items()}
        )
        log.info(
            "quotas moved, their history with them: %s", ", ".join(f"{a} -> {b}" for a, b in gone.items())
        )

    def _past(self, pool: Pool) -> PoolPast:
        return self.pools.setdefault(pool.name, PoolPast(Ledger(), NO_STEPS))

    def _note_reads(self, accounting_s: int) -> None:
        known = {name: past.known_from_s for name, past in self.pools.items() if past.known_from_s < NEVER_S}
        self.state.save_json("known_from_s", known)
        self.state.set_meta(accounting_s=str(accounting_s))

    def _known(self) -> dict[str, int]:
        known = self.state.load_json("known_from_s")
        return {str(name): int(at_s) for name, at_s in known.items()} if isinstance(known, dict) else {}

    # -- the state file --------------------------------------------------------------------------------

    def _load(self) -> None:
        runs, pauses, steps = (self.state.load_rows(*table) for table in (RUNS, PAUSES, STEPS))
        last_s = int(self.state.meta("last_cycle_s") or UNSET_S)
        known = self._known()
        for number in np.unique(np.concatenate([runs[:, 0], steps[:, 0]])).tolist():
            mine = runs[runs[:, 0] == number]
            paused = pauses[pauses[:, 0] == number]
            rows = Rows(
                mine[:, 1].copy(),
                mine[:, 2].copy(),
                mine[:, 3].copy(),
                tuple(self.state.name_of(quota) for quota in mine[:, 4].tolist()),
                mine[:, 5:8] / MICRO,
                mine[:, 8].astype(np.uint8),
                Pauses(run_keys(paused[:, 1], paused[:, 2]), paused[:, 3].copy(), paused[:, 4].copy()),
            )
            noted_rows = [
                (int(time_s), self.state.name_of(int(quota)), tuple(amount / MICRO for amount in amounts))
                for _, time_s, quota, *amounts in steps[steps[:, 0] == number].tolist()
            ]
            name = self.state.name_of(number)
            self.pools[name] = PoolPast(
                ledger_of(rows, last_s), steps_of(noted_rows), known_from_s=known.get(name, NEVER_S)
            )

    def _keep(self, name: str, past: PoolPast, merge: Merge) -> None:
        """Take a merged ledger, and write what changed in it."""
        past.ledger = merge.ledger
        if not len(merge.changed) and not len(merge.gone):
            return
        rows, pool = merge.rows(), self.state.number_of(name)
        keys = np.concatenate([merge.gone, run_keys(rows.job_id, rows.start_s)])
        runs_gone = _with_pool(pool, keys >> 32, keys & 0xFFFFFFFF)
        quota = np.asarray([self.state.number_of(path) for path in rows.path], dtype=np.int64)
        amounts = np.rint(rows.amounts * MICRO).astype(np.int64)
        runs = _with_pool(
            pool, rows.job_id, rows.start_s, rows.end_s, quota, *amounts.T, rows.known.astype(np.int64)
        )
        paused = rows.pauses
        pauses = _with_pool(pool, paused.key >> 32, paused.key & 0xFFFFFFFF, paused.from_s, paused.to_s)
        with self.state.transaction():
            self.state.replace_rows(RUNS[0], RUNS[1][:3], runs_gone, runs)
            self.state.replace_rows(PAUSES[0], PAUSES[1][:3], runs_gone, pauses)

    def _keep_steps(self, name: str, steps: Steps) -> None:
        pool = self.state.number_of(name)
        quota = np.asarray([self.state.number_of(path) for path in steps.path], dtype=np.int64)
        amounts = np.rint(steps.amounts * MICRO).astype(np.int64)
        with self.state.transaction():
            rows = _with_pool(pool, steps.time_s, quota, *amounts.T)
            self.state.replace_rows(STEPS[0], STEPS[1][:1], np.asarray([[pool]]), rows)

    def _forget(self, snapshot: Snapshot, now_s: int) -> None:
        """Drop runs that ended before the window, two windows back: one setting back of the window costs nothing."""
        for pool in snapshot.pools:
            past = self._past(pool.pool)
            window_s = now_s - window_start(pool.pool.fairshare.window, now_s)
            before_s = now_s - 2 * max(window_s, 86400)
            past.known_from_s = max(past.known_from_s, before_s)
            past.ledger = forgotten(past.ledger, before_s)
            steps = forgotten_steps(past.steps, before_s)
            if steps is not past.steps:
                past.steps = steps
                self._keep_steps(pool.pool.name, steps)
            self.state.forget_runs(self.state.number_of(pool.pool.name), before_s)
        self.forgot_s = now_s
        self._note_reads(self.accounting_s)


def _with_pool(pool: int, *columns: Ints) -> Ints:
    """Return columns as rows with the pool's number in front."""
    n = len(columns[0])
    return np.stack([np.full(n, pool), *columns], axis=1).astype(np.int64)


class _Progress:
    """Says now and then how far a long read has come; says nothing of a short one."""

    def __init__(self) -> None:
        self.told_s = time.monotonic()

    def __call__(self, done: float) -> None:
        if time.monotonic() - self.told_s >= TELL_EVERY_S:
            self.told_s = time.monotonic()
            log.info("reading accounting done=%d%%", round(100 * done))

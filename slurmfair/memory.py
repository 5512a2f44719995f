"""What one cycle leaves to the next, and how it is kept in the state file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from slurmfair.model import Bools, Ints
from slurmfair.placing import Placing, nothing_placed
from slurmfair.promises import Promises, nothing_promised
from slurmfair.state import State
from slurmfair.timers import Remembered, Seen, nothing_remembered
from slurmfair.unfit import Unfit, nothing_unfit


@dataclass(frozen=True, slots=True)
class PoolMemory:
    timers: Remembered = field(default_factory=nothing_remembered)
    placing: Placing = field(default_factory=nothing_placed)
    promises: Promises = field(default_factory=nothing_promised)
    unfit: Unfit = field(default_factory=nothing_unfit)  # not kept in the state file


@dataclass(frozen=True, slots=True)
class Memory:
    """What is known from earlier cycles. `blanked` holds the class of reason that our own write hid, by job id."""

    pools: Mapping[str, PoolMemory] = field(default_factory=dict)
    blanked: Mapping[int, int] = field(default_factory=dict)
    last_cycle_s: int | None = None

    def of_pool(self, name: str) -> PoolMemory:
        return self.pools.get(name, PoolMemory())


TABLE = "entries"
COLUMNS = (
    "pool", "entry_id", "submit_s", "quota", "policy", "job_priority", "gpus", "cpus", "mem", "restarts",
    "user_requeued", "user_held", "bound", "since_s",
    "order_s", "waiting_since_s", "first_attempt_s", "leading_since_s",
)  # fmt: skip
KEY = 2
PLACING, PLACING_COLUMNS = "placing", ("pool", "entry_id", "since_s", "stuck_free", "tasks")
PROMISED, PROMISED_COLUMNS = "promised", ("pool", "entry_id")


def load_memory(state: State) -> Memory:
    """Return what the state file knows; an empty memory for a new file."""
    last = state.meta("last_cycle_s")
    entries = state.load_rows(TABLE, COLUMNS, KEY)
    placing = state.load_rows(PLACING, PLACING_COLUMNS, KEY)
    promised = state.load_rows(PROMISED, PROMISED_COLUMNS, KEY)
    pools = {
        state.name_of(int(pool)): PoolMemory(
            _remembered(state, entries[entries[:, 0] == pool]),
            _placing(placing[placing[:, 0] == pool]),
            Promises(promised[promised[:, 0] == pool, 1]),
        )
        for pool in np.unique(entries[:, 0])
    }
    return Memory(pools=pools, last_cycle_s=None if last is None else int(last))


def save_memory(state: State, memory: Memory) -> int:
    """Write what changed; return how many rows that were."""
    entries = [_rows(state, name, pool.timers) for name, pool in memory.pools.items()]
    placing = [_placing_rows(state, name, pool.placing) for name, pool in memory.pools.items()]
    promised = [_promised_rows(state, name, pool.promises) for name, pool in memory.pools.items()]
    return (
        state.save_rows(TABLE, COLUMNS, KEY, _stacked(entries, len(COLUMNS)))
        + state.save_rows(PLACING, PLACING_COLUMNS, KEY, _stacked(placing, len(PLACING_COLUMNS)))
        + state.save_rows(PROMISED, PROMISED_COLUMNS, KEY, _stacked(promised, len(PROMISED_COLUMNS)))
    )


def _stacked(tables: list[Ints], width: int) -> Ints:
    return np.concatenate([np.empty((0, width), dtype=np.int64), *tables])


def _numbers(state: State, names: tuple[str, ...]) -> Ints:
    return np.asarray([state.number_of(name) for name in names], dtype=np.int64)


def _rows(state: State, pool: str, timers: Remembered) -> Ints:
    seen = timers.seen
    n = len(timers)
    if n == 0:
        return np.empty((0, len(COLUMNS)), dtype=np.int64)
    columns = [
        np.full(n, state.number_of(pool)), seen.entry_id, seen.submit_s,
        _numbers(state, seen.path)[seen.leaf], _numbers(state, seen.policy)[seen.leaf],
        seen.job_priority, *seen.need.T, seen.restarts,
        seen.user_requeued_s, seen.user_held, seen.bound, seen.since_s,
        timers.order_s, timers.waiting_since_s, timers.first_attempt_s, timers.leading_since_s,
    ]  # fmt: skip
    return np.stack(columns, axis=1).astype(np.int64)


def _remembered(state: State, rows: Ints) -> Remembered:
    at = {name: rows[:, column].copy() for column, name in enumerate(COLUMNS)}
    pairs, leaf = np.unique(rows[:, 3:5], axis=0, return_inverse=True)
    seen = Seen(
        entry_id=at["entry_id"],
        submit_s=at["submit_s"],
        leaf=leaf.reshape(-1).astype(np.int32),
        job_priority=at["job_priority"],
        need=np.ascontiguousarray(rows[:, 6:9]),
        restarts=at["restarts"],
        user_requeued_s=at["user_requeued"],
        user_held=_flags(at["user_held"]),
        bound=_flags(at["bound"]),
        since_s=at["since_s"],
        path=tuple(state.name_of(int(quota)) for quota, _ in pairs),
        policy=tuple(state.name_of(int(policy)) for _, policy in pairs),
    )
    return Remembered(
        seen, at["order_s"], at["waiting_since_s"], at["first_attempt_s"], at["leading_since_s"]
    )


def _flags(column: Ints) -> Bools:
    return column != 0


def _placing_rows(state: State, pool: str, placing: Placing) -> Ints:
    number = np.full(len(placing.entry_id), state.number_of(pool))
    columns = [number, placing.entry_id, placing.since_s, placing.stuck_free, placing.tasks]
    return np.stack(columns, axis=1)


def _placing(rows: Ints) -> Placing:
    return Placing(*(rows[:, column].copy() for column in range(1, len(PLACING_COLUMNS))))


def _promised_rows(state: State, pool: str, promises: Promises) -> Ints:
    number = np.full(len(promises.entry_id), state.number_of(pool))
    return np.stack([number, promises.entry_id], axis=1)

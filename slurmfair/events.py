"""The ledger as events in the order of time: what the sweeps of _core/usage.pyx work off."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slurmfair._core import run_events, sort_events
from slurmfair.ledger import Ledger
from slurmfair.model import UNSET_S, Codes, Floats, Ints, Quotas
from slurmfair.runs import Runs
from slurmfair.steps import CAPACITY, Steps

STEP_CODES = 1 << 30  # as in the kernel
HALF = 1 << 31
ROOM = 1 << 14  # places in a log for what is to come


@dataclass(frozen=True, slots=True)
class StepTable:
    """The steps that happen after an origin, and what held at the origin."""

    node: Codes  # shape (n_steps,): -1 for the capacity, -2 for a quota that is no more
    amounts: Floats  # shape (n_steps, n_resources)
    time_s: Ints
    deserved: Floats  # shape (n_quotas, n_resources): at the origin
    capacity: Floats  # shape (n_resources,): at the origin


def event_keys(time_s: Ints, code: Ints | Codes, origin_s: int) -> Ints:
    """Return events as the kernel reads them; what happened before the origin happens there."""
    return (np.maximum(time_s - origin_s, 0) << 32) | (code + np.int64(HALF))


def all_events(ledger: Ledger, steps: StepTable, origin_s: int, until_s: int) -> tuple[Ints, int]:
    """Return what matters after the origin and happens until `until_s`, in the order of time.

    The events are the first so many of the array, behind them is room for more.
    """
    tables = (ledger.open, ledger.recent, ledger.closed)
    room = ROOM + len(ledger) // 8
    events, n = _unordered(ledger, tables, steps, origin_s, UNSET_S, until_s, room)
    return _in_order(events, n), n


def fresh_events(ledger: Ledger, steps: StepTable, origin_s: int, after_s: int, until_s: int) -> Ints:
    """Return what happened after `after_s`, which must not be more than an hour ago, in the order of time."""
    events, n = _unordered(ledger, (ledger.open, ledger.recent), steps, origin_s, after_s, until_s, 0)
    return _in_order(events, n)[:n]


def _unordered(
    ledger: Ledger,
    tables: tuple[Runs, ...],
    steps: StepTable,
    origin_s: int,
    after_s: int,
    until_s: int,
    room: int,
) -> tuple[Ints, int]:
    others = np.append(
        _pause_events(ledger, origin_s, after_s, until_s), _step_events(steps, origin_s, after_s, until_s)
    )
    events = np.empty(2 * sum(map(len, tables)) + len(others) + room, dtype=np.int64)
    n = 0
    for runs in tables:
        n += run_events(runs.key, runs.end_s, runs.holding, origin_s, after_s, until_s, events[n:])
    events[n : n + len(others)] = others
    return events, n + len(others)


def _in_order(events: Ints, n: int) -> Ints:
    """Return an array of the same length with the first n events in the order of time."""
    if n == 0:
        return events
    spare = np.empty_like(events)
    return spare if sort_events(events[:n], spare[:n]) else events


def _pause_events(ledger: Ledger, origin_s: int, after_s: int, until_s: int) -> Ints:
    """Return the ends and beginnings of what runs hold around their suspensions."""
    pauses = ledger.pauses
    if len(pauses) == 0:
        return np.empty(0, dtype=np.int64)
    open_end = np.where(pauses.to_s == UNSET_S, until_s + 1, pauses.to_s)
    rows = np.flatnonzero((open_end > max(after_s, origin_s)) & (pauses.from_s <= until_s))
    key, from_s, to_s = pauses.key[rows], pauses.from_s[rows], open_end[rows]
    holding = np.full(len(key), -1, dtype=np.int32)
    for table in (ledger.open, ledger.recent, ledger.closed) if len(key) else ():
        at = table.find(key)
        holding[at >= 0] = table.holding[at[at >= 0]]
    stops = (from_s > after_s) & (holding >= 0)
    goes_on = (to_s <= until_s) & (holding >= 0)
    return np.append(
        event_keys(from_s[stops], ~holding[stops], origin_s),
        event_keys(to_s[goes_on], holding[goes_on], origin_s),
    )


def nodes_of(paths: tuple[str, ...], quotas: Quotas) -> Codes:
    """Return the quota of each path; of one that is no more the nearest quota above, -1 if there is none."""
    row_of = {path: row for row, path in enumerate(quotas.path)}

    def node(path: str) -> int:
        while path not in row_of:
            path, dot, _ = path.rpartition(".")
            if not dot:
                return -1
        return row_of[path]

    return np.array([node(path) for path in paths], dtype=np.int32)


def step_table(steps: Steps, quotas: Quotas, origin_s: int) -> StepTable:
    """Return the steps after the origin; a quota without steps deserves what it deserves today."""
    columns = list(quotas.resources)
    row_of = {path: row for row, path in enumerate(quotas.path)} | {CAPACITY: -1}
    node = np.array([row_of.get(path, -2) for path in steps.path], dtype=np.int32)
    amounts = exactly(steps.amounts[:, columns])
    current = np.vstack([exactly(quotas.deserved), np.zeros((1, len(columns)))])  # the capacity is row -1
    first = np.flatnonzero(node >= -1)[::-1]
    current[node[first]] = amounts[first]  # of several the last assigned, which is the first step
    for i in first[::-1]:
        if steps.time_s[i] > origin_s:
            break
        current[node[i]] = amounts[i]
    later = steps.time_s > origin_s
    return StepTable(node[later], amounts[later], steps.time_s[later], current[:-1], current[-1])


def exactly(amounts: Floats) -> Floats:
    """Return the amounts in multiples of 2^-36, so that their sums have no rounding error that could pile up."""
    return np.asarray(np.ldexp(np.rint(np.ldexp(amounts, 36)), -36))


def _step_events(table: StepTable, origin_s: int, after_s: int, until_s: int) -> Ints:
    rows = np.flatnonzero((table.time_s > after_s) & (table.time_s <= until_s) & (table.node >= -1))
    return event_keys(table.time_s[rows], STEP_CODES + rows, origin_s)

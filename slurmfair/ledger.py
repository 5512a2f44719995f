"""The ledger of one pool: every run of every job, put together from live looks and accounting.

Both sources may be late, overlap and repeat themselves. A run is known by its job id and start, its end
by the best source so far (`Known`), and runs of one job never overlap, so nothing counts twice. Slurm's
accounting shows only the latest run of a requeued job; the ledger keeps them all.

The functions return a new ledger with what changed in it, for the state file. Columns that did not
change are shared with the old one.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

import numpy as np

from slurmfair.model import UNSET_S, Bytes, Floats, Ints
from slurmfair.runs import (
    NO_HOLDINGS,
    NO_PAUSES,
    NO_RUNS,
    START_BITS,
    Holdings,
    Known,
    Pauses,
    Runs,
    run_keys,
    runs_of,
    with_holdings,
)

RECENT_S = 3600  # a run that ended longer ago may move to the bulk of the ledger
REMEMBERED = 256  # versions whose alterations are remembered
NEVER_S = 1 << 60


@dataclass(frozen=True, slots=True)
class Ledger:
    """All runs of a pool; `open` go on, `recent` ended not long ago, `closed` is the bulk."""

    paths: tuple[str, ...] = ()  # of leaves, now or in the past; a path keeps its code for ever
    holdings: Holdings = NO_HOLDINGS
    open: Runs = NO_RUNS
    recent: Runs = NO_RUNS
    closed: Runs = NO_RUNS
    pauses: Pauses = NO_PAUSES
    read_s: int = UNSET_S  # time of the last live look
    version: int = 0
    altered: tuple[tuple[int, int], ...] = ()  # version, and the earliest moment it changed

    def __len__(self) -> int:
        return len(self.open) + len(self.recent) + len(self.closed)

    def altered_since(self, version: int) -> int:
        """Return the earliest moment at which anything changed after that version, NEVER_S for none."""
        if self.altered and self.altered[0][0] > version + 1:
            return 0
        return min((moment for number, moment in self.altered if number > version), default=NEVER_S)

    def rows(self, key: Ints) -> Rows:
        """Return the runs with these keys as plain columns; keys that are in no table are left out."""
        found = NO_RUNS
        for table in (self.open, self.recent, self.closed):
            at = table.find(key)
            found = found.joined(table.take(at[at >= 0]))
        mine = np.isin(self.pauses.key, found.key)
        return Rows(
            found.job_id,
            found.start_s,
            found.end_s,
            tuple(self.paths[leaf] for leaf in self.holdings.leaf[found.holding]),
            self.holdings.amounts[found.holding],
            found.known,
            Pauses(self.pauses.key[mine], self.pauses.from_s[mine], self.pauses.to_s[mine]),
        )

    def unsure(self) -> Ints:
        """Return the job ids whose last end is a guess: accounting should be asked about them."""
        tables = (self.recent, self.closed)
        guessed = [table.key[table.known == Known.GUESSED] for table in tables]
        return np.unique(np.concatenate(guessed) >> START_BITS)


@dataclass(frozen=True, slots=True)
class Rows:
    """Runs as the state file keeps them, sorted by job_id and start_s, which identify a run."""

    job_id: Ints
    start_s: Ints
    end_s: Ints  # UNSET_S while it goes on
    path: tuple[str, ...]
    amounts: Floats  # shape (n_runs, 3): in the order of RESOURCES
    known: Bytes
    pauses: Pauses  # all pauses of these runs; they replace those kept before

    def __len__(self) -> int:
        return len(self.job_id)


@dataclass(frozen=True, slots=True)
class Merge:
    """A new ledger and the runs in which it differs from the old one, by key."""

    ledger: Ledger
    changed: Ints
    gone: Ints  # removed: they were parts of other runs

    def rows(self) -> Rows:
        return self.ledger.rows(self.changed)


def ledger_of(rows: Rows, read_s: int) -> Ledger:
    """Return the ledger that was written as `rows`, last brought up to date at `read_s`."""
    paths = tuple(dict.fromkeys(rows.path))
    code_of = {path: code for code, path in enumerate(paths)}
    leaf = np.array([code_of[path] for path in rows.path], dtype=np.int32)
    holdings, holding = with_holdings(NO_HOLDINGS, leaf, rows.amounts)
    runs = runs_of(run_keys(rows.job_id, rows.start_s), rows.end_s, holding, rows.known)
    going_on = runs.end_s == UNSET_S
    bulk = ~going_on & (runs.end_s < read_s - RECENT_S)
    tables = (runs.take(going_on), runs.take(~going_on & ~bulk), runs.take(bulk))
    return Ledger(paths, holdings, *tables, rows.pauses, read_s)


def forgotten(ledger: Ledger, before_s: int) -> Ledger:
    """Return the ledger without the runs that ended before `before_s`, the beginning of the window."""
    closed = ledger.closed.take(ledger.closed.end_s >= before_s)
    recent = ledger.recent.take(ledger.recent.end_s >= before_s)
    key = np.concatenate([ledger.open.key, recent.key, closed.key])
    mine = np.isin(ledger.pauses.key, key)
    pauses = Pauses(ledger.pauses.key[mine], ledger.pauses.from_s[mine], ledger.pauses.to_s[mine])
    return replace(ledger, closed=closed, recent=recent, pauses=pauses)


def moves(before: tuple[str, ...], after: tuple[str, ...]) -> dict[str, str]:
    """Return where quotas went when the tree changed: old path to new path.

    A quota moved if its path is gone, and exactly one new path ends in the same name. What cannot be
    told apart is no move: its history stays with the nearest quota above it.
    """
    gone = Counter(path.rpartition(".")[2] for path in set(before) - set(after))
    come: dict[str, list[str]] = {}
    for path in sorted(set(after) - set(before)):
        come.setdefault(path.rpartition(".")[2], []).append(path)
    return {
        path: come[name][0]
        for path in sorted(set(before) - set(after))
        if gone[name := path.rpartition(".")[2]] == 1 and len(come.get(name, ())) == 1
    }


def renamed(ledger: Ledger, paths: dict[str, str]) -> Ledger:
    """Return the ledger after quotas were moved: they take their runs along (SEMANTICS 7.2)."""
    if not any(path in paths for path in ledger.paths):
        return ledger
    return replace(
        ledger,
        paths=tuple(paths.get(path, path) for path in ledger.paths),
        version=ledger.version + 1,
        altered=(*ledger.altered[-REMEMBERED + 1 :], (ledger.version + 1, 0)),
    )

"""The ledger of one pool: every run of every job, put together from live looks and accounting.

Both sources may be late, overlap and repeat themselves. A run is known by its job id and start, its end
by the best source so far (`Known`), and runs of one job never overlap, so nothing counts twice. Slurm's
accounting shows only the latest run of a requeued job; the ledger keeps them all.

The functions return a new ledger with what changed in it, for the state file. Columns that did not
change are shared with the old one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from slurmfair.model import UNSET_S, Bytes, Codes, Floats, Ints
from slurmfair.runs import (
    NO_HOLDINGS,
    NO_PAUSES,
    NO_RUNS,
    START_MASK,
    Holdings,
    Known,
    Pauses,
    Runs,
    run_keys,
    runs_of,
    with_holdings,
)

RECENT_S = 3600  # a run that ended longer ago may move to the bulk of the ledger
FEW = 4096  # recent runs that are not worth moving
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
        guessed = [table.job_id[table.known == Known.GUESSED] for table in (self.recent, self.closed)]
        return np.unique(np.concatenate(guessed))


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


class Draft:
    """A ledger while something is merged into it."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.paths = ledger.paths
        self.holdings = ledger.holdings
        self.open = ledger.open
        self.recent = ledger.recent
        self.closed = ledger.closed
        self.pauses = ledger.pauses
        self.altered_s = NEVER_S
        self.changed: list[Ints] = []
        self.gone: list[Ints] = []

    def note(self, key: Ints, moment_s: Ints) -> None:
        """Remember that these runs changed, from these moments on."""
        if len(key):
            self.changed.append(key)
            self.altered_s = min(self.altered_s, int(moment_s.min()))

    def codes(self, leaf: Codes, paths: tuple[str, ...]) -> Codes:
        """Return the ledger's code of each leaf, which is an index into `paths`."""
        if paths != self.paths[: len(paths)]:
            code_of = {path: code for code, path in enumerate(self.paths)}
            self.paths += tuple(path for path in paths if path not in code_of)
            code_of = {path: code for code, path in enumerate(self.paths)}
            leaf = np.array([code_of[path] for path in paths], dtype=np.int32)[leaf]
        elif len(self.paths) < len(paths):
            self.paths = paths
        return leaf

    def holding(self, leaf: Codes, amounts: Floats) -> Codes:
        self.holdings, codes = with_holdings(self.holdings, leaf, amounts)
        return codes

    def begin(self, key: Ints, holding: Codes) -> None:
        runs = runs_of(key, np.full(len(key), UNSET_S), holding, Known.LIVE)
        self.open = self.open.joined(runs)
        self.note(key, key & START_MASK)

    def end(self, rows: Ints, end_s: Ints, known: Bytes | int) -> None:
        """End open runs."""
        runs = self.open.take(rows)
        self.open = self.open.without(rows)
        self.recent = self.recent.joined(runs_of(runs.key, end_s, runs.holding, known))
        self.note(runs.key, end_s)
        self._clip_pauses(runs.key, end_s)

    def insert(self, key: Ints, end_s: Ints, holding: Codes, known: int) -> None:
        """Add runs that have ended."""
        self.recent = self.recent.joined(runs_of(key, end_s, holding, known))
        self.note(key, key & START_MASK)

    def amend(self, key: Ints, end_s: Ints, holding: Codes, known: int) -> None:
        """Correct runs that have ended."""
        for name in ("recent", "closed"):
            table: Runs = getattr(self, name)
            rows = table.find(key)
            mine = rows >= 0
            old = table.take(rows[mine])
            same = old.holding == holding[mine]
            moment_s = np.where(same, np.minimum(old.end_s, end_s[mine]), old.start_s)
            told = np.full(len(old), known, dtype=np.uint8)
            table = table.amended(rows[mine], end_s=end_s[mine], holding=holding[mine], known=told)
            setattr(self, name, table)
            moved = (old.end_s != end_s[mine]) | ~same
            self.note(old.key, np.where(moved, moment_s, NEVER_S))
        self._clip_pauses(key, end_s)

    def reopen(self, key: Ints) -> None:
        """Let runs go on whose end was a wrong guess."""
        for name in ("recent", "closed"):
            table: Runs = getattr(self, name)
            rows = table.find(key)
            runs = table.take(rows[rows >= 0])
            setattr(self, name, table.without(rows[rows >= 0]))
            self.begin(runs.key, runs.holding)
            self.note(runs.key, runs.end_s)

    def change_holding(self, rows: Ints, holding: Codes) -> None:
        """Let open runs have held something else from their start."""
        runs = self.open.take(rows)
        self.open = self.open.amended(rows, end_s=runs.end_s, holding=holding, known=runs.known)
        self.note(runs.key, runs.start_s)

    def remove(self, key: Ints) -> None:
        """Take out runs that were parts of others."""
        for name in ("open", "recent", "closed"):
            table: Runs = getattr(self, name)
            rows = table.find(key)
            setattr(self, name, table.without(rows[rows >= 0]))
        self.note(key, key & START_MASK)
        self.gone.append(key)
        self.pauses = self.pauses.replaced({int(k): [] for k in key})

    def pause(self, key: int, pauses: list[tuple[int, int]]) -> None:
        """Set when a run was suspended."""
        before = self.pauses.of(key)
        if pauses != before:
            self.pauses = self.pauses.replaced({key: pauses})
            differing = [
                moment for pause in set(pauses) ^ set(before) for moment in pause if moment != UNSET_S
            ]
            self.note(np.array([key]), np.array([min(differing)]))

    def _clip_pauses(self, key: Ints, end_s: Ints) -> None:
        """Let no pause outlast its run."""
        if len(self.pauses) == 0:
            return
        for i in np.flatnonzero(np.isin(key, self.pauses.key)):
            clipped = [
                (from_s, int(end_s[i]) if to_s == UNSET_S else min(to_s, int(end_s[i])))
                for from_s, to_s in self.pauses.of(int(key[i]))
            ]
            self.pause(int(key[i]), [(from_s, to_s) for from_s, to_s in clipped if from_s < to_s])

    def finished(self, read_s: int) -> Merge:
        """Return the new ledger, with runs that ended long before `read_s` moved to the bulk."""
        empty = [np.empty(0, dtype=np.int64)]
        gone = np.unique(np.concatenate(self.gone + empty))
        changed = np.setdiff1d(np.concatenate(self.changed + empty), gone)
        version = self.ledger.version + 1
        altered = self.ledger.altered
        if self.altered_s < NEVER_S:
            altered = (*altered[-REMEMBERED + 1 :], (version, self.altered_s))
        recent, closed = self.recent, self.closed
        if len(recent) > max(FEW, len(closed) // 64):
            old = np.flatnonzero(recent.end_s < read_s - RECENT_S)
            closed = closed.joined(recent.take(old))
            recent = recent.without(old)
        ledger = Ledger(
            self.paths,
            self.holdings,
            self.open,
            recent,
            closed,
            self.pauses,
            read_s,
            version,
            altered,
        )
        return Merge(ledger, changed, gone)


def ledger_of(rows: Rows, read_s: int) -> Ledger:
    """Return the ledger that was written as `rows`, last brought up to date at `read_s`."""
    draft = Draft(Ledger())
    paths = tuple(dict.fromkeys(rows.path))
    code_of = {path: code for code, path in enumerate(paths)}
    leaf = draft.codes(np.array([code_of[path] for path in rows.path], dtype=np.int32), paths)
    key = run_keys(rows.job_id, rows.start_s)
    runs = runs_of(key, rows.end_s, draft.holding(leaf, rows.amounts), rows.known)
    going_on = runs.end_s == UNSET_S
    bulk = ~going_on & (runs.end_s < read_s - RECENT_S)
    return Ledger(
        draft.paths,
        draft.holdings,
        runs.take(going_on),
        runs.take(~going_on & ~bulk),
        runs.take(bulk),
        rows.pauses,
        read_s,
    )


def forgotten(ledger: Ledger, before_s: int) -> Ledger:
    """Return the ledger without the runs that ended before `before_s`, the beginning of the window."""
    closed = ledger.closed.take(ledger.closed.end_s >= before_s)
    recent = ledger.recent.take(ledger.recent.end_s >= before_s)
    key = np.concatenate([ledger.open.key, recent.key, closed.key])
    mine = np.isin(ledger.pauses.key, key)
    pauses = Pauses(ledger.pauses.key[mine], ledger.pauses.from_s[mine], ledger.pauses.to_s[mine])
    return replace(ledger, closed=closed, recent=recent, pauses=pauses)

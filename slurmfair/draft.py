"""A ledger while something is merged into it: tables change here, and what changed is written down."""

from __future__ import annotations

import numpy as np

from slurmfair.ledger import NEVER_S, RECENT_S, REMEMBERED, Ledger, Merge
from slurmfair.model import UNSET_S, Bytes, Codes, Floats, Ints
from slurmfair.runs import START_MASK, Known, Runs, runs_of, with_holdings

FEW = 4096  # recent runs that are not worth moving


class Draft:
    """A ledger that may be changed; `finished` gives the new one."""

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

"""Runs of jobs as columns: who held what from when to when.

A run is one job id and one start: a requeued job has several. A run's holding is a code into
`Holdings`, because a million runs share few sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import TypeVar

import numpy as np

from slurmfair.model import RESOURCES, UNSET_S, Bools, Bytes, Codes, Floats, Ints

START_BITS = 32  # of a key; above them stands the job id
START_MASK = (1 << START_BITS) - 1


class Known(IntEnum):
    """Who told when a run ended; a better source corrects a worse one, never the other way round."""

    GUESSED = 0  # it had gone at the next look
    LIVE = 1  # the controller
    RECORD = 2  # accounting


def run_keys(job_id: Ints, start_s: Ints) -> Ints:
    """Return one number a run that sorts by job id, then start."""
    return (job_id << START_BITS) | start_s


@dataclass(frozen=True, slots=True)
class Runs:
    """Runs sorted by key, each column of shape (n_runs,)."""

    key: Ints
    end_s: Ints  # UNSET_S while it goes on
    holding: Codes
    known: Bytes  # Known

    def __len__(self) -> int:
        return len(self.key)

    @property
    def job_id(self) -> Ints:
        return self.key >> START_BITS

    @property
    def start_s(self) -> Ints:
        return self.key & START_MASK

    def find(self, key: Ints) -> Ints:
        """Return the row of each key, -1 where there is none."""
        if len(self) == 0:
            return np.full(len(key), -1)
        row = np.searchsorted(self.key, key)
        row[row == len(self)] = 0
        return np.where(self.key[row] == key, row, -1)

    def take(self, rows: Ints | Bools) -> Runs:
        return Runs(self.key[rows], self.end_s[rows], self.holding[rows], self.known[rows])

    def without(self, rows: Ints) -> Runs:
        if len(rows) == 0:
            return self
        kept = np.ones(len(self), dtype=bool)
        kept[rows] = False
        return self.take(kept)

    def joined(self, other: Runs) -> Runs:
        """Return these runs and the other ones, none of which is among them yet."""
        if len(other) == 0:
            return self
        if len(self) == 0:
            return other
        at = np.searchsorted(self.key, other.key)
        return Runs(
            np.insert(self.key, at, other.key),
            np.insert(self.end_s, at, other.end_s),
            np.insert(self.holding, at, other.holding),
            np.insert(self.known, at, other.known),
        )

    def amended(self, rows: Ints, *, end_s: Ints, holding: Codes, known: Bytes) -> Runs:
        """Return the runs with these rows changed."""
        if len(rows) == 0:
            return self
        changed = self
        if not np.array_equal(self.end_s[rows], end_s):
            changed = replace(changed, end_s=_with(self.end_s, rows, end_s))
        if not np.array_equal(self.holding[rows], holding):
            changed = replace(changed, holding=_with(self.holding, rows, holding))
        if not np.array_equal(self.known[rows], known):
            changed = replace(changed, known=_with(self.known, rows, known))
        return changed


Column = TypeVar("Column", Ints, Codes, Bytes)


def _with(column: Column, rows: Ints, values: Column) -> Column:
    """Return a copy of the column with these rows changed."""
    column = column.copy()
    column[rows] = values
    return column


def runs_of(key: Ints, end_s: Ints, holding: Codes, known: Bytes | int) -> Runs:
    """Return runs in the order of their keys."""
    order = np.argsort(key, kind="stable")
    known = np.broadcast_to(np.asarray(known, dtype=np.uint8), key.shape)
    return Runs(key[order], end_s[order], holding[order].astype(np.int32), known[order])


NO_RUNS = runs_of(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int32), Known.LIVE)


@dataclass(frozen=True, slots=True)
class Holdings:
    """The different things that runs hold, one code each; codes are never taken back."""

    leaf: Codes  # shape (n_holdings,): code of the path
    amounts: Floats  # shape (n_holdings, 3): in the order of RESOURCES
    code_of: dict[tuple[float, ...], int]

    def __len__(self) -> int:
        return len(self.leaf)


NO_HOLDINGS = Holdings(np.empty(0, np.int32), np.empty((0, len(RESOURCES))), {})


def with_holdings(known: Holdings, leaf: Codes, amounts: Floats) -> tuple[Holdings, Codes]:
    """Return the holdings with those of the given rows, and the code of each row."""
    rows, inverse = _distinct([leaf, *amounts.T])
    code_of = dict(known.code_of)
    codes = np.empty(len(rows), dtype=np.int32)
    fresh = []
    for i, row in enumerate(rows):
        wanted = (float(leaf[row]), *amounts[row].tolist())
        if wanted not in code_of:
            code_of[wanted] = len(code_of)
            fresh.append(row)
        codes[i] = code_of[wanted]
    if fresh:
        known = Holdings(
            np.append(known.leaf, leaf[fresh]).astype(np.int32),
            np.vstack([known.amounts, amounts[fresh]]),
            code_of,
        )
    return known, codes[inverse]


def _distinct(columns: Sequence[Ints | Floats | Codes]) -> tuple[Ints, Ints]:
    """Return the first row of each distinct combination, and which combination each row has."""
    code = np.zeros(len(columns[0]), dtype=np.int64)
    for column in columns:
        values, inverse = np.unique(column, return_inverse=True)
        _, code = np.unique(code * len(values) + inverse, return_inverse=True)
    _, first = np.unique(code, return_index=True)
    return first, code


@dataclass(frozen=True, slots=True)
class Pauses:
    """When runs were suspended, sorted by run and time, each column of shape (n_pauses,)."""

    key: Ints
    from_s: Ints
    to_s: Ints  # UNSET_S while it lasts

    def __len__(self) -> int:
        return len(self.key)

    def of(self, key: int) -> list[tuple[int, int]]:
        """Return the pauses of one run, in the order of time."""
        rows = range(*np.searchsorted(self.key, [key, key + 1]).tolist())
        return [(int(self.from_s[i]), int(self.to_s[i])) for i in rows]

    def replaced(self, pauses_of: dict[int, list[tuple[int, int]]]) -> Pauses:
        """Return the pauses with those of the given runs replaced."""
        if not pauses_of:
            return self
        kept = ~np.isin(self.key, np.fromiter(pauses_of, np.int64))
        new = np.array(
            [(key, *pause) for key, pauses in pauses_of.items() for pause in pauses], dtype=np.int64
        ).reshape(-1, 3)
        key = np.append(self.key[kept], new[:, 0])
        from_s = np.append(self.from_s[kept], new[:, 1])
        order = np.lexsort((from_s, key))
        return Pauses(key[order], from_s[order], np.append(self.to_s[kept], new[:, 2])[order])


NO_PAUSES = Pauses(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int64))


def paused_for(
    ended_s: int, recorded: list[tuple[int, int]], latest_s: int, start_s: int
) -> list[tuple[int, int]]:
    """Return pauses that have ended and last `ended_s` together, the recorded ones where they agree.

    Slurm tells how long a job was suspended, not when: what was not seen is one pause that ended at
    `latest_s`. A pause that still lasts is kept.
    """
    going_on = [pause for pause in recorded if pause[1] == UNSET_S]
    ended = [pause for pause in recorded if pause[1] != UNSET_S]
    if sum(to_s - from_s for from_s, to_s in ended) != ended_s:
        ended = [(max(start_s, latest_s - ended_s), latest_s)] if ended_s > 0 else []
    return ended + going_on

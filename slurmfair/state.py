"""What outlives a restart: one SQLite file. Losing it is survivable (DESIGN 6).

Large tables are integer columns with the key first; a cycle writes only the rows that changed.
"""

from __future__ import annotations

import fcntl
import json
import os
import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np

from slurmfair.errors import StateError
from slurmfair.model import Ints

VERSION = 1
KEPT_DECISIONS = 200_000

_SCHEMA = """
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS names (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE IF NOT EXISTS overrides (
    pool TEXT NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL, who TEXT NOT NULL, at_s INTEGER NOT NULL,
    PRIMARY KEY (pool, key));
CREATE TABLE IF NOT EXISTS decisions (
    at_s INTEGER NOT NULL, job_id INTEGER NOT NULL, what TEXT NOT NULL, why TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS decisions_by_job ON decisions (job_id);
"""


@dataclass(frozen=True, slots=True)
class Override:
    """A setting changed at run time; it wins over the policy file until it is unset."""

    pool: str
    key: str
    value: str
    who: str
    at_s: int


class State:
    """The open state file. Only the daemon writes tables; the reporter adds and removes overrides."""

    def __init__(self, path: Path) -> None:
        """Open or create the file.

        Raises:
            StateError: it cannot be opened, is no database, or was made by a newer slurmfair.
        """
        self.path = path
        self._saved: dict[str, Ints] = {}
        self._names: dict[str, int] = {}
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._db = sqlite3.connect(path, timeout=10.0, isolation_level=None)
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=NORMAL")
            self._db.executescript(_SCHEMA)
            self._names = {name: key for key, name in self._db.execute("SELECT id, name FROM names")}
            found = self.meta("version")
        except (sqlite3.Error, OSError) as err:
            raise StateError(
                f"{path}: cannot be used as state file: {err}; move it away to start afresh "
                "(marks are adopted from Slurm, history comes from slurmdbd)"
            ) from err
        if found is not None and int(found) > VERSION:
            raise StateError(f"{path}: made by a newer slurmfair (format {found}, this one knows {VERSION})")
        self.set_meta(version=str(VERSION))

    def close(self) -> None:
        self._db.close()

    def meta(self, key: str) -> str | None:
        row = self._db.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        return None if row is None else str(row[0])

    def set_meta(self, **values: str) -> None:
        self._db.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", list(values.items()))

    def number_of(self, name: str) -> int:
        """Return a number that stands for the text in integer columns, the same for ever."""
        if name not in self._names:
            cursor = self._db.execute("INSERT INTO names (name) VALUES (?)", (name,))
            self._names[name] = int(cursor.lastrowid or 0)
        return self._names[name]

    def name_of(self, number: int) -> str:
        """Return the text of a number, "" for one never given out."""
        return {key: name for name, key in self._names.items()}.get(number, "")

    def load_rows(self, table: str, columns: Sequence[str], n_key: int) -> Ints:
        """Return the table as integers, shape (n, len(columns)), sorted by its first `n_key` columns."""
        self._make_table(table, columns, n_key)
        order = ", ".join(columns[:n_key])
        rows = self._db.execute(f"SELECT {', '.join(columns)} FROM {table} ORDER BY {order}").fetchall()
        found = np.asarray(rows, dtype=np.int64).reshape(len(rows), len(columns))
        self._saved[table] = found
        return found

    def save_rows(self, table: str, columns: Sequence[str], n_key: int, rows: Ints) -> int:
        """Make the table hold exactly these rows, in one transaction; return how many were written or removed.

        `rows` has shape (n, len(columns)) and distinct keys in its first `n_key` columns.
        """
        if table not in self._saved:
            self.load_rows(table, columns, n_key)
        old = self._saved[table]
        rows = rows[np.lexsort(rows[:, :n_key].T[::-1])]
        gone, changed = _difference(old, rows, n_key)
        with self.transaction():
            where = " AND ".join(f"{name} = ?" for name in columns[:n_key])
            self._db.executemany(f"DELETE FROM {table} WHERE {where}", gone[:, :n_key].tolist())
            marks = ", ".join("?" * len(columns))
            self._db.executemany(f"INSERT OR REPLACE INTO {table} VALUES ({marks})", changed.tolist())
        self._saved[table] = rows
        return len(gone) + len(changed)

    def replace_rows(self, table: str, columns: Sequence[str], gone: Ints, rows: Ints) -> None:
        """Remove all rows whose `columns` read as one of `gone`, then add `rows`; the caller opens the transaction."""
        where = " AND ".join(f"{name} = ?" for name in columns)
        self._db.executemany(f"DELETE FROM {table} WHERE {where}", gone.tolist())
        marks = ", ".join("?" * rows.shape[1])
        self._db.executemany(f"INSERT OR REPLACE INTO {table} VALUES ({marks})", rows.tolist())

    def forget_runs(self, pool: int, before_s: int) -> None:
        """Remove the runs of a pool that ended before a moment, and their pauses."""
        with self.transaction():
            ended = "pool = ? AND end_s >= 0 AND end_s < ?"
            self._db.execute(
                "DELETE FROM pauses WHERE (pool, job_id, start_s) IN "
                f"(SELECT pool, job_id, start_s FROM runs WHERE {ended})",
                (pool, before_s),
            )
            self._db.execute(f"DELETE FROM runs WHERE {ended}", (pool, before_s))

    def rename_quotas(self, pool: int, moved: dict[int, int]) -> None:
        """Let runs and steps of quotas stand under the numbers of other paths."""
        with self.transaction():
            for table in ("runs", "steps"):
                self._db.executemany(
                    f"UPDATE {table} SET quota = ? WHERE pool = ? AND quota = ?",
                    [(new, pool, old) for old, new in moved.items()],
                )

    def _make_table(self, table: str, columns: Sequence[str], n_key: int) -> None:
        known = [str(row[1]) for row in self._db.execute(f"PRAGMA table_info({table})")]
        if known and known != list(columns):
            self._db.execute(
                f"DROP TABLE {table}"
            )  # an older layout: what it held is learnt again from Slurm
        fields = ", ".join(f"{name} INTEGER NOT NULL" for name in columns)
        key = ", ".join(columns[:n_key])
        self._db.execute(f"CREATE TABLE IF NOT EXISTS {table} ({fields}, PRIMARY KEY ({key})) WITHOUT ROWID")

    def transaction(self) -> Transaction:
        return Transaction(self._db)

    def overrides(self) -> tuple[Override, ...]:
        rows = self._db.execute("SELECT pool, key, value, who, at_s FROM overrides ORDER BY at_s, pool, key")
        return tuple(Override(*row) for row in rows)

    def set_override(self, override: Override) -> None:
        self._db.execute(
            "INSERT OR REPLACE INTO overrides VALUES (?, ?, ?, ?, ?)",
            (override.pool, override.key, override.value, override.who, override.at_s),
        )

    def unset_override(self, pool: str, key: str) -> bool:
        """Remove an override; return whether there was one."""
        return self._db.execute("DELETE FROM overrides WHERE pool = ? AND key = ?", (pool, key)).rowcount > 0

    def log_decisions(self, at_s: int, rows: Iterable[tuple[int, str, str]]) -> None:
        """Add (job id, what, why) to the log of decisions, which keeps the newest 200,000."""
        with self.transaction():
            self._db.executemany(
                "INSERT INTO decisions VALUES (?, ?, ?, ?)",
                [(at_s, job, what, why) for job, what, why in rows],
            )
            self._db.execute(
                "DELETE FROM decisions WHERE rowid <= (SELECT max(rowid) FROM decisions) - ?",
                (KEPT_DECISIONS,),
            )

    def load_json(self, key: str) -> object:
        text = self.meta(key)
        return None if text is None else json.loads(text)

    def save_json(self, key: str, value: object) -> None:
        self.set_meta(**{key: json.dumps(value)})


class Transaction:
    """All or nothing; a crash inside leaves the file as it was before."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def __enter__(self) -> None:
        self._db.execute("BEGIN IMMEDIATE")

    def __exit__(self, kind: object, value: object, traceback: object) -> None:
        self._db.execute("COMMIT" if kind is None else "ROLLBACK")


def _difference(old: Ints, new: Ints, n_key: int) -> tuple[Ints, Ints]:
    """Return (old rows whose key is gone, new rows that are new or changed)."""
    width = new.shape[1] * 8
    known = {row.tobytes() for row in old} if len(old) else set()
    if not known:
        return old, new
    raw = np.ascontiguousarray(new).view(f"V{width}").reshape(-1)
    changed = np.fromiter((row.tobytes() not in known for row in raw), dtype=np.bool_, count=len(new))
    keys = {row[:n_key].tobytes() for row in new}
    gone = np.fromiter((row[:n_key].tobytes() not in keys for row in old), dtype=np.bool_, count=len(old))
    return old[gone], new[changed]


def lock(path: Path) -> IO[str]:
    """Take the lock that keeps a second daemon away; held as long as the returned file is open.

    Raises:
        StateError: another daemon holds it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    file = path.open("a+")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as err:
        file.seek(0)
        owner = file.read().strip() or "unknown"
        file.close()
        raise StateError(
            f"{path}: another slurmfaird (pid {owner}) uses this state folder; stop it first, "
            "or give this one a folder of its own with --state-dir"
        ) from err
    file.truncate(0)
    file.write(str(os.getpid()))
    file.flush()
    return file


def last_cycle_s(path: Path) -> int | None:
    """Return when the last healthy cycle ended according to the state file, None if it knows of none."""
    if not path.exists():
        return None
    try:
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=10.0)) as db:
            row = db.execute("SELECT value FROM meta WHERE key = 'last_cycle_s'").fetchone()
    except sqlite3.Error as err:
        raise StateError(f"{path}: cannot be read: {err}") from err
    return None if row is None else int(row[0])


def overrides_on_disk(path: Path) -> tuple[Override, ...]:
    """Return the overrides that a state file holds, none if there is no such file, without opening it for writing."""
    if not path.exists():
        return ()
    try:
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=10.0)) as db:
            rows = db.execute(
                "SELECT pool, key, value, who, at_s FROM overrides ORDER BY at_s, pool, key"
            ).fetchall()
    except sqlite3.Error as err:
        raise StateError(f"{path}: cannot be read: {err}") from err
    return tuple(Override(*row) for row in rows)

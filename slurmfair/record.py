"""What each quota held and was owed over the last weeks, for `slurmfair history`: a row a quota every five minutes.

A file of its own beside the state file: it only grows and shrinks at its ends, and losing it costs nothing but plots.
"""

from __future__ import annotations

import logging
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slurmfair.errors import StateError
from slurmfair.view import View

log = logging.getLogger(__name__)

EVERY_S = 300
KEPT_S = 35 * 86400
VALUES = ("allocated", "deserved", "fair_share", "usage", "demand", "effective")
_SCHEMA = f"""
CREATE TABLE IF NOT EXISTS shares (
    at_s INTEGER NOT NULL, pool TEXT NOT NULL, quota TEXT NOT NULL, {", ".join(f"{name} REAL" for name in VALUES)},
    PRIMARY KEY (at_s, pool, quota)) WITHOUT ROWID;
"""

Sample = list[Any]  # time, pool, quota, and VALUES; None for a value that is not known


@dataclass(slots=True)
class Record:
    """The writing side, kept by the daemon."""

    path: Path
    last_s: int = 0

    def note(self, view: View) -> bool:
        """Write a row a quota if it is time; return whether it was. A full disk is told, and does not stop anything."""
        now_s = int(view.about["now_s"])
        if 0 <= now_s - self.last_s < EVERY_S:
            return False
        self.last_s = now_s
        rows = [(now_s, row["pool"], row["quota"], *(row[name] for name in VALUES)) for row in view.quotas]
        try:
            with closing(sqlite3.connect(self.path, timeout=1.0)) as db, db:
                db.execute("PRAGMA journal_mode=WAL")
                db.executescript(_SCHEMA)
                db.executemany(
                    f"INSERT OR REPLACE INTO shares VALUES ({', '.join('?' * (3 + len(VALUES)))})", rows
                )
                db.execute("DELETE FROM shares WHERE at_s < ?", (now_s - KEPT_S,))
        except sqlite3.Error as err:
            log.warning("history of shares is not written: %s: %s", self.path, err)
        return True


def samples(path: Path, pool: str, quota: str, from_s: int, to_s: int) -> list[Sample]:
    """Return the rows of a quota ("" for all) of a pool ("" for all) in a span of time, oldest first.

    Raises:
        StateError: the file cannot be read.
    """
    if not path.exists():
        return []
    query = "SELECT * FROM shares WHERE at_s BETWEEN ? AND ? AND ? IN ('', pool) AND ? IN ('', quota) ORDER BY at_s, pool, quota"
    try:
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=1.0)) as db:
            return [list(row) for row in db.execute(query, (from_s, to_s, pool, quota))]
    except sqlite3.Error as err:
        raise StateError(f"{path}: cannot be read: {err}") from err

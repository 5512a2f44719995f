"""The newest decisions from the state file, for those who may see them. Read only: the daemon alone writes it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from slurmfair.errors import StateError

Decision = tuple[int, int, str, str]  # time, job id (0 for a setting), what, why
MOST = 1000


def newest(database: Path, n: int) -> list[Decision]:
    """Return the last n decisions, newest first; [] where there is no state file yet.

    Raises:
        StateError: it cannot be read.
    """
    if not database.exists():
        return []
    query = "SELECT at_s, job_id, what, why FROM decisions ORDER BY rowid DESC LIMIT ?"
    try:
        with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True, timeout=1.0)) as db:
            return [tuple(row) for row in db.execute(query, (max(0, min(n, MOST)),))]
    except sqlite3.Error as err:
        raise StateError(f"{database}: cannot be read: {err}") from err

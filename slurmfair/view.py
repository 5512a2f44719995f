"""What the daemon publishes after each cycle, and the reports read: columns, in one file that is replaced whole."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from slurmfair.errors import DaemonUnreachable

FORMAT = 1

Column = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class View:
    """The last decision as people may see it.

    `jobs` are columns, one row a pending or running record of the managed partitions, in the order of
    sfprio (rank first); columns of text hold codes into `texts[column]`. `quotas` are rows of the quota trees.
    """

    about: dict[str, Any]  # cluster, now_s, cycle and write counts, warnings, pools
    jobs: dict[str, Column] = field(repr=False)
    texts: dict[str, list[str]] = field(repr=False)
    quotas: list[dict[str, Any]] = field(repr=False)

    def __len__(self) -> int:
        return len(self.jobs["job_id"]) if self.jobs else 0

    def text(self, column: str, row: int) -> str:
        return self.texts[column][int(self.jobs[column][row])]

    def row(self, row: int) -> dict[str, Any]:
        """Return one job as a dictionary with texts in place of codes."""
        return {
            name: self.text(name, row) if name in self.texts else column[row].item()
            for name, column in self.jobs.items()
        }


def save(view: View, path: Path) -> None:
    """Replace the file in one step, readable by the daemon's account only (it knows what PrivateData hides)."""
    head = json.dumps(
        {"format": FORMAT, "about": view.about, "texts": view.texts, "quotas": view.quotas}
    ).encode()
    fresh = path.with_suffix(".new")
    with open(fresh, "wb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        np.savez(file, head=np.frombuffer(head, dtype=np.uint8), **_prefixed(view.jobs))
    fresh.replace(path)


def _prefixed(jobs: Mapping[str, Column]) -> dict[str, Column]:
    return {f"job.{name}": column for name, column in jobs.items()}


def load(path: Path) -> View:
    """Return the published view.

    Raises:
        DaemonUnreachable: there is none yet, or it cannot be read.
    """
    try:
        with np.load(path, allow_pickle=False) as archive:
            head = json.loads(archive["head"].tobytes())
            jobs = {name[4:]: archive[name] for name in archive.files if name.startswith("job.")}
    except (OSError, ValueError, KeyError) as err:
        raise DaemonUnreachable(f"{path}: no decision published yet ({err}); is slurmfaird running?") from err
    return View(head["about"], jobs, head["texts"], head["quotas"])

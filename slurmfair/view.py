"""What the daemon publishes after each cycle, and the reports read: columns, in one file that is replaced whole."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from slurmfair.errors import DaemonUnreachable

FORMAT = 3
PROMISED = 2  # of the column `reserved`

# Every column of View.jobs: one row a record, pending or running, of the managed partitions.
# Times are seconds since the epoch; -1 stands for "none" or "not yet".
JOB_COLUMNS = {
    "job_id": "Slurm's id of the record",
    "array_id": "id of the array, 0 for a plain job",
    "array_task": "number of a split-off task, -1 for none",
    "het_id": "id of the leading component, 0 for none",
    "het_offset": "number of the component, -1 for none",
    "task_list": "text: waiting tasks of an array, such as 4-9%2",
    "user": "text",
    "account": "text",
    "partition": "text: as Slurm writes it, a,b for several",
    "qos": "text",
    "name": "text",
    "pool": "text: name of the pool, empty for an unmanaged job",
    "quota": "text: path of the quota, empty for an unmanaged job",
    "policy": "text: fifo, round_robin, balance or intelligent; empty for an unmanaged job",
    "standing": "standing.Standing",
    "outcome": "model.Outcome of the pass; -1 for a job that is in no queue",
    "base": "job priority 1 to 9",
    "effective": "effective priority (with ageing), a float",
    "position": "place in its quota's order, from 1; 0 for parked or not in the order",
    "place": "place in the outgoing order of its pool, from 1; 0 for held or not in the order",
    "rank": "the rank that it has or gets, 0 for none",
    "priority": "Slurm's priority, as last read",
    "nice": "the user's nice",
    "blocker": "id of the job it stands behind, or that it is held back for; -1 for none",
    "reserved": "1 if room is kept for it, 2 if an earlier decision kept it already",
    "room_s": "of those: when there could be room by the time limits of running jobs; -1 where not judged",
    "unplaced": "1 if Slurm was let start it and did not within place_grace",
    "node_classes": "bit n: may run on the n-th kind of nodes of its pool (about.pools.nodes)",
    "submit_s": "submission",
    "order_s": "order time",
    "waiting_s": "waiting since",
    "first_attempt_s": "first failed attempt",
    "eligible_s": "Slurm's eligible time",
    "start_s": "start of a running job, or Slurm's expected start of a waiting one",
    "time_limit_s": "time limit, model.FOREVER_S for none",
    "tasks": "tasks that may start now",
    "nodes": "nodes of one task",
    "gpus": "GPUs of one task, or held by a running job",
    "cpus": "CPUs of one task",
    "mem_mib": "memory of one task",
    "gpu_type": "text: type asked for, empty for any",
    "reason": "text: Slurm's reason",
    "reason_text": "text: Slurm's free description",
    "dependent": "1 if it waits for another job",
    "begin_s": "begin time asked for by the user, 0 for none",
}

# Every key of a row of View.quotas. Amounts are in the pool's main resource; None stands for no limit.
QUOTA_KEYS = {
    "pool": "name of the pool",
    "quota": "path of the quota",
    "parent": "path of its parent, empty at the top",
    "depth": "0 at the top",
    "leaf": "true for a quota that holds jobs",
    "policy": "name of the queue policy",
    "policy_settings": "dictionary of config.QueuePolicy",
    "deserved": "deserved amount",
    "limit": "limit or None",
    "weight": "over-quota weight",
    "priority": "quota priority",
    "allocated": "held by running jobs now",
    "over": "of that, beyond deserved",
    "after_pass": "allocated once everything that may start has started",
    "pending": "number of jobs (array tasks) that wait",
    "demand": "allocated and waiting amount together",
    "usage": "u: share of the surplus consumed in the window",
    "due": "w: share of the surplus that its weight makes due",
    "corrected": "P: weight after correction",
    "effective": "effective weight",
    "fair_share": "F",
    "ratio": "allocated over the larger of F and deserved, None for no share at all",
    "entitled": "true if it could take one more unit within F",
    "head": "id of the first job in its order, -1 for none",
    "resource": "name of the main resource",
    "by_resource": "the same amounts (deserved, limit, allocated, demand, usage, fair_share) for each divided resource",
}

Column = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class View:
    """The last decision as people may see it.

    `jobs` are columns, one row a pending or running record of the managed partitions, in the order of
    sfprio (rank first); columns of text hold codes into `texts[column]`. `quotas` are rows of the quota trees.
    """

    about: dict[
        str, Any
    ]  # cluster, now_s, cycle and write counts, warnings, pools, who may see all (reports.RIGHTS)
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
        columns = _prefixed(view.jobs) | {"head": np.frombuffer(head, dtype=np.uint8)}
        np.savez(file, allow_pickle=False, **columns)
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
    except (OSError, ValueError, KeyError, BadZipFile) as err:
        raise DaemonUnreachable(f"{path}: no decision published yet ({err}); is slurmfaird running?") from err
    if head["format"] != FORMAT:
        raise DaemonUnreachable(
            f"{path}: published by another release; restart slurmfaird and slurmfair-report"
        )
    return View(head["about"], jobs, head["texts"], head["quotas"])

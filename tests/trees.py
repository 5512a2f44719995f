"""Small trees of quotas and pasts for tests about shares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf

import numpy as np

from slurmfair.fairshare import Division, divided
from slurmfair.ledger import Ledger, Rows, ledger_of
from slurmfair.model import GPU, RESOURCES, UNSET_S, Floats, Quotas
from slurmfair.reads import Phase, Sightings, merge_live
from slurmfair.runs import NO_PAUSES, Known, Pauses
from slurmfair.steps import CAPACITY, Steps, steps_of

T0_S = 1_800_000_000  # a moment to count from
HOUR_S = 3600
DAY_S = 86400


@dataclass(frozen=True)
class Q:
    """A quota and one resource of it."""

    name: str
    deserved: float = 0.0
    limit: float = inf
    weight: float = 1.0
    priority: int = 100
    wants: float = 1000.0
    u: float = 0.0
    parent: str = ""


def quotas_of(rows: Sequence[Q]) -> Quotas:
    at = {q.name: i for i, q in enumerate(rows)}
    return Quotas(
        path=tuple(at),
        parent=np.array([at[q.parent] if q.parent else -1 for q in rows], dtype=np.int32),
        deserved=np.array([[q.deserved] for q in rows]),
        limit=np.array([[q.limit] for q in rows]),
        weight=np.array([q.weight for q in rows]),
        priority=np.array([q.priority for q in rows]),
        resources=(GPU,),
    )


def division_of(capacity: float, *rows: Q, k: float = 1.0, preset: str = "slurmfair") -> Division:
    request = np.array([[q.wants] for q in rows])
    used = np.array([[q.u] for q in rows])
    return divided(quotas_of(rows), np.array([capacity]), request, used, k, preset)


def shares(capacity: float, *rows: Q, k: float = 1.0, preset: str = "slurmfair") -> list[float]:
    """Return F of each quota."""
    return column(division_of(capacity, *rows, k=k, preset=preset).share)


def column(values: Floats) -> list[float]:
    return [float(value) for value in values[:, 0]]


@dataclass(frozen=True)
class Run:
    """A run of a job in one quota; `end_s` None while it goes on."""

    quota: str
    gpus: float
    start_s: int
    end_s: int | None = None


def ledger(now_s: int, *runs: Run, pauses: Pauses = NO_PAUSES) -> Ledger:
    """Return the ledger of runs of the jobs 1, 2, ..."""
    amounts = np.zeros((len(runs), len(RESOURCES)))
    amounts[:, GPU] = [run.gpus for run in runs]
    rows = Rows(
        job_id=np.arange(1, len(runs) + 1),
        start_s=np.array([run.start_s for run in runs], dtype=np.int64),
        end_s=np.array([UNSET_S if run.end_s is None else run.end_s for run in runs], dtype=np.int64),
        path=tuple(run.quota for run in runs),
        amounts=amounts,
        known=np.full(len(runs), Known.RECORD, dtype=np.uint8),
        pauses=pauses,
    )
    return ledger_of(rows, now_s)


def looked(book: Ledger, now_s: int, *runs: Run) -> Ledger:
    """Return the ledger after a live look; the runs are those of the jobs 1, 2, ..., begun or not."""
    rows = [i for i, run in enumerate(runs) if run.start_s <= now_s]
    paths = tuple(dict.fromkeys(run.quota for run in runs))
    end_s = [runs[i].end_s for i in rows]
    amounts = np.zeros((len(rows), len(RESOURCES)))
    amounts[:, GPU] = [runs[i].gpus for i in rows]
    seen = Sightings(
        now_s,
        paths,
        job_id=np.array(rows, dtype=np.int64) + 1,
        start_s=np.array([runs[i].start_s for i in rows], dtype=np.int64),
        end_s=np.array([end or 0 for end in end_s], dtype=np.int64),
        leaf=np.array([paths.index(runs[i].quota) for i in rows], dtype=np.int32),
        amounts=amounts,
        phase=np.array(
            [Phase.RUNS if end is None or end > now_s else Phase.ENDED for end in end_s], dtype=np.uint8
        ),
        suspended_s=np.zeros(len(rows), dtype=np.int64),
        suspend_from_s=np.zeros(len(rows), dtype=np.int64),
    )
    return merge_live(book, seen).ledger


def gpu_steps(
    capacity: float | Sequence[tuple[int, float]],
    deserved: Mapping[str, Sequence[tuple[int, float]]] | None = None,
) -> Steps:
    """Return a capacity, constant or in steps, and steps of what quotas deserve."""
    levels = capacity if isinstance(capacity, Sequence) else [(0, capacity)]
    rows = [(time_s, CAPACITY, (float(value), 0.0, 0.0)) for time_s, value in levels]
    for path, values in (deserved or {}).items():
        rows += [(time_s, path, (float(value), 0.0, 0.0)) for time_s, value in values]
    return steps_of(rows)

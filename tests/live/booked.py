"""What Slurm's own accounting says about jobs: sacct -D, summed up by hand."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from tests.lab import Lab

FORMAT = "--format=JobIDRaw,Account,State,Start,End,ElapsedRaw,AllocTRES"


@dataclass(frozen=True, slots=True)
class Booked:
    """One run of a job; times in seconds since the epoch, `end_s` is `now_s` while it goes on."""

    job_id: int
    account: str
    state: str
    start_s: int
    end_s: int
    elapsed_s: int  # without suspensions
    gpus: int


def booked(
    lab: Lab, now_s: int, since: str = "now-6hours", jobs: Iterable[int] | None = None
) -> list[Booked]:
    """Return all runs that did start, those before a requeue too; of the jobs, if some are given.

    A list by time leaves out what slurmdbd does not know as eligible; by its number each job is found.
    """
    which = ["-S", since] if jobs is None else ["-j", ",".join(map(str, jobs))]
    found = lab.run(["env", "SLURM_TIME_FORMAT=%s", "sacct", "-a", "-D", "-X", "-P", "-n", *which, FORMAT])
    rows = [line.split("|") for line in found.stdout.splitlines()]
    return [_booked(row, now_s) for row in rows if row[3].isdigit()]


def _booked(row: list[str], now_s: int) -> Booked:
    job_id, account, state, start_s, end_s, elapsed_s, tres = row
    gpus = re.search(r"gres/gpu=(\d+)", tres)
    return Booked(
        int(job_id),
        account,
        state,
        int(start_s),
        int(end_s) if end_s.isdigit() else now_s,
        int(elapsed_s),
        int(gpus[1]) if gpus else 0,
    )


def gpu_s_by_account(runs: Iterable[Booked], suspended: bool = False) -> dict[str, int]:
    """Return the GPU-seconds of each account, with or without the time in which jobs were suspended."""
    found: dict[str, int] = defaultdict(int)
    for run in runs:
        found[run.account] += run.gpus * (run.end_s - run.start_s if suspended else run.elapsed_s)
    return dict(found)


def held_by_second(runs: Iterable[Booked], account: str, from_s: int, to_s: int) -> list[int]:
    """Return how many GPUs an account held in each second; not for jobs that were suspended."""
    mine = [run for run in runs if run.account == account]
    return [
        sum(run.gpus for run in mine if run.start_s <= second < run.end_s) for second in range(from_s, to_s)
    ]

"""Letting go of our own holds, and only of ours: for `slurmfair release-all` and the guard."""

from __future__ import annotations

import numpy as np

from slurmfair.config import Config
from slurmfair.matching import leaf_of_jobs
from slurmfair.model import Bools, Change, JobTable
from slurmfair.slurm.parse import BASE_STATE, BaseState, Tag, with_tag
from slurmfair.standing import Standing, marked, reason_classes
from slurmfair.throttle import restored, throttles_of


def releases(jobs: JobTable, keep: Bools | None = None) -> tuple[Change, ...]:
    """Return a release for every record that we or our gate hold, ids ascending; `keep` marks exceptions.

    Arrays of which we let only a part go get their own throttle back.
    """
    marks, throttles = marked(jobs, reason_classes(jobs)), throttles_of(jobs)
    held = (marks == Standing.HELD) | (marks == Standing.GATED)
    over = (jobs.state & BASE_STATE) > BaseState.SUSPENDED
    chosen = held | (throttles.noted & (throttles.ours > 0) & ~over)
    if keep is not None:
        chosen &= ~keep
    rows = np.flatnonzero(chosen)
    rows = rows[np.argsort(jobs.job_id[rows])]
    why = "all holds of slurmfair are released"
    return tuple(
        release(jobs, row, why) if held[row] else restored(jobs, throttles, row, why) for row in rows.tolist()
    )


def release(jobs: JobTable, row: int, why: str) -> Change:
    """Return the release of one record that carries our hold. Such an array has its own throttle already."""
    tag = with_tag(jobs.admin_comment[row], Tag.FREE)
    return Change(int(jobs.job_id[row]), release=True, tag=tag, why=why)


def stays_closed(config: Config, jobs: JobTable) -> Bools:
    """Return which records belong to quotas that must not fail open (`fail_open: false`), shape (n_jobs,)."""
    pool_of, leaf_of = leaf_of_jobs(config, jobs)
    out = np.zeros(len(jobs), dtype=np.bool_)
    for index, pool in enumerate(config.pools):
        strict = np.asarray([not quota.fail_open for quota in pool.quotas] or [False])
        mine = (pool_of == index) & (leaf_of >= 0)
        out[mine] = strict[leaf_of[mine]]
    return out


def silent_for_s(now_s: int, last_cycle_s: int | None, first_asked_s: int) -> int:
    """Return for how long the daemon has had no healthy cycle.

    Where no cycle was ever recorded (the state file was lost) the silence begins when the guard first asked. A clock that
    stepped back gives 0.
    """
    since_s = first_asked_s if last_cycle_s is None else last_cycle_s
    return max(0, now_s - since_s)

"""What live looks and accounting say about runs, and how it gets into the ledger."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from slurmfair.draft import Draft
from slurmfair.ledger import Ledger, Merge
from slurmfair.model import UNSET_S, Bools, Bytes, Codes, Floats, Ints, JobTable
from slurmfair.runs import START_BITS, START_MASK, Known, Runs, paused_for, run_keys
from slurmfair.slurm.parse import BASE_STATE, COMPLETING, BaseState


class Phase(IntEnum):
    """What a job record says about its latest run."""

    RUNS = 0
    SUSPENDED = 1
    COMPLETES = 2  # has ended, but its nodes are not free yet
    ENDED = 3


@dataclass(frozen=True, slots=True)
class Sightings:
    """The runs that one live look showed, each column of shape (n,)."""

    now_s: int
    paths: tuple[str, ...]
    job_id: Ints
    start_s: Ints
    end_s: Ints  # of those that have ended, else any
    leaf: Codes  # index into paths
    amounts: Floats  # shape (n, 3): in the order of RESOURCES
    phase: Bytes  # Phase
    suspended_s: Ints  # length of all suspensions that have ended
    suspend_from_s: Ints  # when the present suspension began, or the last one ended


@dataclass(frozen=True, slots=True)
class Records:
    """Runs from accounting, true start and end (not cut to the window that was asked for)."""

    now_s: int
    paths: tuple[str, ...]
    job_id: Ints
    start_s: Ints
    end_s: Ints  # UNSET_S while it goes on
    leaf: Codes  # index into paths
    amounts: Floats  # shape (n, 3)
    suspended_s: Ints


def sightings(jobs: JobTable, leaf: Codes, paths: tuple[str, ...], now_s: int) -> Sightings:
    """Return the runs in a table of jobs; `leaf` is -1 for a job that is in no quota of the pool."""
    base = jobs.state & BASE_STATE
    completes = (jobs.state & COMPLETING) != 0
    phase = np.full(len(jobs), Phase.ENDED, dtype=np.uint8)
    phase[base == BaseState.RUNNING] = Phase.RUNS
    phase[base == BaseState.SUSPENDED] = Phase.SUSPENDED
    phase[completes & (base > BaseState.SUSPENDED)] = Phase.COMPLETES
    ended = (phase != Phase.ENDED) | (jobs.end_s >= jobs.start_s)
    rows = np.flatnonzero((leaf >= 0) & (base >= BaseState.RUNNING) & (jobs.start_s > 0) & ended)
    return Sightings(
        now_s,
        paths,
        jobs.job_id[rows],
        jobs.start_s[rows],
        jobs.end_s[rows],
        leaf[rows],
        jobs.held_resources[rows].astype(np.float64),
        phase[rows],
        jobs.suspended_s[rows],
        jobs.suspend_from_s[rows],
    )


def merge_live(ledger: Ledger, seen: Sightings) -> Merge:
    """Return the ledger after one look at the cluster.

    What was open and is not seen any more ended at the last look, until a better source says when.
    """
    draft = Draft(ledger)
    leaf = draft.codes(seen.leaf, seen.paths)
    order = np.argsort(seen.job_id, kind="stable")
    holds = order[seen.phase[order] != Phase.ENDED]
    ended = order[seen.phase[order] == Phase.ENDED]
    at = _rows_of_jobs(draft.open, seen.job_id[holds])
    # A run that began later than its job did is a piece of it: the job was resized.
    known = (at >= 0) & (draft.open.start_s[at] >= seen.start_s[holds]) if len(draft.open) else at >= 0
    left = _end_the_rest(draft, at[known], seen, holds[~known], ended)
    _update_known(draft, seen, holds[known], leaf)
    _begin(draft, seen, holds[~known], leaf)
    _merge_ended(draft, seen, ended[~left], leaf, Known.LIVE)
    return draft.finished(seen.now_s)


def merge_records(ledger: Ledger, records: Records) -> Merge:
    """Return the ledger after a read of accounting, which knows ends best.

    Runs that go on are left to the live looks: accounting may think so for ever of a job that was lost.
    """
    draft = Draft(ledger)
    leaf = draft.codes(records.leaf, records.paths)
    rows = np.flatnonzero((records.end_s >= records.start_s) & (records.start_s > 0))
    _merge_ended(draft, records, rows, leaf, Known.RECORD)
    return draft.finished(ledger.read_s)


def _rows_of_jobs(runs: Runs, job_id: Ints) -> Ints:
    """Return the row of each job's run, -1 for none; only for tables with one run a job."""
    if len(runs) == 0:
        return np.full(len(job_id), -1)
    row = np.searchsorted(runs.job_id, job_id)
    row[row == len(runs)] = 0
    return np.where(runs.job_id[row] == job_id, row, -1)


def _end_the_rest(draft: Draft, kept: Ints, seen: Sightings, new: Ints, ended: Ints) -> Bools:
    """End the open runs that are not in `kept`; return which of the `ended` sightings ended one."""
    gone = np.ones(len(draft.open), dtype=bool)
    gone[kept] = False
    rows = np.flatnonzero(gone)
    used = np.zeros(len(ended), dtype=bool)
    if len(rows) == 0:
        return used
    runs = draft.open.take(rows)
    end_s = np.full(len(rows), min(draft.ledger.read_s, seen.now_s))
    known = np.full(len(rows), Known.GUESSED, dtype=np.uint8)
    again = _positions(seen.job_id[new], runs.job_id)
    end_s = np.where(again >= 0, np.minimum(end_s, seen.start_s[new][again]) if len(new) else end_s, end_s)
    at = _positions(seen.job_id[ended], runs.job_id)
    told = (at >= 0) & (seen.start_s[ended][at] <= runs.start_s) if len(ended) else at >= 0
    end_s[told] = seen.end_s[ended][at[told]]
    known[told] = Known.LIVE
    used[at[told]] = True
    draft.end(rows, np.maximum(end_s, runs.start_s), known)
    suspended_s = seen.suspended_s[ended][at[told]]
    _set_ended_pauses(draft, runs.key[told], end_s[told], suspended_s)
    return used


def _positions(sorted_ids: Ints, job_id: Ints) -> Ints:
    """Return where each job id stands in a sorted column, -1 for nowhere."""
    if len(sorted_ids) == 0:
        return np.full(len(job_id), -1)
    at = np.searchsorted(sorted_ids, job_id)
    at[at == len(sorted_ids)] = 0
    return np.where(sorted_ids[at] == job_id, at, -1)


def _update_known(draft: Draft, seen: Sightings, rows: Ints, leaf: Codes) -> None:
    """Follow runs that go on: their quota, their size, their suspensions."""
    at = _rows_of_jobs(draft.open, seen.job_id[rows])
    holding = draft.open.holding[at]
    moved = leaf[rows] != draft.holdings.leaf[holding]
    resized = (seen.amounts[rows] != draft.holdings.amounts[holding]).any(axis=1)
    resized &= seen.phase[rows] != Phase.COMPLETES  # its nodes become free one by one
    _set_pauses(draft, seen, rows, draft.open.key[at])
    young = draft.open.start_s[at] >= seen.now_s
    if (change := moved | (resized & young)).any():
        amounts = np.where(moved[:, None], draft.holdings.amounts[holding], seen.amounts[rows])
        codes = draft.holding(leaf[rows[change]], amounts[change])
        draft.change_holding(at[change], codes)
    if (split := resized & ~young).any():
        codes = draft.holding(leaf[rows[split]], seen.amounts[rows[split]])
        draft.end(at[split], np.full(int(split.sum()), seen.now_s), Known.GUESSED)
        draft.begin(run_keys(seen.job_id[rows[split]], np.full(int(split.sum()), seen.now_s)), codes)


def _set_pauses(draft: Draft, seen: Sightings, rows: Ints, key: Ints) -> None:
    """Record the suspensions of runs that go on."""
    lasting = draft.pauses.key[draft.pauses.to_s == UNSET_S]
    told = (seen.phase[rows] == Phase.SUSPENDED) | (seen.suspended_s[rows] > 0) | np.isin(key, lasting)
    for i in np.flatnonzero(told):
        row, run = rows[i], int(key[i])
        since_s, start_s = int(seen.suspend_from_s[row]), run & START_MASK
        pauses = draft.pauses.of(run)
        if seen.phase[row] == Phase.SUSPENDED:
            lasts = [(max(since_s, start_s), UNSET_S)]
            pauses = [pause for pause in pauses if pause[1] != UNSET_S] + lasts
        else:
            pauses = [(a, max(a, since_s) if b == UNSET_S else b) for a, b in pauses]
        draft.pause(run, paused_for(int(seen.suspended_s[row]), pauses, since_s, start_s))


def _begin(draft: Draft, seen: Sightings, rows: Ints, leaf: Codes) -> None:
    """Open the runs that are seen for the first time, or again."""
    if len(rows) == 0:
        return
    key = run_keys(seen.job_id[rows], seen.start_s[rows])
    end_s, known = _ended(draft, key)
    guessed = (end_s != UNSET_S) & (known == Known.GUESSED)
    draft.reopen(key[guessed])
    # Accounting has ended it and it runs all the same: it was resized at that moment.
    resized = (end_s != UNSET_S) & ~guessed & (seen.phase[rows] != Phase.COMPLETES) & (end_s < seen.now_s)
    fresh = (end_s == UNSET_S) | resized
    start_s = np.where(resized, end_s, seen.start_s[rows])[fresh]
    rows = rows[fresh]
    key = run_keys(seen.job_id[rows], start_s)
    draft.begin(key, draft.holding(leaf[rows], seen.amounts[rows]))
    _set_pauses(draft, seen, rows, key)


def _ended(draft: Draft, key: Ints) -> tuple[Ints, Bytes]:
    """Return end and Known of runs that have ended, UNSET_S for those that are not in the tables."""
    end_s = np.full(len(key), UNSET_S)
    known = np.zeros(len(key), dtype=np.uint8)
    for table in (draft.recent, draft.closed):
        missing = np.flatnonzero(end_s == UNSET_S)
        at = table.find(key[missing])
        rows, at = missing[at >= 0], at[at >= 0]
        end_s[rows] = table.end_s[at]
        known[rows] = table.known[at]
    return end_s, known


def _merge_ended(draft: Draft, told: Sightings | Records, rows: Ints, leaf: Codes, known: Known) -> None:
    """Put in runs that have ended, correcting what a worse source said about them."""
    if len(rows) == 0:
        return
    key, first = np.unique(run_keys(told.job_id[rows], told.start_s[rows]), return_index=True)
    rows = rows[first]
    opened = draft.open.find(key)
    is_open = opened >= 0
    if is_open.any():
        draft.end(opened[is_open], told.end_s[rows[is_open]], int(known))
    end_s, before = _ended(draft, key)
    better = (end_s == UNSET_S) | (before < known) | ((known == Known.RECORD) & (before == known))
    key, rows, end_s = key[better], rows[better], end_s[better]
    holding = draft.holding(leaf[rows], told.amounts[rows])
    there = end_s != UNSET_S
    _amend(draft, key[there], told.end_s[rows[there]], holding[there], known)
    new = np.flatnonzero(~there)
    new = new[~_parts(draft, key[new], told.end_s[rows[new]], known)]
    draft.insert(key[new], told.end_s[rows[new]], holding[new], int(known))
    _set_ended_pauses(draft, key, told.end_s[rows], told.suspended_s[rows])


def _amend(draft: Draft, key: Ints, end_s: Ints, holding: Codes, known: Known) -> None:
    """Correct runs that differ from what is told now."""
    differs = np.zeros(len(key), dtype=bool)
    for table in (draft.recent, draft.closed):
        at = table.find(key)
        here = at >= 0
        old = table.take(at[here])
        differs[here] = (old.end_s != end_s[here]) | (old.holding != holding[here]) | (old.known != known)
    draft.amend(key[differs], end_s[differs], holding[differs], int(known))


def _parts(draft: Draft, key: Ints, end_s: Ints, known: Known) -> Bools:
    """Return which of these runs are parts of runs that are there; take out those that are parts of them.

    Runs of one job cannot overlap. Where two do, one was cut by the window of a query, or is a piece of
    a resized job whose beginning was guessed.
    """
    part = np.zeros(len(key), dtype=bool)
    for table in (draft.open, draft.recent, draft.closed):
        if len(table) == 0:
            continue
        at = np.searchsorted(table.key, key)
        before = np.maximum(at - 1, 0)
        same = (at > 0) & (table.key[before] >> START_BITS == key >> START_BITS)
        part |= same & ((table.end_s[before] == UNSET_S) | (table.end_s[before] > key & START_MASK))
        after = np.minimum(at, len(table) - 1)
        same = (at < len(table)) & (table.key[after] >> START_BITS == key >> START_BITS)
        inner = same & (table.key[after] & START_MASK < end_s) & (table.known[after] <= known)
        draft.remove(np.unique(table.key[after[inner]]))
    return part


def _set_ended_pauses(draft: Draft, key: Ints, end_s: Ints, suspended_s: Ints) -> None:
    """Record the suspensions of runs that have ended."""
    for i in np.flatnonzero((suspended_s > 0) | np.isin(key, draft.pauses.key)):
        run = int(key[i])
        pauses = paused_for(int(suspended_s[i]), draft.pauses.of(run), int(end_s[i]), run & START_MASK)
        draft.pause(run, pauses)

"""The ledger: runs from live looks and accounting, counted once, whatever comes late or twice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from slurmfair.config import FairShare, Window
from slurmfair.draft import FEW
from slurmfair.ledger import NEVER_S, RECENT_S, Ledger, Rows, forgotten, ledger_of, moves, renamed
from slurmfair.model import GPU, RESOURCES, UNSET_S
from slurmfair.reads import Phase, Records, Sightings, merge_live, merge_records, sightings
from slurmfair.runs import NO_HOLDINGS, run_keys, with_holdings
from slurmfair.usage import advance, allocated
from tests.tables import jobs_of
from tests.trees import HOUR_S, T0_S, Q, gpu_steps, quotas_of

PATHS = ("a", "b")


@dataclass(frozen=True)
class Seen:
    """One job in a live look."""

    job: int
    start: int
    phase: Phase = Phase.RUNS
    end: int = 0
    gpus: float = 1.0
    quota: str = "a"
    suspended: int = 0
    suspend_from: int = 0


@dataclass(frozen=True)
class Told:
    """One run in accounting."""

    job: int
    start: int
    end: int = UNSET_S
    gpus: float = 1.0
    quota: str = "a"
    suspended: int = 0


def amounts_of(rows: Sequence[Seen] | Sequence[Told]) -> np.ndarray:
    amounts = np.zeros((len(rows), len(RESOURCES)))
    amounts[:, GPU] = [row.gpus for row in rows]
    return amounts


def whole(values: Sequence[int]) -> np.ndarray:
    return np.array(values, dtype=np.int64)


def look(ledger: Ledger, now: int, *rows: Seen) -> Ledger:
    """Return the ledger after a live look; times are seconds after T0_S."""
    seen = Sightings(
        T0_S + now,
        PATHS,
        whole([row.job for row in rows]),
        whole([T0_S + row.start for row in rows]),
        whole([T0_S + row.end for row in rows]),
        np.array([PATHS.index(row.quota) for row in rows], dtype=np.int32),
        amounts_of(rows),
        np.array([row.phase for row in rows], dtype=np.uint8),
        whole([row.suspended for row in rows]),
        whole([T0_S + row.suspend_from for row in rows]),
    )
    return merge_live(ledger, seen).ledger


def account(ledger: Ledger, now: int, *rows: Told) -> Ledger:
    """Return the ledger after a read of accounting."""
    records = Records(
        T0_S + now,
        PATHS,
        whole([row.job for row in rows]),
        whole([T0_S + row.start for row in rows]),
        whole([UNSET_S if row.end == UNSET_S else T0_S + row.end for row in rows]),
        np.array([PATHS.index(row.quota) for row in rows], dtype=np.int32),
        amounts_of(rows),
        whole([row.suspended for row in rows]),
    )
    return merge_records(ledger, records).ledger


def everything(ledger: Ledger) -> Rows:
    return ledger.rows(np.concatenate([ledger.open.key, ledger.recent.key, ledger.closed.key]))


def runs(ledger: Ledger) -> list[tuple[int, int, int | None]]:
    """Return job, start and end (None for open) of every run, in seconds after T0_S."""
    rows = everything(ledger)
    ends = [None if end == UNSET_S else end - T0_S for end in rows.end_s.tolist()]
    return list(zip(rows.job_id.tolist(), (rows.start_s - T0_S).tolist(), ends, strict=True))


def pauses(ledger: Ledger) -> list[tuple[int, int | None]]:
    times = zip(ledger.pauses.from_s.tolist(), ledger.pauses.to_s.tolist(), strict=True)
    return [(a - T0_S, None if b == UNSET_S else b - T0_S) for a, b in times]


def gpu_seconds(ledger: Ledger, now: int) -> float:
    quotas = quotas_of([Q("a"), Q("b")])
    return float(allocated(ledger, quotas, T0_S - HOUR_S, T0_S + now).sum())


EMPTY = Ledger()


# -- live looks ------------------------------------------------------------------------------------------


def test_a_running_job_is_one_open_run_however_often_it_is_seen() -> None:
    once = look(EMPTY, 10, Seen(1, 0), Seen(2, 5))
    twice = look(once, 20, Seen(2, 5), Seen(1, 0))
    assert runs(twice) == [(1, 0, None), (2, 5, None)]
    assert twice.altered_since(once.version) == NEVER_S


def test_the_controller_tells_when_a_run_ended() -> None:
    book = look(look(EMPTY, 10, Seen(1, 0)), 20, Seen(1, 0, Phase.ENDED, 17))
    assert runs(book) == [(1, 0, 17)]
    assert runs(look(book, 30, Seen(1, 0, Phase.ENDED, 17))) == [(1, 0, 17)]
    assert len(book.unsure()) == 0


def test_a_job_that_came_and_went_between_two_looks_counts() -> None:
    assert runs(look(EMPTY, 20, Seen(1, 12, Phase.ENDED, 15))) == [(1, 12, 15)]


def test_a_completing_job_holds_its_resources_until_it_is_gone() -> None:
    book = look(look(EMPTY, 10, Seen(1, 0)), 20, Seen(1, 0, Phase.COMPLETES, 17))
    assert runs(book) == [(1, 0, None)]
    assert runs(look(book, 30, Seen(1, 0, Phase.ENDED, 17))) == [(1, 0, 17)]


def test_a_vanished_job_ended_at_the_last_look_until_accounting_knows_better() -> None:
    book = look(look(EMPTY, 10, Seen(1, 0)), 600)
    assert runs(book) == [(1, 0, 10)]
    assert book.unsure().tolist() == [1]
    told = account(book, 700, Told(1, 0, 456))
    assert runs(told) == [(1, 0, 456)]
    assert told.altered_since(book.version) == T0_S + 10
    assert len(told.unsure()) == 0


def test_a_job_that_was_missed_in_one_look_goes_on() -> None:
    book = look(look(look(EMPTY, 10, Seen(1, 0)), 20), 30, Seen(1, 0))
    assert runs(book) == [(1, 0, None)]


def test_every_run_of_a_requeued_job_is_kept() -> None:
    book = look(look(EMPTY, 10, Seen(1, 0)), 20, Seen(1, 15))
    assert runs(book) == [(1, 0, 10), (1, 15, None)]
    book = account(book, 30, Told(1, 0, 12))
    assert runs(book) == [(1, 0, 12), (1, 15, None)]
    only_the_latest = account(book, 50, Told(1, 15, 40))
    assert runs(only_the_latest) == [(1, 0, 12), (1, 15, 40)]


def test_a_requeue_is_never_charged_twice_for_one_moment() -> None:
    book = look(
        look(EMPTY, 10, Seen(1, 0)), 20, Seen(1, 8)
    )  # restarted before the last look, says the controller
    assert runs(book) == [(1, 0, 8), (1, 8, None)]


def test_a_resized_job_is_two_runs() -> None:
    book = look(look(EMPTY, 10, Seen(1, 0, gpus=8)), 20, Seen(1, 0, gpus=4))
    assert runs(book) == [(1, 0, 20), (1, 20, None)]
    assert runs(look(book, 30, Seen(1, 0, gpus=4))) == runs(book)
    told = account(book, 40, Told(1, 0, 14, gpus=8))
    assert runs(look(told, 50, Seen(1, 0, gpus=4))) == [(1, 0, 14), (1, 20, None)]
    ended = account(look(told, 60), 70, Told(1, 14, 55, gpus=4))
    assert runs(ended) == [(1, 0, 14), (1, 14, 55)]
    assert gpu_seconds(ended, 100) == 8 * 14 + 4 * 41


def test_a_job_moved_to_another_account_is_charged_there() -> None:
    book = look(look(EMPTY, 10, Seen(1, 0)), 20, Seen(1, 0, quota="b"))
    assert runs(book) == [(1, 0, None)]
    assert everything(book).path == ("b",)


def test_suspensions_are_taken_off() -> None:
    book = look(EMPTY, 10, Seen(1, 0))
    book = look(book, 20, Seen(1, 0, Phase.SUSPENDED, suspend_from=14))
    assert pauses(book) == [(14, None)]
    assert gpu_seconds(book, 20) == 14
    book = look(book, 40, Seen(1, 0, suspended=16, suspend_from=30))
    assert pauses(book) == [(14, 30)]
    book = look(book, 50, Seen(1, 0, Phase.ENDED, 45, suspended=16, suspend_from=30))
    assert (runs(book), pauses(book)) == ([(1, 0, 45)], [(14, 30)])
    assert gpu_seconds(book, 60) == 45 - 16


def test_suspensions_that_nobody_saw_have_the_right_length() -> None:
    book = look(look(EMPTY, 10, Seen(1, 0)), 100, Seen(1, 0, suspended=20, suspend_from=60))
    assert pauses(book) == [(40, 60)]
    told = account(look(EMPTY, 10, Seen(1, 0)), 100, Told(1, 0, 80, suspended=30))
    assert gpu_seconds(told, 100) == 50
    assert gpu_seconds(account(told, 110, Told(1, 0, 80, suspended=30)), 110) == 50


def test_a_run_that_ends_while_suspended_is_not_charged_for_the_pause() -> None:
    book = look(EMPTY, 20, Seen(1, 0, Phase.SUSPENDED, suspend_from=14))
    book = look(book, 30, Seen(1, 0, Phase.ENDED, 14))
    assert (runs(book), pauses(book)) == ([(1, 0, 14)], [])


def test_a_clock_that_steps_back_makes_no_run_negative() -> None:
    book = look(look(EMPTY, 600, Seen(1, 500), Seen(2, 0)), 0)
    assert runs(book) == [(1, 500, 500), (2, 0, 0)]
    assert gpu_seconds(book, 600) == 0


# -- accounting ------------------------------------------------------------------------------------------


def test_overlapping_reads_of_accounting_count_once() -> None:
    told = [Told(1, 0, 100), Told(2, 50, 90, quota="b")]
    book = account(EMPTY, 100, *told)
    again = account(book, 200, *told, *told, Told(3, 120, 130))
    assert runs(again) == [(1, 0, 100), (2, 50, 90), (3, 120, 130)]
    assert account(again, 300, *told).altered_since(again.version) == NEVER_S


def test_accounting_is_not_asked_what_still_runs() -> None:
    assert runs(account(EMPTY, 100, Told(1, 0))) == []
    book = look(EMPTY, 50, Seen(1, 0))
    assert runs(account(book, 100, Told(1, 0))) == [(1, 0, None)]


def test_the_controller_does_not_correct_accounting() -> None:
    book = account(look(EMPTY, 10, Seen(1, 0)), 30, Told(1, 0, 25))
    assert runs(look(book, 40, Seen(1, 0, Phase.ENDED, 26))) == [(1, 0, 25)]
    assert runs(look(book, 40, Seen(1, 0, Phase.COMPLETES, 25))) == [(1, 0, 25)]


def test_a_record_cut_by_its_query_is_part_of_the_run_that_is_known() -> None:
    book = account(EMPTY, 100, Told(1, 0, 100))
    assert runs(account(book, 200, Told(1, 60, 100))) == [(1, 0, 100)]
    cut_first = account(EMPTY, 100, Told(1, 60, 100))
    assert runs(account(cut_first, 200, Told(1, 0, 100))) == [(1, 0, 100)]
    running = look(EMPTY, 50, Seen(1, 0))
    assert runs(account(running, 100, Told(1, 40, 45))) == [(1, 0, None)]


def test_what_accounting_takes_out_is_told_to_the_state_file() -> None:
    cut = account(EMPTY, 100, Told(1, 60, 100))
    records = Records(
        T0_S + 200, PATHS, whole([1]), whole([T0_S]), whole([T0_S + 100]), np.zeros(1, np.int32),
        amounts_of([Told(1, 0)]), whole([0]),
    )  # fmt: skip
    merge = merge_records(cut, records)
    assert merge.gone.tolist() == run_keys(whole([1]), whole([T0_S + 60])).tolist()
    assert merge.rows().start_s.tolist() == [T0_S]


def test_accounting_corrects_size_and_quota() -> None:
    book = account(look(EMPTY, 10, Seen(1, 0)), 30, Told(1, 0, 25, gpus=4, quota="b"))
    rows = everything(book)
    assert (rows.path, rows.amounts[0, GPU]) == (("b",), 4)


# -- keeping ---------------------------------------------------------------------------------------------


def test_a_ledger_written_down_and_read_again_is_the_same() -> None:
    book = look(EMPTY, 10, Seen(1, 0, gpus=8), Seen(2, 3, Phase.SUSPENDED, quota="b", suspend_from=5))
    book = account(book, 5000, Told(3, 0, 100), Told(1, 0, 4000, gpus=8))
    again = ledger_of(everything(book), book.read_s)
    assert runs(again) == runs(book)
    assert pauses(again) == pauses(book)
    assert everything(again).path == everything(book).path
    assert gpu_seconds(again, 9000) == gpu_seconds(book, 9000)
    assert runs(look(again, 6000)) == runs(look(book, 6000))


def test_only_what_changed_is_handed_to_the_state_file() -> None:
    seen = sightings(
        jobs_of(
            {"job_id": 1, "state": 1, "start_s": T0_S, "held_resources": (8, 1, 1)},
            {"job_id": 2, "state": 1, "start_s": T0_S, "held_resources": (1, 1, 1)},
        ),
        np.array([0, 1], dtype=np.int32),
        PATHS,
        T0_S + 10,
    )
    first = merge_live(EMPTY, seen)
    assert first.rows().job_id.tolist() == [1, 2]
    assert first.rows().path == PATHS
    second = merge_live(first.ledger, replace(seen, now_s=T0_S + 20))
    assert len(second.rows()) == 0


def test_runs_that_ended_before_the_window_are_forgotten() -> None:
    book = account(EMPTY, 5000, Told(1, 0, 100), Told(2, 0, 4900, suspended=10), Told(3, 0, 50, suspended=5))
    kept = forgotten(look(book, 5000, Seen(4, 0)), T0_S + 200)
    assert runs(kept) == [(2, 0, 4900), (4, 0, None)]
    assert pauses(kept) == [(4890, 4900)]


def test_old_runs_move_to_the_bulk_and_are_still_corrected() -> None:
    many = [Told(job, 0, 100) for job in range(1, FEW + 3)]
    book = look(account(EMPTY, 200, *many), RECENT_S + 300)
    book = look(book, RECENT_S + 310)
    assert (len(book.closed), len(book.recent)) == (FEW + 2, 0)
    fixed = account(book, RECENT_S + 400, Told(7, 0, 90))
    assert (7, 0, 90) in runs(fixed)
    assert (7, 0, 100) in runs(book)
    assert fixed.altered_since(book.version) == T0_S + 90


def test_a_version_that_is_too_old_has_everything_altered() -> None:
    book = EMPTY
    for now in range(10, 3000, 10):
        book = look(book, now, Seen(now, now - 5))
    assert book.altered_since(0) == 0
    assert book.altered_since(book.version - 1) == T0_S + 2980


def test_equal_holdings_share_a_code() -> None:
    leaf, amounts = np.array([0, 1, 0], dtype=np.int32), np.array([[8.0, 1, 1], [8, 1, 1], [8, 1, 1]])
    known, codes = with_holdings(NO_HOLDINGS, leaf, amounts)
    assert (len(known), codes[0] == codes[2], codes[0] != codes[1]) == (2, True, True)
    again, same = with_holdings(known, leaf, amounts)
    assert again is known
    assert same.tolist() == codes.tolist()


def test_paths_keep_their_codes_when_the_policy_changes() -> None:
    book = look(EMPTY, 10, Seen(1, 0), Seen(2, 0, quota="b"))
    seen = Sightings(
        T0_S + 20, ("b",), whole([2]), whole([T0_S]), whole([0]), np.zeros(1, np.int32),
        amounts_of([Seen(2, 0)]), np.zeros(1, np.uint8), whole([0]), whole([0]),
    )  # fmt: skip
    book = merge_live(book, seen).ledger
    assert everything(book).path == ("a", "b")
    assert runs(book) == [(1, 0, 10), (2, 0, None)]


# -- what a live look shows ------------------------------------------------------------------------------

COMPLETING = 1 << 15


def test_phases_follow_slurms_states() -> None:
    jobs = jobs_of(
        {"job_id": 1, "state": 0},
        {"job_id": 2, "state": 0, "start_s": T0_S + 900},  # when backfill expects to start it
        {"job_id": 3, "state": 1, "start_s": T0_S, "end_s": T0_S + 9000},
        {"job_id": 4, "state": 2, "start_s": T0_S, "suspend_from_s": T0_S + 5},
        {"job_id": 5, "state": 3 | COMPLETING, "start_s": T0_S, "end_s": T0_S + 7},
        {"job_id": 6, "state": 5, "start_s": T0_S, "end_s": T0_S + 7},
        {"job_id": 7, "state": 4, "start_s": 0, "end_s": T0_S + 7},  # cancelled before it started
        {"job_id": 8, "state": COMPLETING, "start_s": 0},  # requeued, its nodes are not free yet
        {"job_id": 9, "state": 1, "start_s": T0_S},
    )
    leaf = np.array([0, 0, 0, 0, 0, 0, 0, 0, -1], dtype=np.int32)
    seen = sightings(jobs, leaf, PATHS, T0_S + 10)
    assert seen.job_id.tolist() == [3, 4, 5, 6]
    assert seen.phase.tolist() == [Phase.RUNS, Phase.SUSPENDED, Phase.COMPLETES, Phase.ENDED]


# -- laws ------------------------------------------------------------------------------------------------


@dataclass
class Life:
    """What really happened to one job: its runs, each with its suspensions."""

    job: int
    gpus: int
    quota: str
    runs: list[tuple[int, int]]
    pauses: dict[int, list[tuple[int, int]]] = field(default_factory=dict)

    def seen(self, now: int, remembered: int) -> list[Seen]:
        begun = [run for run in self.runs if run[0] <= now]
        if not begun:
            return []
        start, end = begun[-1]
        row = Seen(self.job, start, Phase.RUNS, end, self.gpus, self.quota)
        before = [pause for pause in self.pauses.get(start, []) if pause[0] <= now]
        over = [pause for pause in before if pause[1] <= min(now, end)]
        row = replace(
            row, suspended=sum(b - a for a, b in over), suspend_from=max((b for _, b in over), default=0)
        )
        if end <= now - 8:
            requeued = len(begun) < len(self.runs)
            return [] if requeued or now - end > remembered else [replace(row, phase=Phase.ENDED)]
        if end <= now:
            return [replace(row, phase=Phase.COMPLETES)]
        if len(before) > len(over):
            return [replace(row, phase=Phase.SUSPENDED, suspend_from=before[-1][0])]
        return [row]

    def told(self, now: int) -> list[Told]:
        return [
            Told(
                self.job, start, end if end <= now else UNSET_S, self.gpus, self.quota,
                sum(b - a for a, b in self.pauses.get(start, [])) if end <= now else 0,
            )
            for start, end in self.runs
            if start <= now
        ]  # fmt: skip

    def gpu_seconds(self) -> int:
        paused = sum(b - a for pauses in self.pauses.values() for a, b in pauses)
        return self.gpus * (sum(end - start for start, end in self.runs) - paused)


@st.composite
def lives(draw: st.DrawFn) -> list[Life]:
    found = []
    for job in range(1, draw(st.integers(1, 6)) + 1):
        life = Life(job, draw(st.integers(1, 8)), draw(st.sampled_from(PATHS)), [])
        now = draw(st.integers(0, 400))
        for _ in range(draw(st.integers(1, 3))):
            end = now + draw(st.integers(1, 500))
            life.runs.append((now, end))
            if draw(st.booleans()):
                cuts = sorted(set(draw(st.lists(st.integers(now, end), min_size=2, max_size=4))))
                life.pauses[now] = list(zip(cuts[::2], cuts[1::2], strict=False))
            now = end + draw(st.integers(10, 300))
        found.append(life)
    return found


@settings(deadline=None)
@given(
    lives(),
    st.lists(st.integers(0, 2600), min_size=1, max_size=30, unique=True),
    st.lists(st.tuples(st.integers(0, 2600), st.integers(0, 800)), max_size=4),
    st.sampled_from([0, 60, 10_000]),
)
def test_late_partial_and_overlapping_reads_end_at_the_truth(
    jobs: list[Life], looks: list[int], reads: list[tuple[int, int]], remembered: int
) -> None:
    book = EMPTY
    events = sorted([(now, -1) for now in looks] + reads)
    for now, back in events:
        if back < 0:
            book = look(book, now, *(row for job in jobs for row in job.seen(now, remembered)))
            starts = {(job.job, start) for job in jobs for start, _ in job.runs}
            assert {(job, start) for job, start, _ in runs(book)} <= starts
        else:
            rows = [row for job in jobs for row in job.told(now)]
            book = account(book, now, *(row for row in rows if row.end == UNSET_S or row.end >= now - back))
        rows = everything(book)
        for job in set(rows.job_id.tolist()):
            mine = rows.job_id == job
            ends = np.where(rows.end_s[mine] == UNSET_S, NEVER_S, rows.end_s[mine])
            assert (ends[:-1] <= rows.start_s[mine][1:]).all()
    truth = [row for job in jobs for row in job.told(9000)]
    book = account(look(book, 9000), 9000, *truth)
    assert runs(book) == sorted((row.job, row.start, row.end) for row in truth)
    assert gpu_seconds(book, 9000) == sum(job.gpu_seconds() for job in jobs)


@settings(deadline=None)
@given(lives(), st.lists(st.integers(0, 2600), min_size=2, max_size=25, unique=True))
def test_the_history_follows_every_correction_of_the_ledger(jobs: list[Life], looks: list[int]) -> None:
    quotas, steps = quotas_of([Q("a", deserved=3), Q("b", deserved=2)]), gpu_steps(40)
    fairshare = FairShare(window=Window("sliding", 1000), half_life_s=700)
    book, history = EMPTY, None
    for i, now in enumerate(sorted(looks)):
        book = look(book, now, *(row for job in jobs for row in job.seen(now, 30)))
        if i % 5 == 4:
            book = account(book, now, *(row for job in jobs for row in job.told(now)))
        history, got = advance(history, book, steps, quotas, fairshare, T0_S + now)
        full = advance(None, book, steps, quotas, fairshare, T0_S + now)[1]
        for name in ("allocated", "over_quota", "surplus", "held"):
            np.testing.assert_allclose(getattr(got, name), getattr(full, name), rtol=1e-9, atol=0)


def test_a_quota_that_moves_takes_its_runs_along() -> None:
    before, after = ("a", "a.eval", "b", "c.x", "d.x"), ("a", "b", "b.eval", "e.x")
    assert moves(before, after) == {"a.eval": "b.eval"}  # which x became e.x cannot be told
    assert moves(after, after) == {}
    book = look(EMPTY, 10, Seen(1, 0), Seen(2, 0, quota="b"))
    moved = renamed(book, {"a": "b.a"})
    assert everything(moved).path == ("b.a", "b")
    assert moved.altered_since(book.version) == 0
    assert renamed(book, {"z": "y"}) is book
    quotas = quotas_of([Q("b"), Q("b.a", parent="b")])
    assert allocated(moved, quotas, T0_S, T0_S + 10)[:, 0].tolist() == [20, 10]

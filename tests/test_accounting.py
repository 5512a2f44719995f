"""Tests of slurmfair.slurm.accounting: chunks cover the window, each run comes once."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from slurmfair.slurm import accounting, parse
from slurmfair.slurm.accounting import RawRuns

DAY_S = 86400
NEVER = parse.NO_VAL

# job, db index, start, end, TRES
RUNS = [
    (1, 10, 1000, 2000, "cpu=1,mem=1000,node=1,gres/gpu=2"),
    (2, 11, DAY_S - 50, DAY_S + 50, "cpu=4,node=2,gres/gpu=8,gres/gpu:h100=8"),
    (2, 12, DAY_S + 100, 0, "cpu=4,node=2,gres/gpu=8"),
    (3, 13, NEVER, 500, ""),
    (4, 14, 0, 0, ""),
]


class Recorded:
    """An accounting with a few runs; a run that still lasts has no end before the last chunk."""

    def chunk(self, cluster: str, since_s: int, until_s: int) -> RawRuns:
        assert cluster == "c"
        rows = [
            (job, index, start, end if end <= until_s else 0, tres)
            for job, index, start, end, tres in RUNS
            if (start if start < NEVER else 0) < until_s and (end == 0 or end > since_s)
        ]
        columns = {"jobid": 0, "db_index": 1, "start": 2, "end": 3}
        numbers = {name: np.array([row[at] for row in rows], dtype=np.int64) for name, at in columns.items()}
        zero = np.zeros(len(rows), dtype=np.int64)
        numbers |= dict.fromkeys(("array_job_id", "submit", "suspended", "alloc_nodes", "state"), zero)
        numbers["array_task_id"] = zero + NEVER
        texts = {
            name: [f"{name}{row[0]}" for row in rows] for name in ("user", "account", "partition", "qos")
        }
        return RawRuns(numbers, {**texts, "jobname": ["x"] * len(rows), "tres": [row[4] for row in rows]})

    def close(self) -> None:
        self.closed = True


def test_runs_that_span_chunks_come_once_with_their_last_known_end() -> None:
    heard: list[float] = []
    source = Recorded()
    runs = accounting.all_runs(source, "c", 0, 2 * DAY_S, heard.append)
    assert source.closed
    assert runs.job_id.tolist() == [1, 2, 2]
    assert runs.start_s.tolist() == [1000, DAY_S - 50, DAY_S + 100]
    assert runs.end_s.tolist() == [2000, DAY_S + 50, 0]
    assert runs.resources[:, 0].tolist() == [2, 8, 8]
    assert runs.array_task.tolist() == [-1, -1, -1]
    assert [runs.user[row] for row in range(3)] == ["user1", "user2", "user2"]
    assert heard == [0.5, 1.0]


def test_an_empty_window_has_no_runs() -> None:
    assert len(accounting.all_runs(Recorded(), "c", 5, 5, None)) == 0
    assert accounting.all_runs(Recorded(), "c", 5, 5, None).resources.shape == (0, 3)


@given(st.integers(0, 1 << 31), st.integers(0, 1 << 31))
def test_chunks_cover_any_window_without_gap_or_overlap(start_s: int, length_s: int) -> None:
    chunks = list(accounting.chunks(start_s, start_s + length_s))
    assert len(chunks) <= accounting.MOST_CHUNKS
    assert all(end == following for (_, end), (following, _) in pairwise(chunks))
    assert sum(end - begin for begin, end in chunks) == length_s
    if chunks:
        assert (chunks[0][0], chunks[-1][1]) == (start_s, start_s + length_s)


def test_accountings_numbers_become_names() -> None:
    names = {1: "cpu", 2: "mem", 1001: "gres/gpu"}
    text = parse.named_tres("1=64,2=64000,1001=8,77=5,", names)
    assert text == "cpu=64,mem=64000,gres/gpu=8,77=5"
    assert parse.tres(text)[:3] == (8, 64, 64000)

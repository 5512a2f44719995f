"""Two queues take turns under KAI: from what was allocated alone we find its usage and fair shares.

A cycle is a second; its allocation enters the history as one second (kai_oscillation.csv).
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Callable, Iterator
from itertools import groupby
from math import inf
from pathlib import Path

import numpy as np
import pytest

from slurmfair.config import FairShare, Window
from slurmfair.fairshare import divided
from slurmfair.model import GPU, Floats, Quotas
from slurmfair.steps import CAPACITY
from slurmfair.usage import advance, usage
from tests.conformance.share_files import close, gpu_steps, ledger_of_jobs

BEGIN_S = 1_700_000_000
TEAMS = ("team-a", "team-b")
QUOTAS = Quotas(
    path=("training-department", *TEAMS),
    parent=np.array([-1, 0, 0], dtype=np.int32),
    deserved=np.zeros((3, 1)),
    limit=np.full((3, 1), inf),
    weight=np.ones(3),
    priority=np.full(3, 100),
    resources=(GPU,),
)
KAI = FairShare(preset="kai", k=1.0, window=Window("sliding", 256.0), half_life_s=128.0)
WANTED = np.array([[128.0], [64.0], [64.0]])  # at least three waiting jobs of 16 GPUs a team
Row = dict[str, str]


def rows_of(folder: Path) -> dict[str, list[Row]]:
    """Return the file's rows by variant."""
    plain = folder / "kai_oscillation.csv"
    text = plain.read_text() if plain.exists() else gzip.decompress(Path(f"{plain}.gz").read_bytes()).decode()
    rows = list(csv.DictReader(text.splitlines()))
    return {name: list(group) for name, group in groupby(rows, key=lambda row: row["variant"])}


def jobs_of(rows: list[Row]) -> Iterator[dict[str, object]]:
    """Yield each team's stretches of equal allocation as jobs."""
    for team in TEAMS:
        held = [(int(row["time"]), float(row["allocation"])) for row in rows if row["queue"] == team]
        for gpus, stretch in groupby(held, key=lambda entry: entry[1]):
            cycles = [time for time, _ in stretch]
            yield {
                "quota": team,
                "start": BEGIN_S + cycles[0],
                "end": BEGIN_S + cycles[-1] + 1,
                "gpus": gpus,
            }


def replayed(rows: list[Row]) -> Iterator[tuple[int, Floats, Floats]]:
    """Yield time, usage and fair shares of every cycle."""
    cycles = max(int(row["time"]) for row in rows) + 1
    ledger = ledger_of_jobs(list(jobs_of(rows)), BEGIN_S + cycles)
    steps = gpu_steps({CAPACITY: [(0, 0), (BEGIN_S, 16)]})
    history = None
    for time in range(cycles):
        history, integrals = advance(history, ledger, steps, QUOTAS, KAI, BEGIN_S + time)
        used = usage(integrals, KAI)
        yield time, used, divided(QUOTAS, np.array([16.0]), WANTED, used, KAI.k, KAI.preset).share


def test_usage_and_fair_share_of_every_row_follow_from_the_allocations(
    pytestconfig: pytest.Config, record_property: Callable[[str, object], None]
) -> None:
    folder = pytestconfig.getoption("--cases-dir") or Path(__file__).parent
    right, wrong = 0, []
    for name, rows in rows_of(folder).items():
        expected = {(int(row["time"]), row["queue"]): row for row in rows}
        for time, used, shares in replayed(rows):
            for i, queue in enumerate(QUOTAS.path):
                row = expected[time, queue]
                same = close(used[i, 0], float(row["usage"])) and close(
                    shares[i, 0], float(row["fair_share"])
                )
                right += same
                if not same:
                    wrong.append(f"{name} {time} {queue}: {used[i, 0]!r} {shares[i, 0]!r}, expected {row}")
    record_property("cases", f"kai_oscillation.csv: {right} rows right, {len(wrong)} wrong")
    assert right + len(wrong) == 6144
    assert not wrong, "\n".join(wrong[:5])

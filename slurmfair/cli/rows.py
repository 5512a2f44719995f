"""Rows of a view as people call them: states, reasons, priorities."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from slurmfair.cli.text import Clock, printable
from slurmfair.model import Outcome
from slurmfair.standing import Standing
from slurmfair.view import Column, View

STATES = {
    Standing.OPEN: "open",
    Standing.HELD: "held",
    Standing.GATED: "gated",
    Standing.RELEASED: "released",
    Standing.FOREIGN_HOLD: "foreign",
    Standing.INELIGIBLE: "ineligible",
    Standing.SITE_LIMIT: "sitelimit",
    Standing.CANNOT_RUN: "cannotrun",
    Standing.UNKNOWN: "unknown",
    Standing.CRON: "cron",
    Standing.RESERVATION: "reserved",
    Standing.RUNNING: "running",
    Standing.LATE_HOLD: "running",
    Standing.SUSPENDED: "suspended",
    Standing.ENDED: "ended",
}
PARKED, UNMANAGED = "parked", "unmanaged"
OUTCOMES = {
    Outcome.BEHIND: "Behind",
    Outcome.STARTS: "Admitted",
    Outcome.LIMIT: "Limit",
    Outcome.CAPACITY: "Capacity",
    Outcome.PLACEMENT: "Placement",
    Outcome.HELD_BACK: "HeldBack",
    Outcome.PARKED: "Parked",
}
WITH_BLOCKER = (Outcome.BEHIND, Outcome.HELD_BACK)


@dataclass(frozen=True)
class Rows:
    """Some rows of a view, from which cells are made."""

    view: View
    rows: Column
    clock: Clock
    quotas: Mapping[tuple[str, str], Mapping[str, Any]] = field(repr=False)

    def numbers(self, name: str) -> list[Any]:
        return self.view.jobs[name][self.rows].tolist()

    def texts(self, name: str) -> list[str]:
        values = self.view.texts[name]
        return [printable(values[code]) for code in self.numbers(name)]

    @property
    def now_s(self) -> int:
        return int(self.view.about["now_s"])

    @cached_property
    def states(self) -> list[str]:
        named = zip(self.numbers("standing"), self.numbers("outcome"), self.texts("quota"), strict=True)
        return [state_of(standing, outcome, quota) for standing, outcome, quota in named]

    def quota_fact(self, name: str) -> list[Any]:
        """Return one value of each job's quota, None for unmanaged jobs."""
        paths = zip(self.texts("pool"), self.texts("quota"), strict=True)
        return [self.quotas.get(path, {}).get(name) for path in paths]


def state_of(standing: int, outcome: int, quota: str) -> str:
    """Return the word for what a job is to us."""
    if standing < Standing.RUNNING and not quota:
        return UNMANAGED
    if outcome == Outcome.PARKED and standing <= Standing.GATED:
        return PARKED
    return STATES[Standing(standing)]


def of_quotas(view: View) -> dict[tuple[str, str], dict[str, Any]]:
    return {(row["pool"], row["quota"]): row for row in view.quotas}


def aged(base: int, effective: float) -> str:
    """Return a job priority with its ageing, "3->5"; one number where they are equal."""
    return str(base) if effective == base else f"{base}->{effective:.3g}"


def reason_of(state: str, outcome: int, blocker: int, slurm: str) -> str:
    """Return why a job waits: our reason for the jobs that we order, Slurm's for the others."""
    if outcome < 0 or state not in ("open", "held", "gated", PARKED):
        return slurm or "None"
    word = OUTCOMES[Outcome(outcome)]
    return f"{word}:{blocker}" if blocker > 0 and outcome in WITH_BLOCKER else word

"""What the daemon needs of a cluster; the real one and the one in memory both have it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Protocol

from slurmfair.model import Change, Reading, RunTable

if TYPE_CHECKING:
    from slurmfair.slurm.settings import Settings


class Result(Enum):
    """What became of a change (SLURM.md 10)."""

    OK = "ok"
    MOVED_ON = "the job has moved on"  # gone, ended or started: the next reading shows it
    REREAD = "the job was held meanwhile"
    SKIP = "Slurm refuses this job"  # a cron job, or the site's own plugin says no


@dataclass(frozen=True, slots=True)
class Answer:
    """Slurm's answer to a change. `took_s` tells the caller when to cut its batch."""

    result: Result
    took_s: float
    requests: int = 1  # how many the change took
    error: int = 0  # Slurm's number
    message: str = ""

    @property
    def ok(self) -> bool:
        """The change is in force."""
        return self.result is Result.OK


class Cluster(Protocol):
    """A Slurm to read from and write to.

    Every call may raise SlurmUnavailable (wait, keep the last state, write nothing) and SlurmRefused
    (rights or a setting are missing; the message says what to do). `write` may be called from several threads.
    """

    def read(self) -> Reading:
        """Return jobs, nodes and partitions as they are now."""

    def write(self, change: Change) -> Answer:
        """Carry out one change."""

    def settings(self) -> Settings:
        """Return the settings that matter to us, as the cluster runs now."""

    def runs(self, since_s: int, until_s: int, progress: Callable[[float], None] | None = None) -> RunTable:
        """Return all runs of jobs that overlap the window, with true start and end.

        `progress` hears the share done, 0 to 1, after each chunk.
        """

    def close(self) -> None:
        """Let go of connections."""

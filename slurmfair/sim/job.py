"""A job record of the simulated controller."""

from __future__ import annotations

from dataclasses import dataclass, field

from slurmfair.model import Ints
from slurmfair.sim.spec import JobSpec
from slurmfair.slurm.parse import BASE_STATE, COMPLETING, BaseState, Tag, tag_of


@dataclass(frozen=True, slots=True)
class Allocation:
    """Nodes by row, and what is taken of each, shape (n_nodes, n_columns of Nodes)."""

    rows: Ints
    amounts: Ints


@dataclass(slots=True)
class Job:
    """One record. `stamp` changes whenever planned events of the record no longer hold."""

    job_id: int
    spec: JobSpec
    submit_s: int
    state: int = BaseState.PENDING
    reason: str = "None"
    reason_text: str = ""
    priority: int = 0
    pinned: bool = False
    nice: int = 0
    site_factor: int = 0
    admin_comment: str = ""
    array_id: int = 0
    array_task: int = -1
    tasks: tuple[int, ...] = ()  # waiting tasks of an array
    het_id: int = 0
    begin_s: int = 0
    eligible_s: int = 0
    planned_s: int = 0  # start that backfill expects
    start_s: int = 0
    end_s: int = 0
    suspended_s: int = 0
    suspend_from_s: int = 0
    restarts: int = 0
    partition: str = ""  # the one it runs in
    unmet: set[int] = field(default_factory=set)  # jobs that it waits for
    doomed: bool = False  # one of them ended otherwise than it must
    allocation: Allocation | None = None
    stamp: int = 0

    @property
    def base(self) -> int:
        """The state without flags."""
        return self.state & BASE_STATE

    @property
    def waits(self) -> bool:
        """Pending, whatever for."""
        return self.state == BaseState.PENDING

    @property
    def held(self) -> bool:
        """Pending with priority 0."""
        return self.waits and self.priority == 0

    @property
    def over(self) -> bool:
        """Ended, or just ending."""
        return self.base >= BaseState.COMPLETED or bool(self.state & COMPLETING)

    @property
    def tag(self) -> Tag:
        """Our mark in its admin comment."""
        return tag_of(self.admin_comment)

    def say(self, reason: str, text: str = "") -> None:
        """Give the reason why it waits."""
        self.reason, self.reason_text = reason, text


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a job; `resources` has GPUs, CPUs, MiB."""

    job: Job  # as it was when the run ended, or the running one
    start_s: int
    end_s: int  # 0 while it runs
    suspended_s: int
    resources: Ints
    nodes: int
    state: int

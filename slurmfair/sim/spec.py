"""What a simulated cluster is made of, and what a user asks for. Times in seconds, memory in MiB."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from slurmfair.model import FOREVER_S


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """A node; `gpus` counts by type."""

    name: str
    partitions: tuple[str, ...]
    gpus: Mapping[str, int] = field(default_factory=dict)
    cpus: int = 64
    mem_mib: int = 512_000


@dataclass(frozen=True, slots=True)
class Rules:
    """Settings of slurmctld, under short names; the defaults are Slurm's own where it has any."""

    pass_delay_s: int = 1  # from an event to the pass of the main scheduler
    sched_interval_s: int = 60  # full pass of the main scheduler
    queue_depth: int = 100  # attempts of a pass after an event
    backfill: bool = True
    bf_interval_s: int = 30
    bf_max_job_test: int = 500
    bf_max_job_array_resv: int = 20
    bf_job_part_count_reserve: int = 0  # blocked jobs of a partition that get a reservation, 0 for all
    bf_window_s: int = 86_400
    requeue_delay_s: int = 120
    epilog_s: int = 0
    max_time_s: int = FOREVER_S  # MaxTime of all partitions; a longer limit becomes this one
    min_job_age_s: int = 300
    calc_period_s: int = 60
    max_age_s: int = 7 * 86_400
    weights: Mapping[str, int] = field(default_factory=dict)  # PriorityWeight*, "Age" among them


@dataclass(frozen=True, slots=True)
class After:
    """A dependency on another job."""

    job_id: int
    kind: Literal["ok", "any"] = "ok"


@dataclass(frozen=True, slots=True)
class JobSpec:
    """What sbatch is told; resources are those of one task on all of its nodes."""

    user: str = "ann"
    account: str = "vision"
    partition: str = "train"  # "a,b" for several
    qos: str = "normal"
    name: str = "job"
    gpus: int = 1
    gpu_type: str = ""
    cpus: int = 1
    mem_mib: int = 1
    nodes: int = 1
    exclusive: bool = False
    duration_s: int = 3600  # how long it would run
    time_limit_s: int = FOREVER_S
    begin_s: int = 0
    after: tuple[After, ...] = ()
    nice: int = 0
    comment: str = ""
    hold: bool = False
    array: tuple[int, ...] = ()  # task numbers
    throttle: int = 0  # tasks at once, 0 for no bound
    cron: bool = False
    reservation: str = ""  # one that has not begun
    requeue: bool = True
    factors: Mapping[str, float] = field(default_factory=dict)  # of Rules.weights, 0 to 1; not Age

    @property
    def partitions(self) -> tuple[str, ...]:
        """Where it may run."""
        return tuple(self.partition.split(","))

    @property
    def shape(self) -> tuple[int, str, int, int, int, bool]:
        """All that decides which nodes it fits on."""
        return self.gpus, self.gpu_type, self.cpus, self.mem_mib, self.nodes, self.exclusive

    @property
    def run_s(self) -> int:
        """How long it runs before it ends or is stopped."""
        return min(self.duration_s, self.time_limit_s)

"""The policy, checked and frozen. `config_file.py` makes it from YAML; nothing else does.

Durations are seconds, GPUs and CPUs counts, memory MiB. A quota's path joins names with dots ("llm.eval").
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

PolicyName = Literal["fifo", "round_robin", "balance", "intelligent"]
Enforce = Literal["order", "holdback"]


@dataclass(frozen=True, slots=True)
class Cycle:
    interval_s: float = 10.0
    write_budget: int = 400  # RPCs a cycle
    window: int = 500  # jobs of a partition kept in exact order


@dataclass(frozen=True, slots=True)
class Ranks:
    channel: Literal["site_factor", "priority"] = "site_factor"
    high: int = 2_000_000_000


@dataclass(frozen=True, slots=True)
class Reports:
    """Where reports are answered besides the local socket."""

    listen: str = ""  # HOST:PORT, "" for nowhere


@dataclass(frozen=True, slots=True)
class JobPriority:
    """Where a job's priority 1 to 9 comes from; the first of `sources` that gives a number wins."""

    qos: dict[str, int]
    comment_pattern: str = ""  # one group: the number; "" switches it off
    comment_max_qos: dict[str, int] | None = None  # the most a user may give himself, by QOS
    comment_max_default: int = 9
    nice_step: int = 0  # nice that costs one priority step below the default; 0 switches it off
    accounts: dict[str, int] | None = None
    default: int = 5
    sources: tuple[Literal["qos", "comment", "nice", "accounts"], ...] = (
        "qos",
        "comment",
        "nice",
        "accounts",
    )


@dataclass(frozen=True, slots=True)
class Window:
    type: Literal["sliding", "tumbling", "cron"] = "sliding"
    size_s: float = 7 * 86400.0
    anchor_s: float = 345600.0  # Monday 1970-01-05 00:00 UTC
    cron: str = ""
    timezone: str = "UTC"


@dataclass(frozen=True, slots=True)
class FairShare:
    """Time-based fair share of one pool (SEMANTICS 7)."""

    enabled: bool = False
    preset: Literal["slurmfair", "kai"] = "slurmfair"
    k: float = 1.0
    window: Window = Window()
    half_life_s: float = 0.0
    usage: Literal["surplus", "surplus_consumed", "total"] = "surplus"
    min_history_s: float = 3600.0
    enforce: Enforce = "holdback"
    backfill_under_reservation: bool = True
    starvation_after_s: float = 86400.0
    staleness_s: float = 300.0


@dataclass(frozen=True, slots=True)
class QueuePolicy:
    """How one quota's queue is worked off (SEMANTICS 4). All quotas below inherit what they do not set."""

    name: PolicyName = "balance"
    order: Literal["priority", "submit"] = "priority"
    balance_timeout_s: float = 300.0
    max_window: int = 0  # 0 for no bound
    high_threshold: int = 7
    high_blocks_low: bool = True
    aging_interval_s: float = 3600.0
    aging_cap: int = 6
    aging_mode: Literal["step", "linear"] = "step"
    starvation_guard_s: float = 0.0
    on_never_fit: Literal["park", "block", "cancel"] = "park"
    fifo_scope: Literal["quota", "gres_type"] = "quota"


@dataclass(frozen=True, slots=True)
class Match:
    """Which jobs belong to a quota: every list that is given must hold the job's value."""

    accounts: frozenset[str] = frozenset()
    users: frozenset[str] = frozenset()
    qos: frozenset[str] = frozenset()
    partitions: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Quota:
    """One node of a pool's tree. Amounts stand in the order of the pool's resources; inf for no limit."""

    path: str
    parent: int  # index into the pool's quotas, -1 at the top
    is_leaf: bool
    matches: tuple[Match, ...]  # rules tried in the order of the file; () for an inner node
    deserved: tuple[float, ...]
    limit: tuple[float, ...]
    weight: float
    priority: int
    policy: QueuePolicy
    fail_open: bool = True


@dataclass(frozen=True, slots=True)
class Pool:
    """Partitions whose nodes are divided together. `resources` are indices into model.RESOURCES, main one first.

    `quotas` holds a parent before its children; an inner quota that matches jobs of its own has an
    implicit leaf "<path>.self".
    """

    name: str
    partitions: tuple[str, ...]
    resources: tuple[int, ...]
    fairshare: FairShare
    quotas: tuple[Quota, ...]
    place_grace_s: float = 60.0
    unmatched: int = -1  # leaf for jobs that no rule matches, -1 to leave them alone


@dataclass(frozen=True, slots=True)
class Config:
    pools: tuple[Pool, ...]
    cycle: Cycle
    ranks: Ranks
    job_priority: JobPriority
    reports: Reports = Reports()
    fail_open_after_s: float = 900.0
    source: str = ""
    warnings: tuple[str, ...] = ()
    text: str = field(default="", repr=False, compare=False)  # of the file; overrides are laid over it

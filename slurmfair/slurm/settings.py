"""The settings of a running cluster, and what is wrong with them: each finding with the line that mends it.

The rules are those of SLURM.md, sections 0 and 16. Pure: live.py fills in `Settings`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from slurmfair.slurm.faults import mend_rights
from slurmfair.slurm.requests import Channel

Severity = Literal["error", "warning", "note"]
ADMINISTRATOR = "Administrator"
FIXED_BACKFILL = (26, 5, 3)  # no longer undoes a priority written meanwhile (SLURM.md 1.4)


@dataclass(frozen=True, slots=True)
class PartitionSettings:
    """What matters of a partition; times in minutes, inf for no limit, None where there is no default."""

    name: str
    tier: int
    default_min: float | None
    max_min: float


@dataclass(frozen=True, slots=True)
class Rights:
    """What Slurm lets users do beyond their own jobs."""

    levels: Mapping[str, str] = field(default_factory=dict)  # AdminLevel: Administrator or Operator
    coordinated: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # accounts, by coordinator


@dataclass(frozen=True, slots=True)
class Settings:
    """What slurmctld runs with now."""

    cluster: str
    version: str  # of slurmctld, such as "26.05.5"
    pyslurm: str  # such as "25.11.2"
    own_edge: bool  # ours reads and writes jobs; else pyslurm does
    account: str  # that we run as
    is_slurm_user: bool  # root or SlurmUser
    admin_level: str  # of our account: Administrator, Operator, None; "" where rights cannot be read
    priority_type: str
    priority_flags: frozenset[str]
    site_factor_plugin: str
    weights: Mapping[str, int]  # PriorityWeight* by the rest of its name
    calc_period_s: int
    scheduler_type: str
    scheduler: Mapping[str, str]  # SchedulerParameters; "" for a word without value
    select_type: str
    submit_plugins: tuple[str, ...]
    slurmctld: Mapping[str, str]  # SlurmctldParameters
    accounting_type: str
    tracked: frozenset[str]  # AccountingStorageTRES
    gpu_types: frozenset[str]  # of the nodes
    private_data: frozenset[str]
    min_job_age_s: int
    partitions: tuple[PartitionSettings, ...]
    shards: bool = False  # some node's GPUs are cut into shards
    rights: Rights = field(default_factory=Rights)  # none where they cannot be read

    @property
    def weight_sum(self) -> int:
        """The most that Slurm's own factors can add to a priority, each being at most 1."""
        return sum(self.weights.values())


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the policy asks of the cluster."""

    partitions: frozenset[str]
    channel: Channel = "site_factor"
    interval_s: float = 10.0
    window: int = 500
    high: int = 2_000_000_000
    gate: bool = False
    unheld_jobs: int = 0  # pending now, and not held


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing to mend. With an error the daemon does not start."""

    severity: Severity
    setting: str
    found: str
    why: str
    mend: str = field(default="")

    @property
    def rights(self) -> bool:
        """It is about what our account may do: without that the daemon can go on at no time."""
        return self.setting.startswith("AdminLevel")

    def __str__(self) -> str:
        """Return it as one line for people."""
        mend = f"; mend: {self.mend}" if self.mend else ""
        return f"{self.severity}: {self.setting} is {self.found}: {self.why}{mend}"


def findings(now: Settings, wishes: Wishes) -> tuple[Finding, ...]:
    """Return everything that is wrong, worst first."""
    order = {"error": 0, "warning": 1, "note": 2}
    found = [finding for check in CHECKS for finding in check(now, wishes)]
    return tuple(sorted(found, key=lambda finding: order[finding.severity]))


def rights(now: Settings, _: Wishes) -> Iterator[Finding]:
    """Only an Administrator may write the admin comment (SLURM.md 9)."""
    if now.is_slurm_user or now.admin_level == ADMINISTRATOR:
        return
    if not now.admin_level:
        yield Finding(
            "warning", f"AdminLevel of {now.account}", "unknown", "it must be Administrator",
            f"sacctmgr show user {now.account} format=user,adminlevel; if it is not: {mend_rights(now.account)}",
        )  # fmt: skip
        return
    yield Finding(
        "error", f"AdminLevel of {now.account}", now.admin_level,
        "only an Administrator may tag jobs, and a hold without a tag cannot be told from an admin's",
        mend_rights(now.account),
    )  # fmt: skip


def release(now: Settings, _: Wishes) -> Iterator[Finding]:
    """pyslurm must be built for the cluster's Slurm release (SLURM.md 10)."""
    if now.version.split(".")[:2] == _padded(now.pyslurm):
        return
    tried = (now.version.startswith("26.05"), now.pyslurm.startswith("25.11")) == (True, True)
    yield Finding(
        "note" if tried else "error", "pyslurm", now.pyslurm,
        f"the cluster runs Slurm {now.version}, and pyslurm must be built for the cluster's own release"
        + ("; this pair, pyslurm built with adapted headers, was tried and works" if tried else ""),
        "" if tried else "pip install 'pyslurm=={}.{}.*'".format(*_numbers(now.version)),
    )  # fmt: skip


def edge(now: Settings, _: Wishes) -> Iterator[Finding]:
    """Through pyslurm the daemon works, but slower, and reports hang while slurmctld is away."""
    if not now.own_edge:
        yield Finding(
            "warning", "slurmfair's own edge", "not built",
            "pyslurm blocks the daemon for MessageTimeout when slurmctld is away, and cannot set a factor to 0",
            "SLURM_INCLUDE_DIR=/usr/include SLURM_LIB_DIR=/usr/lib64/slurm pip install --force-reinstall slurmfair",
        )  # fmt: skip


def channel(now: Settings, wishes: Wishes) -> Iterator[Finding]:
    """Site factors need priority/multifactor, and nobody else who writes them (SLURM.md 7)."""
    if wishes.channel != "site_factor":
        yield Finding(
            "note", "ranks.channel", "priority",
            "pinned priorities are lost at each release, wipe the user's nice and cost a slurmdbd record each",
            "ranks: {channel: site_factor}",
        )  # fmt: skip
        return
    if now.priority_type != "priority/multifactor":
        yield Finding(
            "error", "PriorityType", now.priority_type, "it ignores the site factor",
            "PriorityType=priority/multifactor, or ranks: {channel: priority}",
        )  # fmt: skip
    if now.site_factor_plugin:
        yield Finding(
            "error", "PrioritySiteFactorPlugin", now.site_factor_plugin, "it overwrites our ranks",
            "remove the line, or ranks: {channel: priority}",
        )  # fmt: skip


def weights(now: Settings, wishes: Wishes) -> Iterator[Finding]:
    """Ranks are spaced wider than Slurm's own factors together, so these must leave room."""
    if wishes.channel != "site_factor" or not now.weight_sum:
        return
    listed = ", ".join(f"{name} {weight}" for name, weight in now.weights.items() if weight)
    if raw := sorted(flag for flag in now.priority_flags if flag.startswith("NO_NORMAL")):
        yield Finding(
            "error", "PriorityFlags", ",".join(raw), "Slurm's own factors have no bound then, so ranks cannot pass them",
            f"remove {','.join(raw)}, or set all PriorityWeight* to 0",
        )  # fmt: skip
    if (wishes.window + 1) * (now.weight_sum + 1) > wishes.high:
        yield Finding(
            "error", "PriorityWeight*", f"{now.weight_sum} in all ({listed})",
            f"{wishes.window} ranks spaced wider than that do not fit below {wishes.high}",
            "lower the weights, or cycle.window",
        )  # fmt: skip
    else:
        yield Finding(
            "note", "PriorityWeight*", f"{now.weight_sum} in all ({listed})",
            "ranks are spaced wider than that; 0 is simplest unless other partitions need them",
        )  # fmt: skip


def calculation(now: Settings, _: Wishes) -> Iterator[Finding]:
    """A factor that backfill overwrote comes back with the next calculation (SLURM.md 1.4)."""
    if now.calc_period_s > 60:
        yield Finding(
            "warning", "PriorityCalcPeriod", f"{now.calc_period_s // 60} min",
            "so long may a job show an old priority", "PriorityCalcPeriod=1",
        )  # fmt: skip


def tiers(now: Settings, wishes: Wishes) -> Iterator[Finding]:
    """PriorityTier beats every priority (SLURM.md 6)."""
    ours = [part for part in now.partitions if part.name in wishes.partitions]
    if len({part.tier for part in ours}) > 1:
        yield Finding(
            "warning", "PriorityTier", ", ".join(f"{part.name} {part.tier}" for part in ours),
            "jobs of the higher tier start first, whatever their rank",
            f"scontrol update PartitionName=NAME PriorityTier={min(part.tier for part in ours)},"
            " and the same in slurm.conf",
        )  # fmt: skip


def unknown_partitions(now: Settings, wishes: Wishes) -> Iterator[Finding]:
    """A partition of the policy that the cluster does not have."""
    known = {part.name for part in now.partitions}
    for name in sorted(wishes.partitions - known):
        yield Finding(
            "error", f"partition {name}", "unknown to Slurm", f"it has {', '.join(sorted(known))}",
            "correct pools.*.partitions in the policy file",
        )  # fmt: skip


def time_limits(now: Settings, wishes: Wishes) -> Iterator[Finding]:
    """Backfill plans with time limits; without a default it is blind."""
    for part in now.partitions:
        if part.name in wishes.partitions and part.default_min is None:
            yield Finding(
                "warning", f"DefaultTime of {part.name}", "not set",
                "jobs without a time limit count as endless, and backfill cannot plan around them",
                f"PartitionName={part.name} ... DefaultTime=1:00:00",
            )  # fmt: skip


def scheduler(now: Settings, wishes: Wishes) -> Iterator[Finding]:
    """The scheduler must see all unheld jobs, soon, and plan further than the longest job."""
    if now.scheduler_type != "sched/backfill":
        yield Finding(
            "error", "SchedulerType", now.scheduler_type,
            "one blocked job stops its partition, and heterogeneous jobs never start", "SchedulerType=sched/backfill",
        )  # fmt: skip
        return
    if not {"defer", "defer_batch"} & set(now.scheduler):
        yield Finding(
            "warning", "SchedulerParameters", "without defer",
            "salloc and srun start inside the submit call, before any decision", "SchedulerParameters=defer,...",
        )  # fmt: skip
    yield from _bound(now, "bf_interval", 30, 30, "s", "gaps are filled only so often")
    yield from _bound(now, "requeue_delay", 120, 60, "s", "a requeued job waits so long")
    depth = _value(now, "bf_max_job_test", 500)
    if depth <= wishes.unheld_jobs:
        yield Finding(
            "warning", "bf_max_job_test", str(depth), f"{wishes.unheld_jobs} unheld jobs wait, the last are never tried",
            f"SchedulerParameters=...,bf_max_job_test={2 * wishes.unheld_jobs}",
        )  # fmt: skip
    yield from _backfill_window(now, wishes)
    if "enable_user_top" in now.scheduler:
        yield Finding(
            "warning", "SchedulerParameters", "enable_user_top", "users may then swap the order of their jobs",
            "remove enable_user_top",
        )  # fmt: skip
    if "bf_continue" in now.scheduler and _numbers(now.version) < FIXED_BACKFILL:
        yield Finding(
            "warning", "SchedulerParameters", "bf_continue",
            f"backfill of Slurm {now.version} may undo a rank written meanwhile, until the next calculation",
            "remove bf_continue, or upgrade to 26.05.3",
        )  # fmt: skip


def _bound(now: Settings, name: str, default: int, most: int, unit: str, why: str) -> Iterator[Finding]:
    """Yield a finding if a number among SchedulerParameters is too large."""
    if (value := _value(now, name, default)) > most:
        yield Finding("warning", name, f"{value} {unit}", why, f"SchedulerParameters=...,{name}={most}")


def _backfill_window(now: Settings, wishes: Wishes) -> Iterator[Finding]:
    """A big job keeps its reservation only if its start lies within bf_window."""
    longest = max((part.max_min for part in now.partitions if part.name in wishes.partitions), default=0.0)
    window = _value(now, "bf_window", 1440)
    if window < longest:
        limit = "endless" if longest == float("inf") else f"{longest:.0f} min"
        yield Finding(
            "warning", "bf_window", f"{window} min", f"the longest time limit is {limit}, so a big job may starve",
            "MaxTime on each partition, and SchedulerParameters=...,bf_window=MINUTES above it, bf_resolution larger",
        )  # fmt: skip


def accounting(now: Settings, _: Wishes) -> Iterator[Finding]:
    """GPUs are counted by slurmctld only if accounting tracks them, from the beginning (SLURM.md 11, 12)."""
    if "gres/gpu" not in now.tracked:
        typed = "".join(f",gres/gpu:{name}" for name in sorted(now.gpu_types))
        yield Finding(
            "error", "AccountingStorageTRES", ",".join(sorted(now.tracked)) or "empty",
            "Slurm does not count the GPUs that jobs ask for", f"AccountingStorageTRES=gres/gpu{typed}",
        )  # fmt: skip
    elif missing := sorted(name for name in now.gpu_types if f"gres/gpu:{name}" not in now.tracked):
        listed = ",".join(f"gres/gpu:{name}" for name in missing)
        yield Finding(
            "note", "AccountingStorageTRES", f"without {listed}", "past use cannot be told by GPU type",
            f"AccountingStorageTRES=...,{listed}",
        )  # fmt: skip
    if now.shards and "gres/shard" not in now.tracked:
        yield Finding(
            "warning", "AccountingStorageTRES", "without gres/shard", "jobs that ask for shards seem to ask for no GPU",
            "AccountingStorageTRES=...,gres/shard",
        )  # fmt: skip
    if now.accounting_type != "accounting_storage/slurmdbd":
        yield Finding(
            "warning", "AccountingStorageType", now.accounting_type or "not set",
            "history from before the daemon's first start is not known",
            "AccountingStorageType=accounting_storage/slurmdbd",
        )  # fmt: skip


def operation(now: Settings, wishes: Wishes) -> Iterator[Finding]:
    """Things that make the daemon slow or blind."""
    if "rl_enable" in now.slurmctld and not now.is_slurm_user:
        yield Finding(
            "warning", "SlurmctldParameters", "rl_enable",
            f"{now.account} may send two requests a second, as it is neither root nor SlurmUser",
            "SlurmctldParameters=...,rl_refill_rate=500,rl_bucket_size=1000, or run as SlurmUser",
        )  # fmt: skip
    if now.min_job_age_s <= 3 * wishes.interval_s:
        yield Finding(
            "warning", "MinJobAge", f"{now.min_job_age_s} s",
            "a job may end and be forgotten between two cycles", "MinJobAge=300",
        )  # fmt: skip
    if now.select_type != "select/cons_tres":
        yield Finding(
            "error", "SelectType", now.select_type, "it does not allocate GPUs", "SelectType=select/cons_tres"
        )
    if wishes.gate and "lua" not in now.submit_plugins:
        yield Finding(
            "error", "JobSubmitPlugins", ",".join(now.submit_plugins) or "not set",
            "the policy wants the submit gate", "JobSubmitPlugins=lua, and conf/job_submit.lua beside slurm.conf",
        )  # fmt: skip


CHECKS = (
    rights, release, edge, channel, weights, calculation, tiers, unknown_partitions, time_limits, scheduler,
    accounting, operation,
)  # fmt: skip


def _value(now: Settings, name: str, default: int) -> int:
    """Return a number among SchedulerParameters."""
    text = now.scheduler.get(name, "")
    return int(text) if text.isdigit() else default


def _numbers(version: str) -> tuple[int, ...]:
    """Return "26.05.5" as (26, 5, 5)."""
    return tuple(int(part) for part in version.split("-")[0].split(".") if part.isdigit())


def _padded(version: str) -> list[str]:
    """Return pyslurm's "25.5.1" as Slurm's ["25", "05"]."""
    major, minor = (*version.split("."), "0")[:2]
    return [major, minor.zfill(2)]

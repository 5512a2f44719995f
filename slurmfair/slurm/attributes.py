"""pyslurm's objects as raw columns: the way in where our own edge for jobs is not built, and for nodes.

The objects are passed in; nothing here imports pyslurm. Through pyslurm the site factor cannot be read:
the column holds priority + nice, which it equals while all of Slurm's own weights are 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import numpy as np

from slurmfair.model import Coded
from slurmfair.slurm import parse, tables
from slurmfair.slurm.settings import PartitionSettings, Rights, Settings
from slurmfair.slurm.tables import EXCLUSIVE, NodeRecord, RawJobs


class Record(Protocol):
    """An object of pyslurm's; a value that Slurm does not have is None."""

    def __getattr__(self, name: str) -> object:
        """Return an attribute of the record."""


NUMBERS = {
    "job_id": "id",
    "array_job_id": "array_id",
    "array_max_tasks": "array_tasks_parallel",
    "het_job_id": "heterogeneous_id",
    "priority": "priority",
    "nice": "nice",
    "submit_time": "submit_time",
    "eligible_time": "eligible_time",
    "start_time": "start_time",
    "end_time": "end_time",
    "pre_sus_time": "pre_suspension_time",
    "suspend_time": "suspend_time",
    "restart_cnt": "requeue_count",
    "num_nodes": "num_nodes",
    "user_id": "user_id",
    "mem_per_cpu": "memory_per_cpu",
}
TEXTS = {
    "array_task_str": "array_tasks_waiting",
    "account": "account",
    "partition": "partition",
    "qos": "qos",
    "name": "name",
    "resv_name": "reservation",
    "nodes": "allocated_nodes",
    "comment": "comment",
    "admin_comment": "admin_comment",
}


def raw_jobs(jobs: Sequence[Record], read_s: int) -> RawJobs:
    """Return the columns that tables.job_table wants."""
    numbers = {
        name: [_number(getattr(job, attribute)) for job in jobs] for name, attribute in NUMBERS.items()
    }
    numbers["site_factor"] = [a + b for a, b in zip(numbers["priority"], numbers["nice"], strict=True)]
    numbers["job_state"] = [parse.state_number(_text(job.state)) for job in jobs]
    numbers["array_task_id"] = [_array_task(job) for job in jobs]
    numbers["time_limit"] = [_minutes(job.time_limit) for job in jobs]
    numbers["shared"] = [EXCLUSIVE if job.resource_sharing == "NO" else 1 for job in jobs]
    numbers["cron"] = [int(bool(job.is_cronjob)) for job in jobs]
    numbers["dependent"] = [int(job.dependencies is not None) for job in jobs]
    texts = {name: [text_of(job, attribute) for job in jobs] for name, attribute in TEXTS.items()}
    reasons = [parse.split_reason(text_of(job, "state_reason")) for job in jobs]
    texts["reason"] = [name for name, _ in reasons]
    texts["state_desc"] = [text for _, text in reasons]
    texts["tres_req_str"] = [tres_text(job.requested_tres) for job in jobs]
    texts["tres_alloc_str"] = [tres_text(job.allocated_tres) for job in jobs]
    texts["tres_asked"] = texts["user_name"] = [""] * len(jobs)
    return RawJobs(
        read_s=read_s,
        numbers={name: np.array(column, dtype=np.int64) for name, column in numbers.items()},
        texts={name: coded(column) for name, column in texts.items()},
    )


def coded(texts: Sequence[str]) -> Coded:
    """Return a column of texts as codes, numbered in order of first sight."""
    numbers: dict[str, int] = {}
    codes = np.array([numbers.setdefault(text, len(numbers)) for text in texts], dtype=np.int32)
    return Coded(codes, tuple(numbers))


def tres_text(tres: object) -> str:
    """Return pyslurm's resources in Slurm's own form, "" for none."""
    if tres is None:
        return ""
    amounts = {name: getattr(tres, name, None) for name in ("cpu", "mem", "node")}
    parts = [f"{name}={_number(_count(amount))}" for name, amount in amounts.items()]
    gres = getattr(tres, "gres", None) or {}
    return ",".join([*parts, *(f"gres/{name}={_number(_count(amount))}" for name, amount in gres.items())])


def node_record(node: Record) -> NodeRecord:
    """Return one of pyslurm's nodes."""
    return tables.node_record(
        _text(node.name),
        ",".join(_words(node.partitions)),
        _text(node.state),
        ",".join(f"{name}:{count}" for name, count in _parameters(node.configured_gres).items()),
        ",".join(f"{name}={count}" for name, count in _parameters(node.allocated_tres).items()),
        _number(node.effective_cpus),
        _number(node.real_memory) - _number(node.memory_reserved_for_system),
    )


def partition_row(part: Record) -> tuple[str, int, bool]:
    """Return name, tier and whether a partition is up."""
    return _text(part.name), _number(part.priority_tier), part.state == "UP"


WEIGHTS = {
    "Age": "priority_weight_age",
    "Assoc": "priority_weight_assoc",
    "Fairshare": "priority_weight_fair_share",
    "JobSize": "priority_weight_job_size",
    "Partition": "priority_weight_partition",
    "QOS": "priority_weight_qos",
}


def settings(
    conf: Record,
    partitions: Iterable[Record],
    nodes: Iterable[NodeRecord],
    pyslurm: str,
    own_edge: bool,
    account: str,
    uid: int,
    rights: Rights | None,
) -> Settings:
    """Return the settings from pyslurm's picture of the configuration."""
    has = [parse.gres(node.gres) for node in nodes]
    return Settings(
        cluster=_text(conf.cluster_name),
        version=_text(conf.version),
        pyslurm=pyslurm,
        own_edge=own_edge,
        account=account,
        is_slurm_user=uid in (0, conf.slurm_user_id),
        admin_level="" if rights is None else rights.levels.get(account, "None"),
        priority_type=_text(conf.priority_type),
        priority_flags=frozenset(_words(conf.priority_flags)),
        site_factor_plugin=_text(conf.priority_site_factor_plugin),
        weights=_weights(conf),
        calc_period_s=_number(conf.priority_calc_period),
        scheduler_type=_text(conf.scheduler_type),
        scheduler=_parameters(conf.scheduler_parameters),
        select_type=_text(conf.select_type),
        submit_plugins=tuple(name.removeprefix("job_submit/") for name in _words(conf.job_submit_plugins)),
        slurmctld=_parameters(conf.slurmctld_parameters),
        accounting_type=_text(conf.accounting_storage_type),
        tracked=frozenset(_words(conf.accounting_storage_tres)),
        gpu_types=frozenset(name for node in has for name, _ in node.gpus if name),
        private_data=frozenset(_words(conf.private_data)),
        min_job_age_s=_number(conf.min_job_age),
        partitions=tuple(_partition(part) for part in partitions),
        shards=any(node.shards for node in has),
        rights=rights or Rights(),
    )


def _weights(conf: Record) -> dict[str, int]:
    """Return PriorityWeight*; those by TRES are summed."""
    weights = {name: _number(getattr(conf, attribute)) for name, attribute in WEIGHTS.items()}
    return {**weights, "TRES": _tres_weight(conf)}


def _tres_weight(conf: Record) -> int:
    """Return the sum of PriorityWeightTRES."""
    return sum(int(value) for value in _parameters(conf.priority_weight_tres).values() if value.isdigit())


def _partition(part: Record) -> PartitionSettings:
    """Return one partition's settings."""
    default, most = part.default_time, part.max_time
    return PartitionSettings(
        name=_text(part.name),
        tier=_number(part.priority_tier),
        default_min=_number(default) if isinstance(default, int) else None,
        max_min=float(_number(most)) if isinstance(most, int) else float("inf"),
    )


def _parameters(value: object) -> dict[str, str]:
    """Return a list of parameters by name; "" for a word without value."""
    given = value if isinstance(value, Mapping) else {}
    return {str(name): "" if setting is True else str(setting) for name, setting in given.items()}


def _words(value: object) -> list[str]:
    """Return a list of words."""
    return [str(word) for word in value] if isinstance(value, list | tuple) else []


def _count(amount: object) -> object:
    """Return the count of one of pyslurm's resources, which may be a bare number."""
    return getattr(amount, "count", amount)


def _number(value: object) -> int:
    """Return a number, 0 for none."""
    return int(value) if isinstance(value, int | float) else 0


def text_of(record: Record, attribute: str) -> str:
    """Return a text, "" for none; people may have written bytes in it that pyslurm cannot decode."""
    try:
        return _text(getattr(record, attribute))
    except UnicodeDecodeError as err:
        return err.object.decode("utf-8", "surrogateescape")


def _text(value: object) -> str:
    """Return a text, "" for none."""
    return "" if value is None else str(value)


def _minutes(value: object) -> int:
    """Return a time limit, INFINITE for none ("UNLIMITED")."""
    return int(value) if isinstance(value, int | float) else parse.INFINITE


def _array_task(job: Record) -> int:
    """Return the number of a split-off task; pyslurm shows None for task 0 (SLURM.md 4.1)."""
    if not _number(job.array_id) or job.array_tasks_waiting:
        return parse.NO_VAL
    return _number(job.array_task_id)

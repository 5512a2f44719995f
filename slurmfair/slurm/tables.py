"""Slurm's records as the tables of model.py. Pure: columns in, tables out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from slurmfair.model import CPU, FOREVER_S, GPU, MEM, Bools, Coded, Ints, JobTable, NodeTable, Partition
from slurmfair.slurm import parse

EXCLUSIVE = 0  # job_info's `shared` for a job that takes whole nodes
MINUTE_S = 60


@dataclass(frozen=True, slots=True)
class RawJobs:
    """Slurm's fields under Slurm's names; `reason` is the name of state_reason. A missing text is ""."""

    read_s: int
    numbers: Mapping[str, Ints]
    texts: Mapping[str, Coded]


class NodeRecord(NamedTuple):
    """One node as Slurm describes it; memory in MiB."""

    name: str
    partitions: frozenset[str]
    state: str
    gres: tuple[tuple[str, int], ...]  # ("gpu:h100", 8), ...
    used: parse.Tres
    cpus: int
    memory: int
    gpu_used: tuple[tuple[str, int], ...] = ()  # allocated GPUs by type, ("h100", 8), ...


def node_record(
    name: str, partitions: str, state: str, gres: str, allocated: str, cpus: int, memory: int
) -> NodeRecord:
    """Return a node from Slurm's texts: partitions "a,b", gres "gpu:h100:8(S:0-1)", allocated TRES."""
    return NodeRecord(
        name=name,
        partitions=frozenset(partitions.split(",")) - {""},
        state=state,
        gres=parse.gres_counts(gres),
        used=parse.tres(allocated),
        cpus=cpus,
        memory=memory,
        gpu_used=parse.typed_gpus(allocated),
    )


def partition_table(
    rows: Iterable[tuple[str, int, bool]], nodes: Iterable[NodeRecord]
) -> tuple[Partition, ...]:
    """Return the partitions from (name, tier, up) and the nodes that name them."""
    members: dict[str, set[str]] = {}
    for node in nodes:
        for name in node.partitions:
            members.setdefault(name, set()).add(node.name)
    return tuple(
        Partition(name=name, nodes=frozenset(members.get(name, ())), tier=tier, up=up)
        for name, tier, up in sorted(rows)
    )


def node_table(records: Iterable[NodeRecord]) -> NodeTable:
    """Return the nodes, sorted by name."""
    nodes = sorted(records)
    has = [parse.gres(node.gres) for node in nodes]
    used = [_used(node, parts) for node, parts in zip(nodes, has, strict=True)]
    uses = [parse.node_use(node.state, any(row)) for node, row in zip(nodes, used, strict=True)]
    total = [(parts.gpu, node.cpus, node.memory) for node, parts in zip(nodes, has, strict=True)]
    return NodeTable(
        name=tuple(node.name for node in nodes),
        partitions=tuple(node.partitions for node in nodes),
        gpu_types=tuple(parts.gpus for parts in has),
        total=np.array(total, dtype=np.int64).reshape(-1, 3),
        used=np.array(used, dtype=np.int64).reshape(-1, 3),
        gpu_used=tuple(node.gpu_used for node in nodes),
        counts=np.array([use.counts for use in uses], dtype=bool),
        free=np.array([use.free for use in uses], dtype=bool),
        draining=np.array([use.draining for use in uses], dtype=bool),
        state=tuple(node.state for node in nodes),
    )


def _used(node: NodeRecord, has: parse.Gres) -> tuple[int, int, int]:
    """Return what is allocated on a node; shards in use count as the GPUs that they take."""
    return node.used.gpu + parse.gpus_of_shards(node.used.shards, has), node.used.cpu, node.used.mem


def shards_per_gpu(records: Iterable[NodeRecord]) -> float:
    """Return the fewest shards that a GPU is cut into on any node, 0 where there are none."""
    has = [parse.gres(node.gres) for node in records]
    return min((node.shards / node.gpu for node in has if node.shards and node.gpu), default=0.0)


def job_table(
    raw: RawJobs, nodes: NodeTable, shards: float, user_name: Callable[[int, str], str]
) -> JobTable:
    """Return Slurm's jobs; `shards` is what a GPU is cut into, `user_name` names a uid (and Slurm's own text)."""
    number, text = raw.numbers, raw.texts
    state = number["job_state"]
    asked = _parsed(text["tres_req_str"], shards)
    held = _parsed(text["tres_alloc_str"], shards)
    gpu_type = _gpu_types(text["tres_req_str"], text["tres_asked"])
    exclusive = number["shared"] == EXCLUSIVE
    nodes_wanted = np.where(asked.nodes > 0, asked.nodes, number["num_nodes"])
    task = number["array_task_id"]
    pending = state & parse.BASE_STATE == parse.BaseState.PENDING
    eligible = number["eligible_time"]
    return JobTable(
        job_id=number["job_id"],
        array_id=number["array_job_id"],
        array_task=np.where(task == parse.NO_VAL, -1, task),
        het_id=number["het_job_id"],
        state=state,
        reason=text["reason"],
        reason_text=text["state_desc"],
        priority=number["priority"],
        site_factor=number["site_factor"],
        nice=number["nice"],
        submit_s=number["submit_time"],
        eligible_s=eligible,
        start_s=number["start_time"],
        end_s=number["end_time"],
        suspended_s=_suspended_s(number),
        suspend_from_s=number["suspend_time"],
        time_limit_s=_time_limit_s(number["time_limit"]),
        restarts=number["restart_cnt"],
        tasks_waiting=_tasks_waiting(text["array_task_str"]),
        tasks_throttle=np.where(number["array_max_tasks"] >= parse.NO_VAL, 0, number["array_max_tasks"]),
        task_list=text["array_task_str"],
        wanted=_whole_nodes(raw, asked.amounts, nodes_wanted, gpu_type, exclusive, nodes),
        nodes_wanted=nodes_wanted,
        held_resources=held.amounts,
        gpu_type=gpu_type,
        exclusive=exclusive,
        cron=number["cron"] != 0,
        dependent=number["dependent"] != 0,
        begin_s=np.where(pending & (eligible > raw.read_s), eligible, 0),
        user=_users(number["user_id"], text["user_name"], user_name),
        account=text["account"],
        partition=text["partition"],
        qos=text["qos"],
        name=text["name"],
        reservation=text["resv_name"],
        nodes=text["nodes"],
        comment=text["comment"],
        admin_comment=text["admin_comment"],
    )


class _Amounts(NamedTuple):
    amounts: Ints  # shape (n_jobs, 3)
    nodes: Ints


def _parsed(column: Coded, shards: float) -> _Amounts:
    """Return the amounts that a column of TRES texts names; each distinct text is read once."""
    rows = [parse.tres(text) for text in column.values]
    table = np.array([(row.gpu, row.cpu, row.mem, row.nodes, row.shards) for row in rows], dtype=np.int64)
    table = table.reshape(-1, 5)
    if shards:  # those of one node of a job share its GPUs, those of another node do not
        nodes = np.maximum(table[:, 3], 1)
        table[:, GPU] += nodes * np.ceil(table[:, 4] / (nodes * shards)).astype(np.int64)
    each = table[column.codes]
    return _Amounts(np.ascontiguousarray(each[:, :3]), each[:, 3])


def _gpu_types(requested: Coded, asked: Coded) -> Coded:
    """Return the GPU types of jobs; where accounting does not track typed GPUs, from the form of the request."""
    names: dict[str, int] = {}
    by_request, by_form = (
        np.array(
            [names.setdefault(parse.gpu_types(text), len(names)) for text in column.values], dtype=np.int32
        )
        for column in (requested, asked)
    )
    if not len(requested.codes):
        return Coded(requested.codes, ("",))
    none = names.get("", -1)
    first, second = by_request[requested.codes], by_form[asked.codes]
    return Coded(np.where(first == none, second, first), tuple(names))


def _whole_nodes(
    raw: RawJobs, wanted: Ints, nodes_wanted: Ints, gpu_type: Coded, exclusive: Bools, nodes: NodeTable
) -> Ints:
    """Return what jobs want, exclusive ones all of their nodes' GPUs and CPUs (SLURM.md 12.1).

    Slurm scales memory asked for by the CPU and leaves memory asked for by the node.
    """
    partition = raw.texts["partition"]
    sizes: dict[tuple[int, int], tuple[int, int]] = {}
    for row in np.flatnonzero(exclusive).tolist():
        place = int(partition.codes[row]), int(gpu_type.codes[row])
        if place not in sizes:
            sizes[place] = _largest_node(nodes, partition[row], gpu_type[row])
        gpus, cpus = sizes[place]
        wanted[row, GPU] = max(wanted[row, GPU], gpus * nodes_wanted[row])
        wanted[row, CPU] = max(wanted[row, CPU], cpus * nodes_wanted[row])
        if per_cpu := raw.numbers["mem_per_cpu"][row]:
            wanted[row, MEM] = per_cpu * wanted[row, CPU]
    return wanted


def _largest_node(nodes: NodeTable, partitions: str, gpu_type: str) -> tuple[int, int]:
    """Return GPUs and CPUs of the largest node that a job may get."""
    names, types = set(partitions.split(",")), set(gpu_type.split(",")) - {""}
    rows = [
        row
        for row, of_node in enumerate(nodes.partitions)
        if of_node & names and types <= {name for name, _ in nodes.gpu_types[row]}
    ]
    if not rows:
        return 0, 0
    return int(nodes.total[rows, GPU].max()), int(nodes.total[rows, CPU].max())


def _suspended_s(number: Mapping[str, Ints]) -> Ints:
    """Return the length of suspensions that have ended: time since the start that was neither run nor is open."""
    last, start = number["suspend_time"], number["start_time"]
    total = last - start - number["pre_sus_time"]
    return np.where((last > start) & (start > 0), np.maximum(total, 0), 0)


def _time_limit_s(minutes: Ints) -> Ints:
    """Return limits in seconds."""
    return np.where(minutes >= parse.NO_VAL, FOREVER_S, minutes * MINUTE_S)


def _tasks_waiting(tasks: Coded) -> Ints:
    """Return the number of waiting tasks of each record."""
    counts = np.array([parse.count_tasks(text) for text in tasks.values], dtype=np.int64)
    return counts[tasks.codes]


def _users(user_id: Ints, given: Coded, user_name: Callable[[int, str], str]) -> Coded:
    """Return the names of the users."""
    uids, first, codes = np.unique(user_id, return_index=True, return_inverse=True)
    names = tuple(user_name(int(uid), given[row]) for uid, row in zip(uids, first, strict=True))
    return Coded(codes.astype(np.int32), names)

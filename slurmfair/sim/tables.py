"""The simulated controller's records as the tables of model.py."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from slurmfair.model import Bools, Coded, Ints, JobTable, NodeTable, RunTable
from slurmfair.sim.controller import Controller
from slurmfair.sim.job import Job, Run
from slurmfair.sim.nodes import Nodes
from slurmfair.slurm.parse import BaseState, node_use

EMPTY = np.zeros(3, np.int64)


def job_table(ctl: Controller, jobs: Sequence[Job]) -> JobTable:
    """Return the records as Slurm would show them."""

    def numbers(value: Callable[[Job], int]) -> Ints:
        return np.fromiter((value(job) for job in jobs), np.int64, len(jobs))

    def flags(value: Callable[[Job], bool]) -> Bools:
        return np.fromiter((value(job) for job in jobs), np.bool_, len(jobs))

    def texts(value: Callable[[Job], str]) -> Coded:
        return coded(value(job) for job in jobs)

    return JobTable(
        job_id=numbers(lambda job: job.job_id),
        array_id=numbers(lambda job: job.array_id),
        array_task=numbers(lambda job: job.array_task),
        het_id=numbers(lambda job: job.het_id),
        state=numbers(lambda job: job.state),
        reason=texts(lambda job: job.reason),
        reason_text=texts(lambda job: job.reason_text),
        priority=numbers(lambda job: 0 if job.base == BaseState.SUSPENDED else job.priority),
        site_factor=numbers(lambda job: job.site_factor),
        nice=numbers(lambda job: job.nice),
        submit_s=numbers(lambda job: job.submit_s),
        eligible_s=numbers(lambda job: job.eligible_s),
        start_s=numbers(lambda job: job.start_s or job.planned_s),
        end_s=numbers(lambda job: job.end_s),
        suspended_s=numbers(lambda job: job.suspended_s),
        suspend_from_s=numbers(lambda job: job.suspend_from_s),
        time_limit_s=numbers(lambda job: job.spec.time_limit_s),
        restarts=numbers(lambda job: job.restarts),
        tasks_waiting=numbers(lambda job: len(job.tasks) or 1),
        tasks_throttle=numbers(ctl.throttle),
        task_list=texts(lambda job: tasks_text(job.tasks, ctl.throttle(job))),
        wanted=_triples([(job.spec.gpus, job.spec.cpus, job.spec.mem_mib) for job in jobs]),
        nodes_wanted=numbers(lambda job: job.spec.nodes),
        held_resources=_triples([_held(ctl.nodes, job) for job in jobs]),
        gpu_type=texts(lambda job: job.spec.gpu_type),
        exclusive=flags(lambda job: job.spec.exclusive),
        cron=flags(lambda job: job.spec.cron),
        dependent=flags(lambda job: bool(job.unmet)),
        begin_s=numbers(lambda job: job.begin_s if job.waits and job.begin_s > ctl.now_s else 0),
        user=texts(lambda job: job.spec.user),
        account=texts(lambda job: job.spec.account),
        partition=texts(lambda job: job.partition or job.spec.partition),
        qos=texts(lambda job: job.spec.qos),
        name=texts(lambda job: job.spec.name),
        reservation=texts(lambda job: job.spec.reservation),
        nodes=texts(lambda job: _names(ctl.nodes, job)),
        comment=texts(lambda job: job.spec.comment),
        admin_comment=texts(lambda job: job.admin_comment),
    )


def node_table(nodes: Nodes) -> NodeTable:
    """Return the nodes; who counts and who is free is judged from the state as for a real one."""
    used = nodes.total - nodes.free
    states = [_state(nodes, row) for row in range(len(nodes.specs))]
    uses = [node_use(state, bool(used[row].any())) for row, state in enumerate(states)]
    return NodeTable(
        name=tuple(spec.name for spec in nodes.specs),
        partitions=tuple(frozenset(spec.partitions) for spec in nodes.specs),
        gpu_types=tuple(tuple(sorted(spec.gpus.items())) for spec in nodes.specs),
        total=nodes.sums(nodes.total),
        used=nodes.sums(used),
        gpu_used=tuple(
            tuple((name, int(n)) for name, n in zip(nodes.types, row, strict=False) if n) for row in used
        ),
        counts=np.array([use.counts for use in uses], np.bool_),
        free=np.array([use.free for use in uses], np.bool_),
        draining=np.array([use.draining for use in uses], np.bool_),
        state=tuple(states),
    )


def _state(nodes: Nodes, row: int) -> str:
    """Return the node's state in Slurm's words; the base word is about CPUs (SLURM.md 12.2)."""
    free, cpus = nodes.free[row, -2], nodes.total[row, -2]
    base = "IDLE" if free == cpus else "ALLOCATED" if free == 0 else "MIXED"
    words = [base if nodes.up[row] else "DOWN"]
    flags = (
        ("DRAIN", nodes.drained[row]),
        ("COMPLETING", nodes.epilogs[row] > 0),
        ("PLANNED", nodes.planned[row] and nodes.up[row]),
        ("RESERVED", nodes.apart[row]),
    )
    return "+".join(words + [word for word, is_set in flags if is_set])


def run_table(runs: Sequence[Run]) -> RunTable:
    """Return runs as accounting would."""
    jobs = [run.job for run in runs]

    def numbers(values: Iterable[int]) -> Ints:
        return np.fromiter(values, np.int64, len(runs))

    return RunTable(
        job_id=numbers(job.job_id for job in jobs),
        array_id=numbers(job.array_id for job in jobs),
        array_task=numbers(job.array_task for job in jobs),
        submit_s=numbers(job.submit_s for job in jobs),
        start_s=numbers(run.start_s for run in runs),
        end_s=numbers(run.end_s for run in runs),
        suspended_s=numbers(run.suspended_s for run in runs),
        resources=np.array([run.resources for run in runs], np.int64).reshape(-1, 3),
        nodes=numbers(run.nodes for run in runs),
        state=numbers(run.state for run in runs),
        user=coded(job.spec.user for job in jobs),
        account=coded(job.spec.account for job in jobs),
        partition=coded(job.partition for job in jobs),
        qos=coded(job.spec.qos for job in jobs),
        name=coded(job.spec.name for job in jobs),
    )


def coded(texts: Iterable[str]) -> Coded:
    """Return a column of text."""
    number: dict[str, int] = {}
    codes = [number.setdefault(text, len(number)) for text in texts]
    return Coded(np.array(codes, np.int32), tuple(number))


def _triples(rows: Sequence[Sequence[int] | Ints]) -> Ints:
    return np.array(rows, np.int64).reshape(-1, 3)


def _held(nodes: Nodes, job: Job) -> Ints:
    if job.allocation is None or job.base > BaseState.SUSPENDED:
        return EMPTY
    held: Ints = nodes.sums(job.allocation.amounts).sum(axis=0)
    return held


def _names(nodes: Nodes, job: Job) -> str:
    return ranged([nodes.specs[row].name for row in job.allocation.rows]) if job.allocation else ""


def ranged(names: Sequence[str]) -> str:
    """Return sorted node names in Slurm's form: "gpu[01-02,04]" for gpu01, gpu02 and gpu04."""
    by_stem: dict[tuple[str, int], list[str]] = {}
    for name in names:
        number = re.search(r"\d*$", name)
        digits = number[0] if number else ""
        by_stem.setdefault((name[: len(name) - len(digits)], len(digits)), []).append(digits)
    return ",".join(_bracketed(stem, digits) for (stem, _), digits in by_stem.items())


def _bracketed(stem: str, digits: Sequence[str]) -> str:
    if len(digits) == 1:
        return stem + digits[0]
    width = len(digits[0])
    text = tasks_text([int(number) for number in digits], 0)
    return f"{stem}[{re.sub(r'[0-9]+', lambda number: number[0].zfill(width), text)}]"


def tasks_text(tasks: Sequence[int], throttle: int) -> str:
    """Return task numbers in Slurm's form, such as "0-3,7%2"."""
    if not tasks:
        return ""
    numbers = np.array(tasks)
    parts = np.split(numbers, np.flatnonzero(np.diff(numbers) != 1) + 1)
    text = ",".join(str(p[0]) if len(p) == 1 else f"{p[0]}-{p[-1]}" for p in parts)
    return f"{text}%{throttle}" if throttle else text

"""Nodes of the simulated cluster: what is free where, and where a job fits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from slurmfair.model import Bools, Ints
from slurmfair.sim.job import Allocation
from slurmfair.sim.spec import JobSpec, NodeSpec


class Nodes:
    """Columns of `total` and `free`: GPUs of each type in order of name, then CPUs, then memory."""

    def __init__(self, specs: Sequence[NodeSpec]) -> None:
        self.specs = tuple(sorted(specs, key=lambda spec: spec.name))
        self.row = {spec.name: row for row, spec in enumerate(self.specs)}
        self.types = tuple(sorted({name for spec in self.specs for name in spec.gpus}))
        counts = [[*(s.gpus.get(t, 0) for t in self.types), s.cpus, s.mem_mib] for s in self.specs]
        self.total: Ints = np.array(counts, np.int64).reshape(len(self.specs), len(self.types) + 2)
        self.free = self.total.copy()
        n = len(self.specs)
        self.up = np.ones(n, np.bool_)
        self.drained = np.zeros(n, np.bool_)
        self.apart = np.zeros(n, np.bool_)  # in a reservation or in maintenance
        self.planned = np.zeros(n, np.bool_)  # by backfill, for a job in front
        self.epilogs = np.zeros(n, np.int64)
        names = {name for spec in self.specs for name in spec.partitions}
        self.members = {
            name: np.array([name in spec.partitions for spec in self.specs], np.bool_) for name in names
        }

    @property
    def sound(self) -> Bools:
        """Nodes that take jobs, at the latest when their epilogs are over."""
        sound: Bools = self.up & ~self.drained & ~self.apart
        return sound

    @property
    def usable(self) -> Bools:
        """Nodes that take jobs now: not while an epilog runs (SLURM.md 12.2)."""
        usable: Bools = self.sound & (self.epilogs == 0)
        return usable

    def fitting(self, spec: JobSpec, free: Ints) -> Bools:
        """Return which nodes hold one node's part of a task, shape (..., n_nodes), given what is free of each."""
        gpus, cpus, mem_mib = (-(-amount // spec.nodes) for amount in (spec.gpus, spec.cpus, spec.mem_mib))
        have = free[..., self._gpu_columns(spec)].sum(axis=-1)
        fits: Bools = (have >= gpus) & (free[..., -2] >= cpus) & (free[..., -1] >= mem_mib)
        if spec.exclusive:
            fits &= (free == self.total).all(axis=-1)
        return fits

    def place(self, spec: JobSpec, allowed: Bools, free: Ints) -> Ints | None:
        """Return the rows of the first nodes that hold a task, None if there are too few."""
        rows = np.flatnonzero(allowed & self.fitting(spec, free))[: spec.nodes]
        return rows if len(rows) == spec.nodes else None

    def suits(self, spec: JobSpec, partition: str) -> bool:
        """Tell whether some node of the partition, empty and sound, could hold one node's part."""
        gpus, cpus, mem_mib = (-(-amount // spec.nodes) for amount in (spec.gpus, spec.cpus, spec.mem_mib))
        part = replace(spec, nodes=1, gpus=gpus, cpus=cpus, mem_mib=mem_mib)
        known = partition in self.members
        return known and self.place(part, self.members[partition], self.total) is not None

    def allocation(self, spec: JobSpec, rows: Ints, free: Ints) -> Allocation:
        """Return what a task takes of these nodes; an exclusive one takes them whole (SLURM.md 12.1)."""
        if spec.exclusive:
            return Allocation(rows, self.total[rows])
        amounts = np.zeros((len(rows), self.total.shape[1]), np.int64)
        for column, amount in ((-2, spec.cpus), (-1, spec.mem_mib)):
            amounts[:, column] = _divided(amount, spec.nodes)
        left = _divided(spec.gpus, spec.nodes)
        for column in self._gpu_columns(spec):
            amounts[:, column] = np.minimum(left, free[rows, column])
            left = left - amounts[:, column]
        return Allocation(rows, amounts)

    def take(self, allocation: Allocation) -> None:
        """Mark as used."""
        self.free[allocation.rows] -= allocation.amounts

    def give_back(self, allocation: Allocation) -> None:
        """Mark as free."""
        self.free[allocation.rows] += allocation.amounts

    def sums(self, amounts: Ints) -> Ints:
        """Return GPUs, CPUs and memory, shape (n, 3), of rows with our columns."""
        gpus = amounts[:, : len(self.types)].sum(axis=1)
        return np.column_stack((gpus, amounts[:, -2], amounts[:, -1]))

    def _gpu_columns(self, spec: JobSpec) -> list[int]:
        if not spec.gpu_type:
            return list(range(len(self.types)))
        return [column for column, name in enumerate(self.types) if name == spec.gpu_type]


def _divided(amount: int, parts: int) -> Ints:
    """Return the amount in whole parts that differ by at most one."""
    return amount // parts + (np.arange(parts) < amount % parts)

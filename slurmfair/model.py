"""The values that pass between the edges and the decisions: columns of numbers, no Slurm types.

Times are whole seconds since the epoch, 0 where Slurm has none. Resources stand in the order of
`RESOURCES`: GPUs, CPUs, MiB of memory.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Ints: TypeAlias = npt.NDArray[np.int64]
Codes: TypeAlias = npt.NDArray[np.int32]
Floats: TypeAlias = npt.NDArray[np.float64]
Bools: TypeAlias = npt.NDArray[np.bool_]
Bytes: TypeAlias = npt.NDArray[np.uint8]
Masks: TypeAlias = npt.NDArray[np.uint64]

RESOURCES = ("gres/gpu", "cpu", "mem")
GPU, CPU, MEM = range(3)

UNLIMITED = -1
FOREVER_S = 1 << 40  # a time limit nobody lives to see; stands for "no time limit"
UNSET_S = -1  # a time that has not happened yet


@dataclass(frozen=True, slots=True)
class Coded:
    """A column of text as codes into `values`, because a hundred thousand jobs share a few texts."""

    codes: Codes
    values: tuple[str, ...]

    def __getitem__(self, row: int) -> str:
        return self.values[self.codes[row]]


@dataclass(frozen=True, slots=True)
class JobTable:
    """Every job record that the cluster knows, one column a field, each of shape (n_jobs,)."""

    job_id: Ints
    array_id: Ints  # the array's id, 0 for a plain job
    array_task: Ints  # number of a split-off array task, -1 for none
    het_id: Ints  # the leader's id, 0 for a job that is not heterogeneous
    state: Ints  # Slurm's job_state: base state in the low byte, flags above
    reason: Coded  # name of the reason
    reason_text: Coded  # Slurm's free description, "" where it has none
    priority: Ints
    site_factor: Ints
    nice: Ints
    submit_s: Ints
    eligible_s: Ints
    start_s: Ints
    end_s: Ints
    suspended_s: Ints  # length of all suspensions that have ended
    suspend_from_s: Ints  # when the present suspension began, or the last one ended
    time_limit_s: Ints  # FOREVER_S for none
    restarts: Ints
    tasks_waiting: Ints  # waiting array tasks in this record; 1 for a plain job
    tasks_throttle: Ints  # array tasks that may run at once, 0 for no bound
    task_list: Coded  # waiting tasks of an array in Slurm's form, such as "4-9%2"; "" for a plain job
    wanted: Ints  # shape (n_jobs, 3): requested resources of one task
    nodes_wanted: Ints
    held_resources: Ints  # shape (n_jobs, 3): allocated resources
    gpu_type: Coded  # type asked for, "" for any
    exclusive: Bools
    cron: Bools
    dependent: Bools
    begin_s: Ints  # begin time asked for by the user, 0 for none
    user: Coded
    account: Coded
    partition: Coded  # as Slurm writes it, "a,b" for several
    qos: Coded
    name: Coded
    reservation: Coded
    nodes: Coded  # allocated nodes in Slurm's range form
    comment: Coded
    admin_comment: Coded

    def __len__(self) -> int:
        return len(self.job_id)


@dataclass(frozen=True, slots=True)
class NodeTable:
    """Every node, one column a field, shape (n_nodes,)."""

    name: tuple[str, ...]
    partitions: tuple[frozenset[str], ...]
    gpu_types: tuple[tuple[tuple[str, int], ...], ...]  # configured GPUs by type, sorted by type
    total: Ints  # shape (n_nodes, 3): configured
    used: Ints  # shape (n_nodes, 3): allocated
    gpu_used: tuple[tuple[tuple[str, int], ...], ...]  # allocated GPUs by type
    counts: Bools  # part of the capacity
    free: Bools  # may take a job now
    draining: Bools  # only what is allocated counts
    state: tuple[str, ...]  # as Slurm shows it


@dataclass(frozen=True, slots=True)
class Partition:
    name: str
    nodes: frozenset[str]
    tier: int
    up: bool


@dataclass(frozen=True, slots=True)
class Reading:
    """What one look at the cluster gave."""

    cluster: str
    now_s: int
    jobs: JobTable
    nodes: NodeTable
    partitions: tuple[Partition, ...]


class Outcome(IntEnum):
    """What became of a waiting entry in a pass (SEMANTICS 2)."""

    BEHIND = 0  # not tried: another entry of its quota stands in front
    STARTS = 1
    LIMIT = 2
    CAPACITY = 3
    PLACEMENT = 4
    HELD_BACK = 5
    PARKED = 6


class Closes(IntEnum):
    """What a failed attempt of an entry closes (DESIGN 3a)."""

    NOTHING = 0
    LANE = 1
    QUOTA = 2


@dataclass(frozen=True, slots=True)
class Quotas:
    """The tree of one pool as arrays, shape (n_quotas,); a parent stands before its children."""

    path: tuple[str, ...]
    parent: Codes  # index, -1 at the top
    deserved: Floats  # shape (n_quotas, n_resources)
    limit: Floats  # shape (n_quotas, n_resources), inf for none
    weight: Floats
    priority: Ints
    resources: tuple[int, ...]  # which of RESOURCES are divided; the first is the main one

    def __len__(self) -> int:
        return len(self.path)


@dataclass(frozen=True, slots=True)
class Room:
    """What a pool can hold, nodes grouped into classes (same partitions, same GPU type, same size).

    `shape[c, f]` counts the usable nodes of class c that have f units of the main resource free.
    """

    capacity: Ints  # shape (3,): usable now
    configured: Ints  # shape (3,): with the nodes that are down
    free: Ints  # shape (3,)
    class_name: tuple[str, ...]
    class_configured: Ints  # shape (n_classes,): main resource
    class_nodes: Ints  # shape (n_classes,): configured nodes
    class_node_size: Ints  # shape (n_classes,): main resource of one node
    shape: Ints  # shape (n_classes, largest node + 1)


@dataclass(frozen=True, slots=True)
class Queue:
    """The waiting entries of one pool, ids ascending; one column a field, shape (n,).

    An entry is a job, an array's waiting tasks, or a whole heterogeneous job.
    """

    entry_id: Ints
    leaf: Codes  # index into the pool's Quotas
    job_priority: Ints  # 1 to 9
    order_s: Ints
    waiting_since_s: Ints
    first_attempt_s: Ints  # UNSET_S before the first failed attempt
    need: Ints  # shape (n, 3): of one task; of all components together
    nodes: Ints  # of one task
    tasks: Ints  # tasks that may start now
    time_limit_s: Ints
    classes: Masks  # bit c: may run on node class c
    lane: Codes  # code of the GPU type asked for
    unplaced: Bools  # was open for place_grace and Slurm did not start it
    leading_since_s: Ints | None = None  # since when first of its lane at the cap; None: not remembered
    promised: Bools | None = None  # the pass before reserved for it; None: nobody

    def __len__(self) -> int:
        return len(self.entry_id)


@dataclass(frozen=True, slots=True)
class Decision:
    """What a pass over one pool found, shape (n,) in the order of its Queue."""

    outcome: Bytes  # Outcome
    starts: Ints  # tasks admitted
    attempt: Ints  # when it was tried in the pass, an array for the last time; -1 for never
    place_open: (
        Ints  # place among the first that wait for room, as quotas share what becomes free; -1 for others
    )
    blocker: Ints  # row of the entry it stands behind or is held back for, -1 for none
    reserved: Bools
    room_s: Ints  # of those: when there could be room by the ends of running jobs; -1 for others and where not judged
    effective: Floats  # effective priority
    position: Ints  # place in its quota's order, from 1; 0 for parked
    first_attempt_s: Ints
    leading_since_s: Ints  # UNSET_S for all that do not lead their low lane at the cap
    may_start: Ints  # tasks that Slurm may start until the next pass, 0 for an entry that must be held
    allocated: Floats = field(repr=False)  # shape (n_quotas, n_resources): after the pass

    @property
    def open(self) -> Bools:
        """Which entries may be started by Slurm now, shape (n,)."""
        return np.asarray(self.may_start > 0)


@dataclass(frozen=True, slots=True)
class Change:
    """One write to one job record. A hold with its tag, and a release with rank and tag, are one request each.

    `cancel` ends what of the job waits, of an array the tasks that have not started; nothing else goes with it. `rank` is the site factor, or the priority under `channel: priority`. `tag` is the whole admin comment to
    write (see slurm.parse.with_tag), None to leave it. `throttle` is how many tasks of an array may run at once,
    0 for no bound, None to leave it.
    """

    job_id: int
    hold: bool = False
    release: bool = False
    rank: int | None = None
    tag: str | None = None
    throttle: int | None = None
    cancel: bool = False
    why: str = ""


@dataclass(frozen=True, slots=True)
class RunTable:
    """Runs of jobs from accounting, one column a field, shape (n_runs,). A requeued job has several."""

    job_id: Ints
    array_id: Ints  # 0 for a plain job
    array_task: Ints  # -1 for none
    submit_s: Ints
    start_s: Ints
    end_s: Ints  # 0 while it runs
    suspended_s: Ints
    resources: Ints  # shape (n_runs, 3): allocated
    nodes: Ints
    state: Ints  # as JobTable.state
    user: Coded
    account: Coded
    partition: Coded
    qos: Coded
    name: Coded

    def __len__(self) -> int:
        return len(self.job_id)

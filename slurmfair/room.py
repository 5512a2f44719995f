"""The room of a pool: its nodes grouped into classes, so that no job is ever compared with every node."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slurmfair.config import Pool
from slurmfair.model import GPU, Bools, Ints, JobTable, Masks, NodeTable, Room

MAX_CLASSES = 64  # bits of a mask
ANY = ""  # the type of a part that is a whole node

Key = tuple[tuple[str, ...], str, int, tuple[str, ...]]  # partitions, type, size, all types of the node


@dataclass(frozen=True, slots=True)
class NodeClasses:
    """Parts of nodes that are alike: same partitions of the pool, same GPU type, same size.

    A node with several GPU types is a part for each type, and one more for jobs that take any type.
    Parts of nodes past the 64th class are joined to the last one.
    """

    main: int  # the resource that is divided, an index into RESOURCES
    partitions: tuple[frozenset[str], ...]
    gpu_type: tuple[str, ...]
    node_types: tuple[frozenset[str], ...]  # all types of the nodes that the parts belong to
    of_part: Ints  # class of each part
    total: Ints  # shape (n_parts,): main resource
    free: Ints
    usable: Bools
    node_totals: Ints  # shape (n_classes, 3): the largest node of each class
    capacity: Ints  # shape (3,)
    configured: Ints
    idle: Ints

    def largest_node(self, masks: Masks) -> Ints:
        """Return the largest node that each mask admits, shape (n, 3)."""
        distinct, place = np.unique(masks, return_inverse=True)
        sizes = np.zeros((len(distinct), 3), dtype=np.int64)
        for i, mask in enumerate(distinct.tolist()):
            chosen = [c for c in range(len(self.gpu_type)) if mask >> c & 1]
            if chosen:
                sizes[i] = self.node_totals[chosen].max(axis=0)
        return sizes[place.reshape(-1)]


@dataclass(frozen=True, slots=True)
class _Part:
    key: Key
    total: int
    free: int
    usable: bool
    node: int


def node_classes(pool: Pool, nodes: NodeTable) -> NodeClasses:
    """Return the classes of the pool's nodes and what they hold."""
    main = pool.resources[0]
    own = frozenset(pool.partitions)
    mine = [i for i, partitions in enumerate(nodes.partitions) if partitions & own]
    parts = [part for i in mine for part in _parts(nodes, i, own, main)]
    keys = sorted({part.key for part in parts})
    index = {key: min(i, MAX_CLASSES - 1) for i, key in enumerate(keys)}
    kept = keys[:MAX_CLASSES]
    of_part = np.asarray([index[part.key] for part in parts], dtype=np.int64)
    node_totals = np.zeros((len(kept), 3), dtype=np.int64)
    for part, place in zip(parts, of_part, strict=True):
        size = nodes.total[part.node].copy()
        size[main] = part.total
        np.maximum(node_totals[place], size, out=node_totals[place])
    chosen = np.asarray(mine, dtype=np.int64)
    counted = np.where(nodes.counts[chosen, None], nodes.total[chosen], 0)
    draining = np.where(nodes.draining[chosen, None], nodes.used[chosen], 0)
    left = np.maximum(0, nodes.total[chosen] - nodes.used[chosen])
    return NodeClasses(
        main=main,
        partitions=tuple(frozenset(key[0]) for key in kept),
        gpu_type=tuple(key[1] for key in kept),
        node_types=tuple(frozenset(key[3]) for key in kept),
        of_part=of_part,
        total=np.asarray([part.total for part in parts], dtype=np.int64),
        free=np.asarray([part.free for part in parts], dtype=np.int64),
        usable=np.asarray([part.usable for part in parts], dtype=np.bool_),
        node_totals=node_totals,
        capacity=np.where(nodes.draining[chosen, None], draining, counted).sum(axis=0).astype(np.int64),
        configured=nodes.total[chosen].sum(axis=0).astype(np.int64),
        idle=np.where(nodes.free[chosen, None], left, 0).sum(axis=0).astype(np.int64),
    )


def _parts(nodes: NodeTable, i: int, own: frozenset[str], main: int) -> list[_Part]:
    partitions = tuple(sorted(nodes.partitions[i] & own))
    usable = bool(nodes.free[i])
    types = nodes.gpu_types[i] if main == GPU else ()
    names = tuple(kind for kind, _ in types)
    total, used = int(nodes.total[i, main]), int(nodes.used[i, main])
    name = names[0] if len(names) == 1 else ANY
    whole = _Part((partitions, name, total, names), total, max(0, total - used), usable, i)
    if len(names) < 2:
        return [whole]
    taken = dict(nodes.gpu_used[i])
    return [whole] + [
        _Part((partitions, kind, count, names), count, max(0, count - taken.get(kind, 0)), usable, i)
        for kind, count in types
    ]


def class_masks(pool: Pool, classes: NodeClasses, jobs: JobTable) -> Masks:
    """Return which classes each record may run on, one bit a class, shape (n_jobs,)."""
    width = max(1, len(jobs.gpu_type.values))
    pair = jobs.partition.codes.astype(np.int64) * width + jobs.gpu_type.codes
    distinct, place = np.unique(pair, return_inverse=True)
    masks = [
        _mask(pool, classes, jobs.partition.values[code // width], jobs.gpu_type.values[code % width])
        for code in distinct.tolist()
    ]
    return np.asarray(masks, dtype=np.uint64)[place.reshape(-1)]


def _mask(pool: Pool, classes: NodeClasses, partitions: str, gpu_type: str) -> int:
    asked = frozenset(partitions.split(",")) & frozenset(pool.partitions)
    types = frozenset(gpu_type.split(",")) if gpu_type and classes.main == GPU else frozenset()
    reached = [c for c, where in enumerate(classes.partitions) if where & asked]
    suited = [c for c in reached if _suits(classes, c, types)]
    if not suited and len(types) > 1:  # no node has them all: spread over nodes of one type each
        suited = [c for c in reached if classes.gpu_type[c] in types]
    return sum(1 << c for c in suited)


def _suits(classes: NodeClasses, c: int, types: frozenset[str]) -> bool:
    """Whether one node of the class can serve a job that asks for these GPU types, none of them for any."""
    several = len(classes.node_types[c]) > 1
    whole = not several or classes.gpu_type[c] == ANY
    if len(types) == 1:
        return classes.gpu_type[c] in types
    return whole and types <= classes.node_types[c]


def room_of(pool: Pool, classes: NodeClasses) -> Room:
    """Return the pool's room for a pass: totals, and how many nodes of each class have how much free."""
    n = len(classes.gpu_type)
    largest = int(classes.total.max(initial=0))
    shape = np.zeros((n, largest + 1), dtype=np.int64)
    np.add.at(shape, (classes.of_part[classes.usable], classes.free[classes.usable]), 1)
    return Room(
        capacity=classes.capacity,
        configured=classes.configured,
        free=classes.idle,
        class_name=tuple(
            f"{'+'.join(sorted(where))}:{kind or 'any'}"
            for where, kind in zip(classes.partitions, classes.gpu_type, strict=True)
        ),
        class_configured=np.bincount(classes.of_part, weights=classes.total, minlength=n).astype(np.int64),
        class_nodes=np.bincount(classes.of_part, minlength=n).astype(np.int64),
        class_node_size=classes.node_totals[:, classes.main].copy(),
        shape=shape,
    )

"""What can be said of a policy only when the cluster is known: partitions, shared nodes, capacity."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from slurmfair.config import Config, Pool
from slurmfair.config_kinds import number_text
from slurmfair.model import RESOURCES, NodeTable, Partition
from slurmfair.problems import nearest
from slurmfair.slurm.settings import Wishes


class Findings(NamedTuple):
    """What stands against a policy on this cluster: errors forbid using it, warnings do not."""

    errors: list[str]
    warnings: list[str]


def wishes_of(config: Config) -> Wishes:
    """Return what the policy asks of the cluster's settings."""
    return Wishes(
        partitions=frozenset(name for pool in config.pools for name in pool.partitions),
        channel=config.ranks.channel,
        interval_s=config.cycle.interval_s,
        window=config.cycle.window,
        high=config.ranks.high,
    )


def check_against_cluster(config: Config, partitions: Sequence[Partition], nodes: NodeTable) -> Findings:
    """Return what the policy asks of the cluster in vain, each finding with its key path and the way out."""
    nodes_of = {partition.name: partition.nodes for partition in partitions}
    errors = [*_unknown_partitions(config, nodes_of), *_shared_nodes(config, nodes_of)]
    return Findings(errors, [*_unmanaged_sharers(config, nodes_of), *_beyond_capacity(config, nodes)])


def _unknown_partitions(config: Config, nodes_of: dict[str, frozenset[str]]) -> Iterator[str]:
    for pool in config.pools:
        for name in pool.partitions:
            if name not in nodes_of:
                yield f"pools.{pool.name}.partitions: Slurm has no partition {name}; {nearest(name, nodes_of)}"


def _shared_nodes(config: Config, nodes_of: dict[str, frozenset[str]]) -> Iterator[str]:
    """A node is divided once, so its partitions belong to one pool."""
    pools = [(pool, _nodes(pool, nodes_of)) for pool in config.pools]
    for index, (pool, nodes) in enumerate(pools):
        for other, others in pools[:index]:
            if shared := sorted(nodes & others):
                yield (
                    f"pools.{pool.name}.partitions: shares {_listed(shared)} with pool {other.name}; "
                    "put partitions that share nodes into one pool"
                )


def _unmanaged_sharers(config: Config, nodes_of: dict[str, frozenset[str]]) -> Iterator[str]:
    """Jobs of a partition outside take nodes that the pool counts on."""
    managed = {name for pool in config.pools for name in pool.partitions}
    for pool in config.pools:
        for name, nodes in nodes_of.items():
            shared = sorted(nodes & _nodes(pool, nodes_of))
            if shared and name not in managed:
                yield (
                    f"pools.{pool.name}.partitions: partition {name} uses {_listed(shared)} too and is in no pool; "
                    "add it, or its jobs take what the quotas are promised"
                )


def _nodes(pool: Pool, nodes_of: dict[str, frozenset[str]]) -> frozenset[str]:
    return frozenset[str]().union(*(nodes_of.get(name, frozenset()) for name in pool.partitions))


def _beyond_capacity(config: Config, nodes: NodeTable) -> Iterator[str]:
    """Deserved above capacity is allowed and not scaled (SEMANTICS 7.4), but somebody must know."""
    for pool in config.pools:
        here = np.array([not names.isdisjoint(pool.partitions) for names in nodes.partitions], np.bool_)
        capacity = nodes.total[here].sum(axis=0) if here.size else np.zeros(len(RESOURCES))
        for position, resource in enumerate(pool.resources):
            deserved = sum(quota.deserved[position] for quota in pool.quotas if quota.parent < 0)
            if deserved > capacity[resource]:
                name = RESOURCES[resource]
                yield (
                    f"pools.{pool.name}.quotas: deserved {number_text(deserved)} > capacity "
                    f"{number_text(float(capacity[resource]))} {name}; not everybody can have what he deserves"
                )


def _listed(names: list[str]) -> str:
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more nodes" if len(names) > 4 else "")

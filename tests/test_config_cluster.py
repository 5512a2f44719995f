"""What a policy asks of a cluster in vain (CASES 26)."""

from __future__ import annotations

from slurmfair.config_cluster import Findings, check_against_cluster
from slurmfair.config_file import parse_policy
from slurmfair.model import Partition
from tests.tables import nodes_of

POLICY = """
version: 1
pools:
  h100: {partitions: [train, interactive], resource: [gres/gpu, cpu], quotas: {org: {match: {accounts: [org]}, deserved: 6}, prot: {match: {}, deserved: {gres/gpu: 4, cpu: 8}}}}
  cpu: {partitions: [cpu], resource: cpu, quotas: {all: {match: {}, deserved: 64}}}
"""


def findings(**partitions: set[str]) -> Findings:
    """Return what stands against the policy; nodes have 7 GPUs, but those called c none, and 64 CPUs."""
    table = [Partition(name, frozenset(nodes), 1, True) for name, nodes in partitions.items()]
    rows = [
        {
            "name": node,
            "partitions": [name for name, nodes in partitions.items() if node in nodes],
            "gpus": {} if node.startswith("c") else {"h100": 7},
        }
        for node in sorted(set().union(*partitions.values()))
    ]
    return check_against_cluster(parse_policy(POLICY, "p.yaml"), table, nodes_of(*rows))


def test_a_cluster_that_can_bear_the_policy_has_no_findings() -> None:
    assert findings(train={"g1", "g2"}, interactive={"g1"}, cpu={"c1"}) == Findings([], [])


def test_partitions_of_two_pools_must_not_share_nodes() -> None:
    nodes = {f"g{i}" for i in range(9)}
    found = findings(train=nodes, interactive=set(), cpu={"c1", *nodes})
    assert found.errors == [
        "pools.cpu.partitions: shares g0, g1, g2, g3 and 5 more nodes with pool h100; "
        "put partitions that share nodes into one pool"
    ]


def test_a_partition_that_slurm_does_not_have_gets_the_nearest_name() -> None:
    found = findings(trian={"g1", "g2"}, interactive={"g1", "g2"}, cpu={"c1"})
    assert found.errors == ["pools.h100.partitions: Slurm has no partition train; did you mean trian?"]


def test_deserved_above_capacity_is_a_warning() -> None:
    assert findings(train={"g1"}, interactive={"g1"}, cpu={"c1"}).warnings == [
        "pools.h100.quotas: deserved 10 > capacity 7 gres/gpu; not everybody can have what he deserves"
    ]


def test_an_unmanaged_partition_on_the_nodes_of_a_pool_is_a_warning() -> None:
    found = findings(train={"g1", "g2"}, interactive={"g1"}, cpu={"c1"}, debug={"g2"})
    assert found.warnings == [
        "pools.h100.partitions: partition debug uses g2 too and is in no pool; "
        "add it, or its jobs take what the quotas are promised"
    ]


def test_a_cluster_without_nodes_gives_warnings_not_errors() -> None:
    found = findings(train=set(), interactive=set(), cpu=set())
    assert (found.errors, len(found.warnings)) == ([], 3)

"""A small cluster in memory with Slurm's rules, for tests and for `make run` without root."""

from slurmfair.sim.cluster import SimCluster
from slurmfair.sim.spec import After, JobSpec, NodeSpec, Rules

__all__ = ["After", "JobSpec", "NodeSpec", "Rules", "SimCluster"]

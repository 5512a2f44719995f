"""A cluster in memory that the daemon's own cycle runs against."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from slurmfair.model import FOREVER_S, Change, Partition, Reading, RunTable
from slurmfair.sim.controller import Controller
from slurmfair.sim.job import Job
from slurmfair.sim.people import Admin, Owner
from slurmfair.sim.spec import JobSpec, NodeSpec, Rules
from slurmfair.sim.tables import job_table, node_table, run_table
from slurmfair.sim.updates import Level, update
from slurmfair.slurm.cluster import Answer
from slurmfair.slurm.faults import fault, result_of_write
from slurmfair.slurm.parse import BaseState
from slurmfair.slurm.requests import Channel, requests_of
from slurmfair.slurm.settings import PartitionSettings, Settings

ACCOUNT = "slurmfair"
CONNECT_FAILURE = 1800


class SimCluster:
    """See slurm.cluster.Cluster. Time stands still between calls of `advance`."""

    def __init__(
        self,
        nodes: Sequence[NodeSpec],
        *,
        tiers: Mapping[str, int] | None = None,
        rules: Rules | None = None,
        channel: Channel = "site_factor",
        start_s: int = 1_800_000_000,
    ) -> None:
        """Build a cluster; partitions are those that its nodes name, of tier 1 unless `tiers` says otherwise."""
        self.ctl = Controller(nodes, tiers or {}, rules or Rules(), start_s)
        self.owner = Owner(self.ctl)
        self.admin = Admin(self.ctl)
        self.away = False  # slurmctld does not answer
        self.level: Level = "Administrator"  # of the daemon's account
        self.writes: list[Change] = []  # all that arrived, also those that Slurm refused
        self._channel: Channel = channel

    # What the daemon needs

    def read(self) -> Reading:
        """Return jobs, nodes and partitions as they are now."""
        self._reach("cannot read the cluster")
        ctl = self.ctl
        partitions = tuple(
            Partition(name, self._members(name), state.tier, state.up)
            for name, state in ctl.partitions.items()
        )
        return Reading(
            "simulated",
            ctl.now_s,
            job_table(ctl, [ctl.jobs[job_id] for job_id in sorted(ctl.jobs)]),
            node_table(ctl.nodes),
            partitions,
        )

    def write(self, change: Change) -> Answer:
        """Carry out one change with Slurm's own effects and errors."""
        self._reach("cannot write")
        self.writes.append(change)
        error = sent = 0
        for request in requests_of(change, self._channel):
            error = update(self.ctl, change.job_id, request, self.level)
            sent += 1
            if error:
                break
        result = result_of_write(error)
        if result is None:
            raise fault(error, "refused", f"cannot change job {change.job_id}", ACCOUNT)
        return Answer(
            result, took_s=0.0, requests=sent, error=error, message=f"error {error}" if error else ""
        )

    def settings(self) -> Settings:
        """Return the settings that matter, as recommended where the simulation has no choice."""
        self._reach("cannot read the settings")
        rules = self.ctl.rules
        longest_min = rules.max_time_s / 60 if rules.max_time_s < FOREVER_S else float("inf")
        scheduler = {
            "defer": "",
            "bf_interval": str(rules.bf_interval_s),
            "bf_max_job_test": str(rules.bf_max_job_test),
            "bf_window": str(rules.bf_window_s // 60),
            "requeue_delay": str(rules.requeue_delay_s),
        }
        return Settings(
            cluster="simulated",
            version="26.05.5",
            pyslurm="26.5.0",
            own_edge=True,
            account=ACCOUNT,
            is_slurm_user=False,
            admin_level=self.level,
            priority_type="priority/multifactor",
            priority_flags=frozenset(),
            site_factor_plugin="",
            weights=dict(rules.weights),
            calc_period_s=rules.calc_period_s,
            scheduler_type="sched/backfill" if rules.backfill else "sched/builtin",
            scheduler=scheduler,
            select_type="select/cons_tres",
            submit_plugins=("lua",) if self.ctl.gated else (),
            slurmctld={},
            accounting_type="accounting_storage/slurmdbd",
            tracked=frozenset({"gres/gpu", *(f"gres/gpu:{name}" for name in self.ctl.nodes.types)}),
            gpu_types=frozenset(self.ctl.nodes.types),
            private_data=frozenset(),
            min_job_age_s=rules.min_job_age_s,
            partitions=tuple(
                PartitionSettings(name, state.tier, 60.0, longest_min)
                for name, state in self.ctl.partitions.items()
            ),
        )

    def runs(self, since_s: int, until_s: int, progress: Callable[[float], None] | None = None) -> RunTable:
        """Return all runs that overlap the window."""
        self._reach("cannot read the accounting")
        ctl = self.ctl
        going = [
            ctl.run_of(job, 0, job.state)
            for job in ctl.jobs.values()
            if job.base in (BaseState.RUNNING, BaseState.SUSPENDED)
        ]
        found = [
            run
            for run in [*ctl.ended_runs, *going]
            if run.start_s < until_s and (run.end_s == 0 or run.end_s > since_s)
        ]
        if progress:
            progress(1.0)
        return run_table(found)

    def close(self) -> None:
        """Nothing to let go of."""

    def _reach(self, doing: str) -> None:
        if self.away:
            raise fault(CONNECT_FAILURE, "Unable to contact slurm controller", doing, ACCOUNT)

    def _members(self, partition: str) -> frozenset[str]:
        specs, member = self.ctl.nodes.specs, self.ctl.nodes.members[partition]
        return frozenset(specs[row].name for row in np.flatnonzero(member))

    # Time

    @property
    def now_s(self) -> int:
        """The cluster's time."""
        return self.ctl.now_s

    def advance(self, by_s: int) -> None:
        """Let so many seconds pass."""
        self.ctl.advance(self.ctl.now_s + by_s)

    @property
    def starts(self) -> list[tuple[int, int]]:
        """Time and job id of every start, in order."""
        return self.ctl.starts

    def submit(self, spec: JobSpec) -> int:
        """sbatch; return the job's id. Raises ValueError for what no node could ever hold."""
        return self.ctl.submit(spec).job_id

    def submit_het(self, specs: Sequence[JobSpec]) -> list[int]:
        """sbatch with components; return their ids, the leader's first."""
        return [job.job_id for job in self.ctl.submit_het(specs)]

    def job(self, job_id: int) -> Job:
        """Return a record; Slurm forgets ended ones after MinJobAge."""
        return self.ctl.jobs[job_id]

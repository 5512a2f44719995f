"""The real cluster: reads through our own edge and pyslurm, writes one request at a time.

The only module that imports pyslurm, and it does so when a cluster is opened, not before.
"""

from __future__ import annotations

import importlib
import os
import pwd
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import ModuleType

from slurmfair.errors import SlurmRefused
from slurmfair.model import Change, Reading, RunTable
from slurmfair.slurm import accounting, attributes, faults, tables
from slurmfair.slurm.cluster import Answer, Result
from slurmfair.slurm.edge import Edge, NodeEdge, OwnEdge, OwnNodes, PyslurmEdge, PyslurmNodes
from slurmfair.slurm.requests import Channel, requests_of
from slurmfair.slurm.settings import Settings

CANCEL_S = 10  # how long Slurm's own command may take


class LiveCluster:
    """The cluster that this host's slurm.conf names; see `cluster.Cluster`."""

    def __init__(self, channel: Channel = "site_factor", own_edge: bool = True) -> None:
        """Load pyslurm. Ranks go out through the given channel; without `own_edge` all goes through pyslurm."""
        os.environ["SLURM_BITSTR_LEN"] = "0"  # else Slurm cuts lists of array tasks (SLURM.md 4.1)
        self._pyslurm = load_pyslurm()
        self._edge, self._accounting = choose_edges(self._pyslurm, own_edge)
        self._nodes = choose_nodes(self._pyslurm, own_edge)
        self._channel: Channel = channel
        self._cluster = ""

    @property
    def edge(self) -> str:
        """How jobs are read: "slurmfair" or "pyslurm"."""
        return self._edge.name

    def read(self) -> Reading:
        """Return jobs, nodes and partitions; jobs come first, so that an absent slurmctld never blocks pyslurm."""
        with self._faults("cannot read the cluster"):
            raw = self._edge.jobs()
            cluster = self._cluster_name()
            records, partitions = self._nodes.load()
        nodes = tables.node_table(records)
        return Reading(
            cluster=cluster,
            now_s=self._edge.now_s(),
            jobs=tables.job_table(raw, nodes, tables.shards_per_gpu(records), user_name),
            nodes=nodes,
            partitions=tables.partition_table(partitions, records),
        )

    def write(self, change: Change) -> Answer:
        """Carry out one change; may be called from several threads."""
        started_s = time.perf_counter()
        error = sent = 0
        for request in requests_of(change, self._channel):
            if request.cancel:
                return cancel_waiting(change.job_id)
            error = self._edge.update(change.job_id, request)
            sent += 1
            if error:
                break
        message = self._edge.error_text(error) if error else ""
        result = faults.result_of_write(error)
        if result is None:
            raise faults.fault(error, message, f"cannot change job {change.job_id}", own_account())
        return Answer(result, time.perf_counter() - started_s, sent, error, message)

    def settings(self) -> Settings:
        """Return the settings that matter to us, as the cluster runs now."""
        with self._faults("cannot read the settings"):
            rights = self._edge.rights()  # first, as it keeps no lock while it waits
            conf = self._pyslurm.slurmctld.Config.load()
            partitions = tuple(self._pyslurm.Partitions.load().values())
            nodes, _ = self._nodes.load()
        return attributes.settings(
            conf,
            partitions,
            nodes,
            pyslurm=str(self._pyslurm.__version__),
            own_edge=isinstance(self._edge, OwnEdge),
            account=own_account(),
            uid=os.geteuid(),
            rights=rights,
        )

    def runs(self, since_s: int, until_s: int, progress: Callable[[float], None] | None = None) -> RunTable:
        """Return all runs of jobs that overlap the window, with true start and end."""
        with self._faults("cannot read accounting"):
            return accounting.all_runs(self._accounting, self._cluster_name(), since_s, until_s, progress)

    def close(self) -> None:
        """Let go of connections."""
        self._accounting.close()

    def _cluster_name(self) -> str:
        """Return the name of the cluster, which cannot change while slurmctld runs."""
        if not self._cluster:
            self._cluster = str(self._pyslurm.slurmctld.Config.load().cluster_name)
        return self._cluster

    @contextmanager
    def _faults(self, doing: str) -> Iterator[None]:
        """Turn errors of Slurm into ours."""
        try:
            yield
        except self._pyslurm.RPCError as err:
            raise faults.fault(int(err.errno), str(err.msg), doing, own_account()) from err
        except OSError as err:
            number = faults.ANY_ERROR if err.errno is None else err.errno
            raise faults.fault(number, err.strerror or str(err), doing, own_account()) from err


def cancel_waiting(job_id: int) -> Answer:
    """Cancel what of a job waits. Slurm's own command does: a signal to an array's number would end running tasks too.

    slurmctld itself looks for waiting tasks (`--ctld`), and the command succeeds when there are none left.
    """
    started_s = time.perf_counter()
    argv = ["scancel", "--ctld", "--quiet", "--state=PENDING", str(job_id)]
    try:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=CANCEL_S, check=False
        )
        said = done.stderr.decode("utf-8", "replace").strip()
        failed = (said or f"scancel ended with status {done.returncode}") if done.returncode else ""
    except (OSError, subprocess.TimeoutExpired) as err:
        failed = str(err)
    result = Result.SKIP if failed else Result.OK
    return Answer(
        result, time.perf_counter() - started_s, error=faults.ANY_ERROR if failed else 0, message=failed
    )


def load_pyslurm() -> ModuleType:
    """Return pyslurm, which reads slurm.conf and initialises Slurm's library."""
    try:
        pyslurm: ModuleType = importlib.import_module("pyslurm")
    except ImportError as err:
        raise SlurmRefused(
            f"pyslurm cannot be loaded ({err}); install the one for the cluster's Slurm release,"
            " for example: pip install 'pyslurm==25.11.*'"
        ) from err
    return pyslurm


def choose_edges(pyslurm: ModuleType, own_edge: bool) -> tuple[Edge, accounting.Source]:
    """Return our own edges, pyslurm's where ours were not built or are not wanted."""
    if own_edge:
        try:
            return OwnEdge(), accounting.OwnAccounting()
        except ModuleNotFoundError:
            pass  # built without Slurm's headers: pyslurm does
        except ImportError as err:
            raise SlurmRefused(
                f"slurmfair's edge to Slurm does not fit the library that is installed ({err});"
                " reinstall pyslurm and slurmfair"
            ) from err
    return PyslurmEdge(pyslurm), accounting.PyslurmAccounting(pyslurm)


def choose_nodes(pyslurm: ModuleType, own_edge: bool) -> NodeEdge:
    """Return our own edge for nodes, pyslurm's where ours was not built, as with older releases of Slurm."""
    if own_edge:
        with suppress(ModuleNotFoundError):
            return OwnNodes()
    return PyslurmNodes(pyslurm)


KNOWN_USERS: dict[int, str] = {}


def user_name(uid: int, given: str) -> str:
    """Return the name of a user: this host's, else the one that Slurm gives, else the number."""
    if uid not in KNOWN_USERS:
        try:
            KNOWN_USERS[uid] = pwd.getpwuid(uid).pw_name
        except KeyError:  # asked again next time: the directory may be away
            return given or str(uid)
    return KNOWN_USERS[uid]


def own_account() -> str:
    """Return the account that we run as."""
    return user_name(os.geteuid(), "")

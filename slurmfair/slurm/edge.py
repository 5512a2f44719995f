"""The two ways to jobs: our own Cython on libslurmfull, and pyslurm where ours is not built."""

from __future__ import annotations

import errno
import time
from types import ModuleType
from typing import TYPE_CHECKING, Protocol

import numpy as np

from slurmfair.errors import SlurmRefused
from slurmfair.model import Coded
from slurmfair.slurm import attributes, faults
from slurmfair.slurm.requests import Request
from slurmfair.slurm.settings import Rights
from slurmfair.slurm.tables import NodeRecord, RawJobs, node_record

if TYPE_CHECKING:
    from slurmfair.slurm._jobs import Jobs

FULL_READ_S = 30.0  # "nothing has changed" is believed for so long, in case slurmctld's clock was set back


class Edge(Protocol):
    """A way to read all jobs and to update one."""

    name: str

    def jobs(self) -> RawJobs:
        """Return all jobs of the cluster."""

    def now_s(self) -> int:
        """Return the time on the clock by which `jobs` are dated."""

    def update(self, job_id: int, request: Request) -> int:
        """Send one request; return Slurm's error number, 0 for success."""

    def error_text(self, number: int) -> str:
        """Return Slurm's own words for an error."""

    def rights(self) -> Rights | None:
        """Return what users may do, None where it cannot be read."""


class OwnEdge:
    """No Python lock is held during a request, and nothing is read when nothing has changed."""

    name = "slurmfair"

    def __init__(self) -> None:
        """Load our edge; pyslurm must be loaded before. Raises ModuleNotFoundError where it was not built."""
        import slurmfair.slurm._jobs as _jobs

        if not _jobs.fits_library():
            major, minor = _jobs.built_for()
            raise SlurmRefused(
                f"slurmfair's edge to Slurm was built for another release than the one installed now"
                f" ({major}.{minor:02}): reinstall pyslurm and slurmfair"
            )
        self._own = _jobs
        self._raw: RawJobs | None = None
        self._read_at_s = 0.0

    def jobs(self) -> RawJobs:
        """Return all jobs, the last ones again if slurmctld says that nothing has changed."""
        young = time.monotonic() - self._read_at_s < FULL_READ_S
        since_s = self._raw.read_s if self._raw and young else 0
        try:
            answer = self._own.Jobs(since_s)
        except OSError as err:
            if err.errno == faults.NO_CHANGE and self._raw:
                return self._raw
            raise
        self._raw, self._read_at_s = self._columns(answer), time.monotonic()
        return self._raw

    def now_s(self) -> int:
        """Return slurmctld's time."""
        if not self._raw:
            raise RuntimeError("no jobs were read yet")
        return self._raw.read_s + int(time.monotonic() - self._read_at_s)

    def update(self, job_id: int, request: Request) -> int:
        """Send one request; return Slurm's error number."""
        tag, tasks = request.admin_comment, request.array_tasks
        written = None if tag is None else tag.encode("utf-8", "surrogateescape")
        bound = None if tasks is None else b"%d" % tasks
        return self._own.update(job_id, request.priority, request.site_factor, written, bound)

    def error_text(self, number: int) -> str:
        """Return Slurm's own words for an error."""
        return self._own.error_text(number)

    def rights(self) -> Rights:
        """Return what users may do, as slurmctld knows it, even while slurmdbd is away."""
        from slurmfair.slurm import _accounting

        return Rights(*_accounting.rights())

    def _columns(self, answer: Jobs) -> RawJobs:
        """Return an answer's columns."""
        numbers = np.empty((len(self._own.NUMBERS), len(answer)), dtype=np.int64)
        codes = np.empty((len(self._own.TEXTS), len(answer)), dtype=np.int32)
        answer.numbers(numbers)
        values = answer.texts(codes)
        columns = dict(zip(self._own.NUMBERS, numbers, strict=True))
        texts = {name: Coded(codes[row], values[row]) for row, name in enumerate(self._own.TEXTS)}
        reasons, which = np.unique(columns["state_reason"], return_inverse=True)
        names = tuple(self._own.reason_name(int(reason)) for reason in reasons)
        texts["reason"] = Coded(which.astype(np.int32), names)
        return RawJobs(answer.read_s, columns, texts)


class PyslurmEdge:
    """Second best: Python's lock is held during each request, and site factor 0 cannot be sent."""

    name = "pyslurm"

    def __init__(self, pyslurm: ModuleType) -> None:
        self._pyslurm = pyslurm

    def jobs(self) -> RawJobs:
        """Return all jobs."""
        try:
            records = list(self._pyslurm.Jobs.load().values())
        except self._pyslurm.RPCError as err:
            raise OSError(err.errno, err.msg) from err
        return attributes.raw_jobs(records, self.now_s())

    def now_s(self) -> int:
        """Return this host's time; pyslurm does not tell slurmctld's."""
        return int(time.time())

    def update(self, job_id: int, request: Request) -> int:
        """Send one request; return Slurm's error number."""
        given = {name: value for name, value in request._asdict().items() if value is not None}
        if given.get("site_factor") == 0:
            given["site_factor"] = 1  # pyslurm leaves out a 0
        if "array_tasks" in given:
            given["array"] = str(
                given.pop("array_tasks")
            )  # what a submission calls so is the bound in an update
        try:
            self._pyslurm.Job(job_id).modify(self._pyslurm.JobSubmitDescription(**given))
        except self._pyslurm.RPCError as err:
            return int(err.errno) or errno.EIO
        return 0

    def error_text(self, number: int) -> str:
        """Return Slurm's own words for an error."""
        return str(self._pyslurm.RPCError(number).msg)

    def rights(self) -> None:
        """Return None: pyslurm does not tell."""


Places = tuple[list[NodeRecord], list[tuple[str, int, bool]]]  # nodes; partitions as (name, tier, up)


class NodeEdge(Protocol):
    """A way to nodes and partitions."""

    def load(self) -> Places:
        """Return all of them."""


class OwnNodes:
    """No Python lock is held during a request."""

    def __init__(self) -> None:
        """Load our edge; pyslurm must be loaded before. Raises ModuleNotFoundError where it was not built."""
        import slurmfair.slurm._nodes as _nodes

        self._own = _nodes

    def load(self) -> Places:
        """Return nodes and partitions."""
        nodes, partitions = self._own.load()
        return [node_record(*node) for node in nodes], partitions


class PyslurmNodes:
    """Second best."""

    def __init__(self, pyslurm: ModuleType) -> None:
        self._pyslurm = pyslurm

    def load(self) -> Places:
        """Return nodes and partitions."""
        try:
            nodes = [attributes.node_record(node) for node in self._pyslurm.Nodes.load().values()]
            return nodes, [
                attributes.partition_row(part) for part in self._pyslurm.Partitions.load().values()
            ]
        except self._pyslurm.RPCError as err:
            raise OSError(err.errno, err.msg) from err

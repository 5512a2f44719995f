"""A process inside a lab that works the edge to Slurm for a test: one JSON request a line, one answer a line."""

from __future__ import annotations

import json
from collections.abc import Sequence
from subprocess import PIPE
from threading import Timer
from types import TracebackType
from typing import Any, Self

from slurmfair.model import Change
from tests.lab import Lab
from tests.lab.services import wait_until

PATIENCE_S = 150  # longer than any request, even with slurmctld away
# Answers begin with "@": libslurm and pyslurm print things of their own.
INSIDE = r"""
import dataclasses, json, sys, threading, time
import numpy as np
from slurmfair.errors import SlurmfairError
from slurmfair.model import Change, Coded
from slurmfair.slurm import settings as rules
from slurmfair.slurm.live import LiveCluster

def plain(value):
    if isinstance(value, Coded):
        return [value[row] for row in range(len(value.codes))]
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, (frozenset, set)):
        return sorted(value)
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items()}
    if isinstance(value, (tuple, list)):
        return [plain(one) for one in value]
    if dataclasses.is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    return value

class Agent:
    def __init__(self, channel, own_edge):
        self.cluster = LiveCluster(channel, own_edge)

    def read(self):
        return self.cluster.read()

    def raw(self):
        edge = self.cluster._edge
        nodes, _ = self.cluster._nodes.load()
        return {"version": self.cluster.settings().version, "read_s": edge.jobs().read_s,
                "numbers": {name: plain(column) for name, column in edge.jobs().numbers.items()},
                "texts": {name: plain(column) for name, column in edge.jobs().texts.items()},
                "nodes": [plain(node._asdict()) for node in nodes]}

    def memory_kib(self):
        return int(open("/proc/self/statm").read().split()[1]) * 4

    def work(self, rounds, job_ids):
        for rank in range(rounds):
            self.cluster._edge._raw = None
            self.cluster.read()
            for job_id in job_ids:
                self.cluster.write(Change(job_id, rank=rank, tag="slurmfair:free"))
            self.cluster.runs(int(time.time()) - 3600, int(time.time()))
            self.cluster._edge.rights()

    def best_times(self, rounds):
        ours, theirs = [], []
        for _ in range(rounds):
            self.cluster._edge._raw = None  # else an unchanged queue is not read again
            began = time.perf_counter()
            self.cluster.read()
            ours.append(time.perf_counter() - began)
            began = time.perf_counter()
            for job in self.cluster._pyslurm.Jobs.load().values():
                (job.id, job.state, job.priority, job.account, job.partition, job.qos, job.nice, job.submit_time)
            theirs.append(time.perf_counter() - began)
        return min(ours), min(theirs)

    def write(self, **change):
        answer = self.cluster.write(Change(**change))
        return {"result": answer.result.name, "error": answer.error, "requests": answer.requests,
                "took_s": answer.took_s, "message": answer.message}

    def write_many(self, changes, threads):
        results = []
        def work(mine):
            results.extend([self.cluster.write(Change(**change)).result.name for change in mine])
        workers = [threading.Thread(target=work, args=(changes[i::threads],)) for i in range(threads)]
        began = time.perf_counter()
        [worker.start() for worker in workers]
        [worker.join() for worker in workers]
        return {"took_s": time.perf_counter() - began, "results": {name: results.count(name) for name in set(results)}}

    def write_while_counting(self, **change):
        turns, stop = [0], threading.Event()
        def count():
            while not stop.is_set():
                turns[0] += 1
                time.sleep(0.001)
        counter = threading.Thread(target=count)
        counter.start()
        began = time.perf_counter()
        try:
            self.cluster.write(Change(**change))
            raised = ""
        except SlurmfairError as err:
            raised = type(err).__name__
        took_s = time.perf_counter() - began
        stop.set()
        counter.join()
        return {"turns": turns[0], "took_s": took_s, "raised": raised}

    def runs(self, since_s, until_s):
        shares = []
        table = self.cluster.runs(since_s, until_s, shares.append)
        return {"runs": plain(table), "progress": shares}

    def settings(self):
        return self.cluster.settings()

    def findings(self, partitions, **wishes):
        now = self.cluster.settings()
        return [dataclasses.asdict(one) for one in rules.findings(now, rules.Wishes(frozenset(partitions), **wishes))]

    def edge(self):
        return self.cluster.edge

agent = Agent(*json.loads(sys.argv[1]))
for line in sys.stdin:
    name, given = json.loads(line)
    try:
        answer = {"ok": plain(getattr(agent, name)(**given))}
    except SlurmfairError as err:
        answer = {"raised": type(err).__name__, "message": str(err)}
    print("@" + json.dumps(answer), flush=True)
"""


class Raised(Exception):
    """The edge raised one of our errors inside."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(f"{name}: {message}")
        self.name, self.message = name, message


class Agent:
    """The edge of one account inside a lab."""

    def __init__(
        self, lab: Lab, user: str = "slurmfair", channel: str = "site_factor", own_edge: bool = True
    ) -> None:
        argv = ["python3", "-c", INSIDE, json.dumps([channel, own_edge])]
        self.process = lab.popen(argv, user=user, stdin=PIPE, stdout=PIPE)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, err: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.stdin.close()
        self.process.wait(20)
        self.process.stdout.close()

    def ask(self, name: str, **given: Any) -> Any:
        """Return the answer to one request; raise Raised for our own errors."""
        self.process.stdin.write(json.dumps([name, given]) + "\n")
        self.process.stdin.flush()
        answer = self.answer()
        if answer is None:
            raise AssertionError(f"the agent ended, or did not answer for {PATIENCE_S} s: {name}")
        if "raised" in answer:
            raise Raised(answer["raised"], answer["message"])
        return answer["ok"]

    def answer(self) -> dict[str, Any] | None:
        """Return the next answer, None if the agent ends or takes too long."""
        alarm = Timer(PATIENCE_S, self.process.kill)
        alarm.start()
        try:
            lines = (line for line in self.process.stdout if line.startswith("@"))
            line = next(lines, None)
        finally:
            alarm.cancel()
        return None if line is None else json.loads(line[1:])

    def read(self) -> dict[str, Any]:
        """Return a whole reading as plain values."""
        reading: dict[str, Any] = self.ask("read")
        return reading

    def jobs(self) -> dict[int, dict[str, Any]]:
        """Return the job table by job id."""
        columns = self.read()["jobs"]
        rows = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
        return {row["job_id"]: row for row in rows}

    def job(self, job_id: int) -> dict[str, Any]:
        """Return one job."""
        return self.jobs()[job_id]

    def wait_for_reason(self, job_id: int, reason: str) -> None:
        """Wait until a scheduling pass has given a job this reason."""
        assert wait_until(lambda: self.job(job_id)["reason"] == reason, 20), (job_id, reason)

    def write(self, job_id: int, **change: Any) -> dict[str, Any]:
        """Carry out one change and return its answer."""
        Change(job_id, **change)  # the fields exist
        answer: dict[str, Any] = self.ask("write", job_id=job_id, **change)
        return answer

    def write_many(self, changes: Sequence[dict[str, Any]], threads: int) -> dict[str, Any]:
        """Carry out changes from several threads and return how long it took."""
        done: dict[str, Any] = self.ask("write_many", changes=list(changes), threads=threads)
        return done

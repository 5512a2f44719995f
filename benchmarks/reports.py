"""Reports on a real Slurm with 100,000 pending jobs: sfprio against sprio, and the cycle while 2,000 readers ask at once."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.harness import Line, Times, benchmark, by_turns, ratio
from tests.lab import Lab
from tests.live.site import RUN, Site
from tests.test_lab import NO_LAB

N_JOBS, IN_ARRAY = 100_000, 10_000
READERS, HOSTILE = 2000, 10_000
ROUNDS, CYCLES = 3, 7  # rounds with and without a crowd, and cycles in each
SETTLED = 10  # changes of a cycle: writing is over
# Room for the jobs; and schedulers at rest, for while they hold their locks everybody waits, by chance.
CONF = {
    "MaxJobCount": str(2 * N_JOBS),
    "MaxArraySize": str(IN_ARRAY + 1),
    "SchedulerParameters": "bf_interval=3600,sched_interval=3600",
}
# One queue in which nobody must wait for another, so that cycles write nothing once the first jobs have their ranks.
POLICY = """
version: 1
cycle: {interval: 3s}
pools:
  gpu:
    partitions: [train, interactive]
    resource: gres/gpu
    quotas:
      all: {match: {accounts: [vision, llm-pretrain, llm-eval, speech]}, deserved: 32, policy: round_robin}
"""
# Both crowds go on until stdin ends. They are nice, because their own time is not what is asked for.
AGAIN_AND_AGAIN = f"""
import os, resource, select, socket, sys
os.nice(19)
_, most = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
def called():
    sock = socket.socket(socket.AF_UNIX)
    sock.connect("{RUN}/socket")
    return sock
def over():
    return select.select([sys.stdin], [], [], 0)[0]
request = b'{{"command":["sfprio","-u","ann","-S","i","-h"]}}\\n'
"""
CROWD = f"""{AGAIN_AND_AGAIN}
while not over():
    crowd = [called() for _ in range({READERS})]
    for sock in crowd:
        sock.sendall(request)
    for sock in crowd:
        while sock.recv(1 << 16):
            pass
        sock.close()
"""
# Half requests, requests without end, and full ones whose answers nobody reads.
HORDE = f"""{AGAIN_AND_AGAIN}
import itertools
asks = itertools.cycle([request[:20], b"x" * 1_000_000, request])
crowd = []
while not over():
    try:
        sock = called() if len(crowd) < {HOSTILE} else crowd.pop(0)
        sock.setblocking(False)
        sock.send(next(asks))
        crowd.append(sock)
    except OSError:
        if crowd:
            crowd.pop(0).close()
"""
# The kernel says who is at the other end of the socket.
HOLDS = f"""
import os, re, socket, struct
sock = socket.socket(socket.AF_UNIX)
sock.connect("{RUN}/socket")
pid, _, _ = struct.unpack("3i", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
sock.close()
status = open(f"/proc/{{pid}}/status").read()
print(re.search(r"VmRSS:\\s+(\\d+)", status)[1], len(os.listdir(f"/proc/{{pid}}/fd")))
"""


@benchmark
def reports() -> Iterator[Line]:
    """Compare our readers with Slurm's on one queue, by turns, and cycles with and without crowds of readers."""
    if NO_LAB is not None:
        return
    with tempfile.TemporaryDirectory() as folder, Lab(dir=Path(folder) / "lab", conf=CONF) as lab:
        lab.install_project()
        site = Site(lab, interval_s=10.0)
        site.fresh()
        site.write_policy(POLICY)
        lab.run(["scontrol", "update", "nodename=ALL", "state=drain", "reason=benchmark"])
        _fill(lab)
        site.start()
        yield _compared(lab, "all of 100,000 jobs", ["sfprio"], ["sprio"], 1.5)
        yield _compared(lab, "one of 100,000 jobs", ["sfprio", "-j", "5"], ["sprio", "-j", "5"], 3.0)
        site.wait(lambda: _cycle(site)["changes"] < SETTLED, "everything written", 300, every_s=3.0)
        yield from _while_read(site, f"{READERS:,} read at once", CROWD)
        yield from _while_read(site, f"{HOSTILE:,} hostile clients call", HORDE)
        site.stop()


def _fill(lab: Lab) -> None:
    """Make 100,000 records: an update of some tasks of an array makes a record of each."""
    users = ("ann", "bob", "cid", "dora", "eve")
    for n in range(N_JOBS // IN_ARRAY):
        array = lab.sbatch(
            f"--array=0-{IN_ARRAY - 1}",
            "--gpus=h100:8",
            "-N1",
            "--hold",
            "--wrap=true",
            user=users[n % len(users)],
        )
        lab.run(["scontrol", "update", f"jobid={array}_0-{IN_ARRAY - 2}", "comment=x"], check=False)
        lab.run(["scontrol", "release", str(array)])


def _compared(lab: Lab, what: str, ours: list[str], theirs: list[str], most: float) -> Line:
    mine, yardstick = by_turns(lambda: lab.run(ours), lambda: lab.run(theirs), clock=time.perf_counter)
    return ratio(f"{ours[0]} against {theirs[0]}, {what}", mine, yardstick, most)


def _while_read(site: Site, what: str, crowd: str) -> Iterator[Line]:
    """Compare cycles with and without a crowd, by turns, and what the reporter holds after each of them."""
    alone: list[float] = []
    read: list[float] = []
    held: list[tuple[int, int]] = []
    for _ in range(ROUNDS):
        clients = site.lab.popen(["/opt/venv/bin/python3", "-c", crowd], user="ann", stdin=-1)
        try:
            read += _cycle_times(site)
        finally:
            clients.communicate(timeout=120)
        alone += _cycle_times(site)
        held.append(_holds(site))
    yield ratio(f"cycle while {what}", Times(tuple(read)), Times(tuple(alone)), 1.1)
    (memory, files), *_, (memory_after, files_after) = held
    yield Line(f"files after {what}", files_after / files, 1.5, detail=f"{files} to {files_after}")
    growth = f"{memory >> 10} to {memory_after >> 10} MiB in {ROUNDS - 1} more rounds"
    yield Line(f"memory after {what}", memory_after / memory, 1.5, detail=growth)


def _cycle_times(site: Site) -> list[float]:
    seconds = []
    for _ in range(CYCLES):
        site.wait_cycles(1, 120)
        seconds.append(float(_cycle(site)["cycle_s"]))
    return seconds


def _cycle(site: Site) -> dict[str, Any]:
    """Return what the daemon says about its last cycle."""
    return json.loads(site.report("slurmfair", "status", "--json"))["status"]["cycle"]


def _holds(site: Site) -> tuple[int, int]:
    """Return the reporter's memory in KiB and the number of its open files."""
    memory, files = site.lab.run(["/opt/venv/bin/python3", "-c", HOLDS]).stdout.split()
    return int(memory), int(files)

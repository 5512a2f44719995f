"""Reports on a real Slurm with 100,000 pending jobs: sfprio against sprio, and the cycle while 2,000 readers ask at once."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.harness import Line, Times, benchmark, by_turns, ratio
from tests.lab import Lab
from tests.live.site import RUN, Site
from tests.test_lab import NO_LAB

N_JOBS, IN_ARRAY = 100_000, 10_000
READERS = 2000
CYCLES = 7
ROOM = {"MaxJobCount": str(2 * N_JOBS), "MaxArraySize": str(IN_ARRAY + 1)}
POLICY = """
version: 1
cycle: {interval: 10s}
pools:
  gpu:
    partitions: [train, interactive]
    resource: gres/gpu
    quotas:
      vision: {match: {accounts: [vision]}, deserved: 16, policy: fifo}
      llm: {match: {accounts: [llm-pretrain, llm-eval]}, deserved: 8, policy: intelligent}
      speech: {match: {accounts: [speech]}, deserved: 8}
"""
# All readers connect at once, again and again, until stdin ends. They are nice, because their own time is not what is asked for.
CROWD = f"""
import os, select, socket, sys
os.nice(19)
request = b'{{"command":["sfprio","-u","ann","-S","i","-h"]}}\\n'
while not select.select([sys.stdin], [], [], 0)[0]:
    crowd = []
    for _ in range({READERS}):
        sock = socket.socket(socket.AF_UNIX)
        sock.connect("{RUN}/socket")
        sock.sendall(request)
        crowd.append(sock)
    for sock in crowd:
        while sock.recv(1 << 16):
            pass
        sock.close()
"""


@benchmark
def reports() -> Iterator[Line]:
    """Compare our readers with Slurm's on one queue, by turns."""
    if NO_LAB is not None:
        return
    with tempfile.TemporaryDirectory() as folder, Lab(dir=Path(folder) / "lab", conf=ROOM) as lab:
        lab.install_project()
        site = Site(lab, interval_s=10.0)
        site.fresh()
        site.write_policy(POLICY)
        _fill(lab)
        site.start()
        yield _compared(lab, "all of 100,000 jobs", ["sfprio"], ["sprio"], 1.5)
        yield _compared(lab, "one of 100,000 jobs", ["sfprio", "-j", "5"], ["sprio", "-j", "5"], 3.0)
        yield _while_read(site)
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


def _while_read(site: Site) -> Line:
    """Return the cycle's time with and without a crowd of readers."""
    alone = _cycle_times(site)
    crowd = site.lab.popen(["/opt/venv/bin/python3", "-c", CROWD], user="ann", stdin=-1)
    try:
        read = _cycle_times(site)
    finally:
        crowd.communicate(timeout=120)
    return ratio(f"cycle while {READERS} read at once", read, alone, 1.1)


def _cycle_times(site: Site) -> Times:
    seconds = []
    for _ in range(CYCLES):
        site.wait_cycles(1, 120)
        seconds.append(json.loads(site.report("slurmfair", "status", "--json"))["status"]["cycle"]["cycle_s"])
    return Times(tuple(seconds))

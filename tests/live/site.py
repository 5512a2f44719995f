"""A Slurm site as a live test needs it: a lab, our daemon on it, and what users and administrators do."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from slurmfair.model import Outcome
from slurmfair.view import load
from tests.lab import Lab
from tests.live.controller import ControllerLog, Update
from tests.live.queue import Job, read_jobs

STATE, RUN, POLICY = "/var/lib/slurmfair", "/run/slurmfair", "/etc/slurmfair/policy.yaml"
DAEMON_USER = "slurmfair"

# Fields of a job record that change by themselves while a job waits.
RESTLESS = {
    "LastSchedEval",
    "Scheduler",
    "RunTime",
    "Reason",
    "StartTime",
    "EndTime",
    "SchedNodeList",
    "TimeLimit",
    "AccrueTime",
}


READ_DECISIONS = """
import json, sqlite3, sys
rows = sqlite3.connect(f"file:{sys.argv[1]}?mode=ro", uri=True).execute(
    "SELECT job_id, at_s, what, why FROM decisions ORDER BY rowid")
print(json.dumps(list(rows)))
"""


@dataclass
class Site:
    """One lab with our daemon; `interval_s` is the cycle that policies of tests should use."""

    lab: Lab
    interval_s: float = 1.0
    daemon: Any = None
    controller: ControllerLog = field(init=False)

    def __post_init__(self) -> None:
        self.controller = ControllerLog(self.lab.path("/var/log/slurm/slurmctld.log"))

    # -- the daemon ------------------------------------------------------------------------------------

    def write_policy(self, text: str) -> None:
        """Write the policy file; `{interval}` in it becomes the cycle of the tests."""
        self.lab.run(["mkdir", "-p", "/etc/slurmfair"])
        self.lab.path(POLICY).write_text(text.replace("{interval}", f"{self.interval_s:g}s"))

    def start(
        self, *args: str, user: str = DAEMON_USER, env: dict[str, str] | None = None, ready: bool = True
    ) -> None:
        """Start the daemon and wait for its first healthy cycle."""
        before = self.last_cycle_s()
        out = self.lab.path("/var/log/slurmfaird.log").open("a")
        self.daemon = self.lab.popen(
            ["slurmfaird", "--config", POLICY, *args], user=user, stdout=out, stderr=out, env=env
        )
        if ready:
            self.wait(lambda: self.alive() and self.last_cycle_s() > before, "first healthy cycle", 30)

    def alive(self) -> bool:
        assert self.daemon.poll() is None, f"slurmfaird ended with {self.daemon.poll()}:\n{self.daemon_log()}"
        return True

    def stop(self, sig: signal.Signals = signal.SIGTERM) -> int:
        """Stop the daemon; return its exit status."""
        if self.daemon is None:
            return 0
        daemon, self.daemon = self.daemon, None
        if daemon.poll() is None:
            daemon.send_signal(sig)
        status: int = daemon.wait(timeout=30)
        return status

    def reload(self, text: str) -> None:
        """Change the policy of the running daemon, and wait until a cycle used it."""
        self.write_policy(text)
        self.daemon.send_signal(signal.SIGHUP)
        self.wait_cycles(2)

    def once(self, *args: str, user: str = DAEMON_USER, check: bool = True) -> str:
        """Run one cycle; return what it logged."""
        done = self.lab.run(["slurmfaird", "--config", POLICY, "--once", *args], user=user, check=check)
        return done.stdout + done.stderr

    def daemon_log(self) -> str:
        path = self.lab.path("/var/log/slurmfaird.log")
        return path.read_text() if path.exists() else ""

    def last_cycle_s(self) -> float:
        """Return when the view was last published, 0 if never: it grows with each healthy cycle."""
        path = self.lab.path(f"{STATE}/view.npz")
        return path.stat().st_mtime if path.exists() else 0.0

    def wait_cycles(self, n: int, timeout_s: float = 60) -> None:
        """Wait until n more healthy cycles have been published."""
        for _ in range(n):
            before = self.last_cycle_s()
            self.wait(
                lambda before=before: self.alive() and self.last_cycle_s() > before, "next cycle", timeout_s
            )

    def decisions(self) -> list[tuple[int, int, str, str]]:
        """Return the daemon's log of decisions: job, time in seconds, what, why."""
        printed = self.report("python3", "-c", READ_DECISIONS, f"{STATE}/state.db")
        return [(job, at_s, what, why) for job, at_s, what, why in json.loads(printed)]

    def report(self, *argv: str, user: str = "root", check: bool = True) -> str:
        """Run one of our reports and return its output."""
        return self.lab.run(list(argv), user=user, check=check).stdout

    # -- jobs ------------------------------------------------------------------------------------------

    def submit(self, *args: str, user: str = "ann", seconds: int = 600) -> int:
        return self.lab.sbatch(*args, f"--wrap=exec sleep {seconds}", user=user)

    def submit_many(self, rows: Iterable[Iterable[str]], user: str = "ann", seconds: int = 600) -> list[int]:
        return self.lab.submit_many([[*row, f"--wrap=exec sleep {seconds}"] for row in rows], user=user)

    def jobs(self) -> dict[int, Job]:
        """Return all jobs by id, those that ended lately too."""
        return read_jobs(self.lab)

    def jobs_of(self, user: str) -> list[int]:
        """Return the user's jobs that have not ended."""
        return [int(one) for one in self.lab.run(["squeue", "-h", "-o", "%A", "-u", user]).stdout.split()]

    def states(self, ids: Iterable[int]) -> list[str]:
        """Return the state of each job."""
        jobs = self.jobs()
        return [jobs[one].state if one in jobs else "GONE" for one in ids]

    def running(self, ids: Iterable[int]) -> list[int]:
        ids = list(ids)
        return [one for one, state in zip(ids, self.states(ids), strict=True) if state == "RUNNING"]

    def held_by_us(self, ids: Iterable[int]) -> list[int]:
        """Return the jobs that carry our hold."""
        jobs = self.jobs()
        return [
            one
            for one in ids
            if one in jobs
            and jobs[one].priority == 0
            and jobs[one].reason == "JobHeldAdmin"
            and "slurmfair:hold" in jobs[one].admin_comment
        ]

    def start_s(self, ids: Iterable[int]) -> list[int]:
        """Return when each of the jobs started, in whole seconds."""
        jobs = self.jobs()
        return [jobs[one].start_s for one in ids]

    def our_updates(self) -> list[Update]:
        """Return the updates that the daemon's account asked for, by slurmctld's log."""
        uid, _ = self.lab.ids(DAEMON_USER)
        return [update for update in self.controller.updates() if update.uid == uid]

    def starts(self, ids: Iterable[int]) -> list[int]:
        """Return the started jobs by start time; ties by id."""
        jobs = self.jobs()
        begun = [
            (jobs[i].start_s, i) for i in ids if i in jobs and jobs[i].state != "PENDING" and jobs[i].nodes
        ]
        return [one for _, one in sorted(begun)]

    def array_tasks(self, array: int) -> list[int]:
        """Return the records of an array's tasks that run."""
        jobs = self.jobs().values()
        return [job.job_id for job in jobs if job.array_id == array and job.state == "RUNNING"]

    def end(self, *ids: int) -> None:
        """End running jobs (as if they had finished)."""
        self.lab.run(["scancel", *map(str, ids)])

    def records(self, ids: Iterable[int]) -> dict[int, dict[str, str]]:
        """Return full records without the fields that move by themselves."""
        found = {}
        for one in ids:
            record = self.lab.show_job(one)
            found[one] = {name: value for name, value in record.items() if name not in RESTLESS}
        return found

    def writes(self) -> int:
        """Return how many job updates slurmctld has served since its statistics were last reset."""
        return int(self.lab.sdiag()["by_type"].get("REQUEST_UPDATE_JOB", 0))

    def fill(self, gpus: int, user: str = "ann", seconds: int = 600, *args: str) -> list[int]:
        """Start one-GPU jobs and wait until all run."""
        ids = self.submit_many([["--gpus=1", *args]] * gpus, user=user, seconds=seconds)
        self.wait(lambda: len(self.running(ids)) == gpus, f"{gpus} jobs running")
        return ids

    def wall(self, user: str = "cid") -> list[int]:
        """Take every GPU node, one job a node, for an account that the policy leaves alone.

        What is submitted behind it cannot start before the daemon has looked at it: without the gate, Slurm
        may be faster.
        """
        nodes = ("gpu01", "gpu02", "gpu03", "gpu04")
        ids = self.submit_many([["--gpus=8", f"--nodelist={node}"] for node in nodes], user=user)
        self.wait(lambda: len(self.running(ids)) == len(ids), "every node taken")
        return ids

    @staticmethod
    def wait(condition: Callable[[], object], what: str, timeout_s: float = 60, every_s: float = 0.2) -> None:
        """Wait until the condition holds; fail after the time."""
        end_s = time.monotonic() + timeout_s
        while not condition():
            assert time.monotonic() < end_s, f"not within {timeout_s} s: {what}"
            time.sleep(every_s)

    def always(self, condition: Callable[[], object], what: str, for_s: float, every_s: float = 0.5) -> None:
        """Require the condition at every look during the time."""
        end_s = time.monotonic() + for_s
        while time.monotonic() < end_s:
            assert condition(), f"no longer: {what}"
            time.sleep(every_s)

    def fresh(self) -> None:
        """Stop the daemon, empty the queue and forget our state: as a site that never saw us."""
        self.stop()
        self.lab.cancel_all()
        self.lab.run(["rm", "-rf", STATE, RUN])
        self.lab.run(["install", "-d", "-o", DAEMON_USER, "-g", DAEMON_USER, STATE, RUN])
        self.lab.path("/var/log/slurmfaird.log").write_text("")
        self.controller.clear()

    def view(self) -> dict[str, Any]:
        """Return what `slurmfair status --json` says."""
        found: dict[str, Any] = json.loads(self.report("slurmfair", "status", "--json"))
        return found

    # -- what the daemon published ---------------------------------------------------------------------

    def published(self) -> dict[int, dict[str, Any]]:
        """Return the rows of the published view by job id, each with the time of its reading as `now_s`."""
        view = load(self.lab.path(f"{STATE}/view.npz"))
        rows = (view.row(i) for i in range(len(view)))
        return {row["job_id"]: row | {"now_s": view.about["now_s"]} for row in rows}

    def row(self, job: int) -> dict[str, Any]:
        """Return the published row of a job, an empty one if it is not there."""
        return self.published().get(job, {})

    def outcome(self, job: int) -> Outcome | None:
        """Return what the last pass found about a waiting job, None if it is in no queue."""
        found = self.row(job).get("outcome", -1)
        return None if found < 0 else Outcome(found)

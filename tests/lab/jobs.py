"""Jobs of a lab: submit, look, cancel."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Sequence
from typing import Any

from . import conf
from .daemons import Daemons
from .errors import LabError
from .services import wait_until

SBATCH = ("sbatch", "--parsable", "--output=/dev/null")
PAYLOAD = ("--wrap", "exec sleep 600")
# Fields of `scontrol show job` whose value is the rest of the line.
FREE_TEXT = {
    "JobName", "Comment", "AdminComment", "SystemComment", "Extra", "SubmitLine", "Command",
    "WorkDir", "StdErr", "StdIn", "StdOut", "Dependency", "FailedNode",
}  # fmt: skip


class Jobs(Daemons):
    """Handles jobs with Slurm's own commands."""

    def sbatch(self, *args: str, user: str | None = None, script: str | None = None) -> int:
        """Submit a job and return its id; without `--wrap` or a script it sleeps 10 minutes."""
        argv = [*SBATCH, *(args if script is not None else with_payload(args))]
        done = self.run(argv, user=user or self.settings.people[0], input=script)
        return job_id(done.stdout)

    def submit_many(self, rows: Iterable[Sequence[str]], user: str | None = None) -> list[int]:
        """Submit jobs with one command, each row the arguments of one sbatch; return their ids."""
        lines = [shlex.join([*SBATCH, *with_payload(row)]) for row in rows]
        who = user or self.settings.people[0]
        done = self.run(["sh", "-e"], user=who, input="\n".join(lines), timeout=60 + len(lines))
        return [job_id(row) for row in done.stdout.split()]

    def squeue(self, *args: str) -> list[dict[str, Any]]:
        """Return the jobs as squeue's JSON has them, ended ones of the last minutes too."""
        done = self.run(["squeue", "--json", *args])
        jobs: list[dict[str, Any]] = json.loads(done.stdout)["jobs"]
        return jobs

    def show_jobs(self, *ids: int | str) -> list[dict[str, str]]:
        """Return all fields of jobs (all without ids) as `scontrol show job` has them."""
        records: list[dict[str, str]] = []
        for one in ids or ("",):
            text = self.run(["scontrol", "show", "job", *([str(one)] if one else [])]).stdout
            records += [parse_record(record) for record in text.split("\n\n") if "=" in record]
        return records

    def show_job(self, job: int | str) -> dict[str, str]:
        """Return all fields of a job; of an array the first record that Slurm shows."""
        return self.show_jobs(job)[0]

    def sacct(self, *args: str) -> list[dict[str, str]]:
        """Return rows of sacct by field: jobs without steps, newest run only unless args say -D."""
        argv = ["sacct", "-a", "-X", "--parsable2", *args]
        if not any(arg.startswith(("-o", "--format")) for arg in args):
            argv += ["--format=ALL"]
        lines = self.run(argv).stdout.splitlines()
        names = lines[0].split("|")
        return [dict(zip(names, line.split("|"), strict=False)) for line in lines[1:]]

    def sdiag(self, reset: bool = False) -> dict[str, Any]:
        """Return Slurm's own statistics, with `by_type` and `by_user`: number of calls by name."""
        stats: dict[str, Any] = json.loads(self.run(["sdiag", "--json"]).stdout)["statistics"]
        by_type, by_user = stats["rpcs_by_message_type"], stats["rpcs_by_user"]
        stats["by_type"] = {row["message_type"]: row["count"] for row in by_type}
        stats["by_user"] = {row["user"]: row["count"] for row in by_user}
        if reset:
            self.run(["sdiag", "--reset"])
        return stats

    def job_ids(self) -> list[str]:
        """Return the ids of all jobs that have not ended, arrays and het jobs once."""
        ids = self.run(["squeue", "-h", "-a", "-o", "%A"]).stdout.split()
        return list(dict.fromkeys(ids))

    def cancel_all(self, timeout: float = 60) -> None:
        """Cancel every job and wait until the queue is empty and the nodes are idle."""

        def empty() -> bool:
            ids = self.job_ids()
            if ids:
                words = "\n".join(ids)
                self.run(["xargs", "scancel", "--quiet"], input=words, timeout=timeout, check=False)
            return not ids

        if not wait_until(empty, timeout, 0.2):
            raise LabError("queue", "jobs do not end", f"read {self.path(conf.LOGS)}/slurmctld.log")
        self.wait_nodes(timeout=timeout)


def with_payload(args: Sequence[str]) -> list[str]:
    """Return arguments of sbatch with something to run."""
    given = any(arg.startswith("--wrap") for arg in args)
    return list(args) if given else [*args, *PAYLOAD]


def job_id(printed: str) -> int:
    """Return the id that `sbatch --parsable` prints, before a cluster's name."""
    return int(printed.strip().partition(";")[0])


def parse_record(text: str) -> dict[str, str]:
    """Return the Key=Value pairs of one record of scontrol."""
    fields: dict[str, str] = {}
    for line in text.splitlines():
        rest = line.strip()
        while rest:
            key, _, rest = rest.partition("=")
            value, _, rest = (rest, "", "") if key in FREE_TEXT else rest.partition(" ")
            fields[key.strip()] = value
    return fields

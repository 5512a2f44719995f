"""What squeue tells of the jobs, as text: its JSON takes 2 ms a job."""

from __future__ import annotations

from dataclasses import dataclass

from tests.lab import Lab

COLUMNS = (
    "JobID", "ArrayJobID", "State", "Reason", "PriorityLong", "admin_comment", "NodeList", "StartTime", "Nice",
    "Partition", "UserName",
)  # fmt: skip
FORMAT = ",".join(f"{column}:150|" for column in COLUMNS)


@dataclass(frozen=True, slots=True)
class Job:
    """One record; `nodes` are allocated ones, so a job that has none never ran."""

    job_id: int
    array_id: int
    state: str
    reason: str  # or Slurm's text about it
    priority: int
    admin_comment: str
    nodes: str
    start_s: int  # expected start of a job that waits; 0 for none
    nice: int
    partition: str
    user: str


def read_jobs(lab: Lab) -> dict[int, Job]:
    """Return all records by id, those of jobs that ended lately too."""
    argv = ["squeue", "--noheader", "--all", "--states=all", "--Format", FORMAT]
    rows = lab.run(argv, env={"SLURM_TIME_FORMAT": "%s"}).stdout.splitlines()
    jobs = (_job([cell.strip().replace("(null)", "") for cell in row.split("|")]) for row in rows)
    return {job.job_id: job for job in jobs}


def _job(cells: list[str]) -> Job:
    job_id, array_id, state, reason, priority, comment, nodes, start, nice, partition, user = cells[
        : len(COLUMNS)
    ]
    start_s = int(start) if start.isdigit() else 0
    return Job(
        int(job_id),
        int(array_id),
        state,
        reason,
        int(priority),
        comment,
        nodes,
        start_s,
        int(nice),
        partition,
        user,
    )

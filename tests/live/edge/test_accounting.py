"""Runs of jobs from a real slurmdbd (SLURM.md 11), and what is found wrong with a cluster's settings."""

from __future__ import annotations

import calendar
import time
from typing import Any

import pytest

from tests.lab import Lab
from tests.lab.services import wait_until
from tests.live.agent import Agent, Raised

pytestmark = pytest.mark.slurm

PARTITIONS = ["train", "interactive"]


def rows_of(answer: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a table of runs as rows."""
    columns = answer["runs"]
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


@pytest.fixture
def history(lab: Lab, edge: Agent) -> dict[str, int]:
    """Run a few jobs of different kinds to their end, but one; return their ids."""
    ids = {
        "short": lab.sbatch("-G2", "--wrap=sleep 3", user="ann"),
        "requeued": lab.sbatch("-G1", user="cid"),
        "suspended": lab.sbatch("-G1", "--qos=urgent", "--account=llm-eval", user="dora"),
        "array": lab.sbatch("--array=0-2", "-G1", "--wrap=sleep 2", user="bob"),
        "two nodes": lab.sbatch("-N2", "--gres=gpu:3", "--wrap=sleep 3", "-p", "interactive", user="eve"),
        "never": lab.sbatch("-H", user="ann"),
    }
    assert wait_until(lambda: edge.job(ids["requeued"])["state"] == 1, 30)
    time.sleep(2)
    lab.run(["scontrol", "requeue", str(ids["requeued"])])
    lab.run(["scontrol", "suspend", str(ids["suspended"])])
    time.sleep(3)
    lab.run(["scontrol", "resume", str(ids["suspended"])])
    assert wait_until(lambda: [edge.job(ids["requeued"])[key] for key in ("restarts", "state")] == [1, 1], 60)
    time.sleep(2)
    lab.run(["scancel", str(ids["requeued"]), str(ids["suspended"]), str(ids["never"])])
    lab.run(["scontrol", "wait_job", str(ids["array"])], check=False)
    return ids


def from_sacct(lab: Lab, since_s: int) -> dict[tuple[str, int], int]:
    """Return GPU-seconds by job and start, as `sacct -D` has them; suspended time is added back."""
    columns = "JobIDRaw,Start,End,ElapsedRaw,Suspended,AllocTRES"
    rows = lab.sacct(
        "-D", f"--format={columns}", f"--starttime={time.strftime('%FT%T', time.gmtime(since_s))}"
    )
    use = {}
    for row in rows:
        tres = dict(part.split("=") for part in row["AllocTRES"].split(",") if part)
        if tres and row["Start"][0].isdigit():  # it did start
            hours, minutes, seconds = (int(part) for part in row["Suspended"].split(":"))
            span_s = int(row["ElapsedRaw"]) + 3600 * hours + 60 * minutes + seconds
            start_s = int(calendar.timegm(time.strptime(row["Start"], "%Y-%m-%dT%H:%M:%S")))
            use[row["JobIDRaw"], start_s] = span_s * int(tres.get("gres/gpu", 0))
    return use


def test_all_runs_come_back_and_gpu_seconds_equal_sacct(
    lab: Lab, edge: Agent, history: dict[str, int]
) -> None:
    since_s = int(time.time()) - 3 * 86400
    assert wait_until(lambda: not lab.job_ids(), 60)
    time.sleep(1)
    answer = edge.ask("runs", since_s=since_s, until_s=int(time.time()) + 5)
    rows = rows_of(answer)
    assert answer["progress"][-1] == 1.0 and len(answer["progress"]) == 4
    assert [row["start_s"] for row in rows] == sorted(row["start_s"] for row in rows)
    by_job: dict[int, list[dict[str, Any]]] = {}
    for row in rows:
        by_job.setdefault(row["job_id"], []).append(row)
    assert [run["resources"][0] for run in by_job[history["requeued"]]] == [1, 1], (
        "the run before the requeue"
    )
    assert history["never"] not in by_job
    tasks = [row["array_task"] for row in rows if row["array_id"] == history["array"]]
    assert sorted(tasks) == [0, 1, 2]
    two = by_job[history["two nodes"]][0]
    assert (two["resources"][0], two["nodes"], two["partition"], two["user"]) == (6, 2, "interactive", "eve")
    paused = by_job[history["suspended"]][0]
    assert (paused["qos"], paused["account"]) == ("urgent", "llm-eval") and 2 <= paused["suspended_s"] <= 5
    ours = {
        (str(row["job_id"]), row["start_s"]): (row["end_s"] - row["start_s"]) * row["resources"][0]
        for row in rows
    }
    assert ours == from_sacct(lab, since_s)


def test_pyslurm_gives_the_last_runs(lab: Lab, edge: Agent, history: dict[str, int]) -> None:
    window = {"since_s": int(time.time()) - 86400, "until_s": int(time.time()) + 5}
    assert wait_until(lambda: not lab.job_ids(), 60)
    with Agent(lab, own_edge=False) as other:
        theirs = rows_of(other.ask("runs", **window))
    ours = {row["job_id"]: row for row in rows_of(edge.ask("runs", **window))}
    for row in theirs:
        assert {**row, "state": 0} == {**ours[row["job_id"]], "state": 0}


def test_every_read_sees_what_happened_since_the_one_before(lab: Lab, edge: Agent) -> None:
    """slurmdbd answers a connection that is kept open from a snapshot of its first moment."""

    def ends() -> dict[int, int]:
        now_s = int(time.time())
        rows = rows_of(edge.ask("runs", since_s=now_s - 600, until_s=now_s + 5))
        return {row["job_id"]: row["end_s"] for row in rows}

    first = lab.sbatch("--wrap=exec sleep 300", user="ann")
    assert wait_until(lambda: ends().get(first) == 0, 30), "it runs"
    lab.run(["scancel", str(first)])
    second = lab.sbatch("--wrap=true", user="ann")
    assert wait_until(lambda: ends().get(first, 0) > 0, 30), "it has ended"
    assert wait_until(lambda: ends().get(second, 0) > 0, 30), "began and ended since"


def test_slurmdbd_away_is_told_and_jobs_are_read_and_written_all_the_same(lab: Lab, edge: Agent) -> None:
    job_id = lab.sbatch("-H", user="ann")
    lab.stop_service("slurmdbd")
    try:
        with pytest.raises(Raised) as caught:
            edge.ask("runs", since_s=int(time.time()) - 100, until_s=int(time.time()))
        assert caught.value.name == "SlurmUnavailable"
        assert edge.write(job_id, rank=5)["result"] == "OK"
        assert edge.job(job_id)["site_factor"] == 5
    finally:
        lab.start_service("slurmdbd")
    until_s = int(time.time())
    assert wait_until(lambda: answers(edge, until_s), 20)


def answers(edge: Agent, until_s: int) -> bool:
    """Return whether accounting answers."""
    try:
        edge.ask("runs", since_s=until_s - 100, until_s=until_s)
    except Raised:
        return False
    return True


def findings(agent: Agent, **wishes: Any) -> dict[str, str]:
    """Return severity by setting."""
    found = agent.ask("findings", partitions=PARTITIONS, **wishes)
    assert all(one["mend"] for one in found if one["severity"] != "note"), found
    return {one["setting"]: one["severity"] for one in found}


def test_a_well_kept_cluster_has_nothing_to_mend(edge: Agent) -> None:
    assert findings(edge) == {"pyslurm": "note"}, "which was built with adapted headers"


@pytest.mark.parametrize(("user", "level"), [("oper", "Operator"), ("nobody2", "None")])
def test_missing_rights_are_found(lab: Lab, user: str, level: str) -> None:
    with Agent(lab, user=user) as agent:
        assert findings(agent)[f"AdminLevel of {user}"] == "error"
        assert agent.ask("settings")["admin_level"] == level


def test_each_setting_that_harms_is_found_in_the_running_configuration(lab: Lab, edge: Agent) -> None:
    bad = {
        "PriorityWeightAge": "1000",
        "PriorityWeightQOS": "500",
        "PriorityCalcPeriod": "5",
        "SchedulerParameters": "enable_user_top,bf_max_job_test=3,bf_interval=60,bf_window=100,requeue_delay=90",
        "SlurmctldParameters": "rl_enable",
        "MinJobAge": "20",
        "PartitionName=interactive": "Nodes=gpu[01-02] MaxTime=7-0 State=UP PriorityTier=5",
    }
    good = lines_of(lab.path("/etc/slurm/slurm.conf").read_text(), list(bad))
    lab.set_conf(bad)
    try:
        found = findings(edge, unheld_jobs=10, gate=True)
        assert edge.ask("settings")["weights"]["Age"] == 1000
    finally:
        lab.set_conf(good)
    assert found == {
        "pyslurm": "note",
        "PriorityWeight*": "note",
        "PriorityCalcPeriod": "warning",
        "PriorityTier": "warning",
        "DefaultTime of interactive": "warning",
        "SchedulerParameters": "warning",
        "bf_interval": "warning",
        "bf_max_job_test": "warning",
        "bf_window": "warning",
        "requeue_delay": "warning",
        "SlurmctldParameters": "warning",
        "MinJobAge": "warning",
        "JobSubmitPlugins": "error",
    }


def lines_of(text: str, keys: list[str]) -> dict[str, str | None]:
    """Return the lines that a slurm.conf has for some keys, None for one it does not have."""
    lines: dict[str, str | None] = dict.fromkeys(keys)
    for line in text.splitlines():
        for key in keys:
            start = f"{key} " if "=" in key else f"{key}="
            if line.startswith(start):
                lines[key] = line.removeprefix(start)
    return lines

"""What the edge reads from a real Slurm (SLURM.md 4, 5, 12)."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.lab import Lab
from tests.lab.services import wait_until
from tests.live.agent import Agent
from tests.request_forms import FORMS

pytestmark = pytest.mark.slurm

FOREVER_S = 1 << 40
# What these get is known only afterwards: 2 nodes or 3, CPUs of one socket or two.
OPEN_FORMS = {"-N1-3 --gres=gpu:2", "--gpus-per-socket=1 --sockets-per-node=2"}


def wanted(job: dict[str, Any]) -> tuple[Any, ...]:
    return (*job["wanted"], job["nodes_wanted"], job["gpu_type"])


def test_every_form_of_request_is_read_right_before_and_after_the_start(lab: Lab, edge: Agent) -> None:
    ids = lab.submit_many([[*form.split(), "-H"] for form, *_ in FORMS], user="ann")
    jobs = edge.jobs()
    read = {form: wanted(jobs[job_id]) for job_id, (form, *_) in zip(ids, FORMS, strict=True)}
    assert read == {form: tuple(expected) for form, *expected in FORMS}
    forms = dict(zip(ids, read, strict=True))
    lab.run(["xargs", "-n1", "scontrol", "release"], input="\n".join(map(str, ids)))
    assert wait_until(lambda: started_right(lab, edge, forms, read), 120, 0.5), forms


def started_right(lab: Lab, edge: Agent, forms: dict[int, str], read: dict[str, tuple[Any, ...]]) -> bool:
    """Check the jobs that have started, cancel them and take them off `forms`; return whether none is left."""
    running = {job_id: job for job_id, job in edge.jobs().items() if job_id in forms and job["state"] == 1}
    for job_id, job in running.items():
        form = forms.pop(job_id)
        if form not in OPEN_FORMS:
            assert job["held_resources"] == list(read[form][:3]), form
        if "shard" not in form:
            assert f"gres/gpu={job['held_resources'][0]}" in lab.show_job(job_id)["AllocTRES"] + ",gres/gpu=0"
    if running:
        lab.run(["scancel", *map(str, running)])
    return not forms


def reserve(lab: Lab, *words: str) -> None:
    """Make a reservation of ten minutes."""
    lab.run(["scontrol", "create", "reservation", "Duration=10", *words])


@pytest.fixture
def situations(lab: Lab) -> dict[str, int]:
    """Return jobs of every kind that has to be told apart."""
    return submit_situations(lab)


def submit_situations(lab: Lab) -> dict[str, int]:
    """Submit one job of each kind that has to be told apart; return their ids."""
    user = {"user": "ann"}
    ids = {"running": lab.sbatch("-G1", "--comment=prio=7 é", **user)}
    ids["begin"] = lab.sbatch("--begin=now+1hour", "-G1", **user)
    ids["begin, admin hold"] = lab.sbatch("--begin=now+1hour", "-G1", **user)
    ids["dependent"] = lab.sbatch(f"--dependency=afterok:{ids['running']}", **user)
    ids["first"] = lab.sbatch("--job-name=one", **user)
    ids["singleton"] = lab.sbatch("--job-name=one", "--dependency=singleton", **user)
    ids["array"] = lab.sbatch("--array=0-49%4", "-G1", **user)
    ids["held array"] = lab.sbatch("-H", f"--array={','.join(str(7 * i) for i in range(200))}", **user)
    ids["owner's hold"] = lab.sbatch("-H", "--nice=77", **user)
    ids["admin's hold"] = lab.sbatch("--begin=now+1hour", **user)
    ids["uhold"] = lab.sbatch("--begin=now+1hour", **user)
    ids["two partitions"] = lab.sbatch("-H", "--partition=train,interactive", "--qos=urgent", **user)
    ids["too long"] = lab.sbatch("--time=UNLIMITED", **user)
    ids["factor"] = lab.sbatch("-H", **user)
    for name in ("begin, admin hold", "admin's hold"):
        lab.run(["scontrol", "hold", str(ids[name])])
    lab.run(["scontrol", "uhold", str(ids["uhold"])])
    lab.run(["scontrol", "update", f"jobid={ids['factor']}", "sitefactor=-55", "admincomment=ticket 5"])
    reserve(lab, "ReservationName=later", "StartTime=now+1hour", "Nodes=gpu03", "Users=ann")
    ids["reservation"] = lab.sbatch("--reservation=later", **user)
    het = lab.run(["sbatch", "--parsable", "-H", "-G1", ":", "-G2", "-p", "interactive", "--wrap=x"], **user)
    ids["het"] = int(het.stdout)
    lab.run(["scrontab", "-"], user="ann", input="#SCRON -G1\n0 0 1 1 * /bin/true\n")
    return ids


@pytest.fixture
def no_leftovers(lab: Lab) -> Any:
    """Remove reservation and scrontab afterwards."""
    yield
    lab.run(["scrontab", "-r"], user="ann", check=False)
    lab.cancel_all()
    lab.run(["scontrol", "delete", "reservation=later"], check=False)


def test_every_kind_of_waiting_job_is_read_as_it_is(
    no_leftovers: None, situations: dict[str, int], edge: Agent, lab: Lab
) -> None:
    ids = situations
    assert wait_until(lambda: edge.job(ids["array"])["reason"] == "JobArrayTaskLimit", 20)
    reading = edge.read()
    now_s = reading["now_s"]
    assert abs(now_s - time.time()) < 5
    jobs = edge.jobs()
    job = {name: jobs[job_id] for name, job_id in ids.items()}

    def reason(name: str) -> tuple[str, str]:
        return job[name]["reason"], job[name]["reason_text"]

    assert (job["running"]["state"], job["running"]["held_resources"]) == (1, [1, 1, 1000])
    assert job["running"]["comment"] == "prio=7 é"
    assert job["running"]["nodes"].startswith("gpu")
    assert job["running"]["time_limit_s"] == 600
    assert reason("begin") == ("BeginTime", "")
    assert job["begin"]["begin_s"] > now_s + 3000
    assert job["begin, admin hold"]["begin_s"] > now_s + 3000, "a hold does not hide the begin time"
    assert (job["begin, admin hold"]["priority"], *reason("begin, admin hold")) == (0, "JobHeldAdmin", "")
    assert job["dependent"]["dependent"] and job["singleton"]["dependent"] and not job["running"]["dependent"]
    assert (job["array"]["tasks_waiting"], job["array"]["tasks_throttle"]) == (46, 4)
    assert job["array"]["wanted"][0] == 1, "resources of an array are those of one task"
    tasks = sorted(row["array_task"] for row in jobs.values() if row["array_id"] == ids["array"])
    assert tasks == [-1, 0, 1, 2, 3], "task 0 is told from the waiting rest"
    assert job["held array"]["tasks_waiting"] == 200, "long lists are not cut"
    assert (job["owner's hold"]["priority"], *reason("owner's hold")) == (0, "JobHeldUser", "")
    assert job["owner's hold"]["nice"] == 77
    assert reason("admin's hold") == ("JobHeldAdmin", "")
    assert reason("uhold") == ("JobHeldUser", "")
    assert (job["two partitions"]["partition"], job["two partitions"]["qos"]) == (
        "train,interactive",
        "urgent",
    )
    assert (reason("too long")[0], job["too long"]["time_limit_s"]) == ("PartitionTimeLimit", FOREVER_S)
    assert (job["factor"]["site_factor"], job["factor"]["admin_comment"]) == (-55, "ticket 5")
    assert (job["reservation"]["reservation"], reason("reservation")[0]) == ("later", "Reservation")
    parts = [row for row in jobs.values() if row["het_id"] == ids["het"]]
    assert [part["wanted"][0] for part in parts] == [1, 2]
    assert [part["partition"] for part in parts] == ["train", "interactive"]
    cron = [row for row in jobs.values() if row["cron"]]
    assert len(cron) == 1 and cron[0]["wanted"][0] == 1
    assert {(row["user"], row["account"]) for row in job.values()} == {("ann", "vision")}


def test_pyslurms_attributes_give_the_same_table(
    no_leftovers: None, situations: dict[str, int], edge: Agent, lab: Lab
) -> None:
    time.sleep(6)  # a scheduling pass, after which reasons stay
    with Agent(lab, own_edge=False) as other:
        assert (edge.ask("edge"), other.ask("edge")) == ("slurmfair", "pyslurm")
        ours, theirs = edge.read(), other.read()
    unlike = {"site_factor", "gpu_type", "task_list"}  # pyslurm does not tell, or cuts off the throttle
    for column, values in ours["jobs"].items():
        if column not in unlike:
            assert theirs["jobs"][column] == values, column
    assert theirs["nodes"] == ours["nodes"]
    assert theirs["partitions"] == ours["partitions"]


def test_requeued_suspended_and_failed_launches_are_told_apart(lab: Lab, edge: Agent) -> None:
    suspended, requeued = (lab.sbatch("-G1", user="ann") for _ in range(2))
    assert wait_until(lambda: edge.job(requeued)["state"] == 1, 20)
    for action in ("suspend", "resume", "suspend"):
        lab.run(["scontrol", action, str(suspended)])
        time.sleep(1.2)
    lab.run(["scontrol", "requeue", str(requeued)])
    job = edge.job(suspended)
    assert (job["state"], job["priority"], job["held_resources"][0]) == (2, 0, 1)
    assert 1 <= job["suspended_s"] <= 3
    assert job["suspend_from_s"] >= job["start_s"] + job["suspended_s"]
    assert wait_until(lambda: edge.job(requeued)["reason"] == "BeginTime", 20)
    job = edge.job(requeued)
    assert (job["state"], job["restarts"], job["held_resources"]) == (0, 1, [0, 0, 0])


def test_a_launch_failure_reads_as_a_hold_with_a_text(lab: Lab, edge: Agent) -> None:
    lab.path("/tmp/prolog").write_text("#!/bin/sh\nexit 1\n")
    lab.path("/tmp/prolog").chmod(0o755)
    lab.set_conf({"Prolog": "/tmp/prolog"})
    try:
        job_id = lab.sbatch("-G1", "-w", "gpu03", user="ann")
        assert wait_until(lambda: edge.job(job_id)["reason_text"] != "", 30)
        job = edge.job(job_id)
        assert (job["state"], job["priority"]) == (0, 0)
        assert (job["reason"], job["reason_text"]) == ("JobHeldUser", "launch failed requeued held")
        drained = edge.read()["nodes"]
        row = drained["name"].index("gpu03")
        assert (drained["counts"][row], drained["free"][row]) == (False, False)
        assert "DRAIN" in drained["state"][row]
    finally:
        lab.run(["scontrol", "update", "nodename=gpu03", "state=resume"], check=False)
        lab.set_conf({"Prolog": None})


def node(edge: Agent, name: str) -> dict[str, Any]:
    """Return one row of the node table."""
    nodes = edge.read()["nodes"]
    row = nodes["name"].index(name)
    return {column: values[row] for column, values in nodes.items()}


def test_nodes_are_read_with_what_they_have_and_what_is_taken(lab: Lab, edge: Agent) -> None:
    job_id = lab.sbatch("-G", "a100:3", "-c8", "--mem=10G", user="ann")
    shards = [lab.sbatch(f"--gres=shard:{count}", "-w", "gpu01", user="ann") for count in (1, 2)]
    assert wait_until(lambda: all(edge.job(one)["state"] == 1 for one in (job_id, *shards)), 20)
    mixed = node(edge, "gpu04")
    assert mixed["gpu_types"] == [["a100", 4], ["h100", 4]]
    assert (mixed["total"], mixed["used"]) == ([8, 64, 512000], [3, 8, 10240])
    assert mixed["partitions"] == ["train"]
    assert (mixed["counts"], mixed["free"], mixed["draining"]) == (True, True, False)
    shared = node(edge, "gpu01")
    assert (shared["used"][0], shared["partitions"]) == (2, ["interactive", "train"])
    lab.run(["scontrol", "update", "nodename=gpu04", "state=drain", "reason=test"])
    try:
        draining = node(edge, "gpu04")
        assert (draining["counts"], draining["free"], draining["draining"]) == (False, False, True)
    finally:
        lab.run(["scontrol", "update", "nodename=gpu04", "state=resume"])
    parts = {part["name"]: part for part in edge.read()["partitions"]}
    assert parts["interactive"] == {"name": "interactive", "nodes": ["gpu01", "gpu02"], "tier": 1, "up": True}
    assert parts["cpu"]["nodes"] == ["cpu01"]


def test_a_node_in_maintenance_is_no_capacity_for_general_use(lab: Lab, edge: Agent) -> None:
    reserve(lab, "ReservationName=repair", "StartTime=now", "Nodes=gpu02", "Users=root", "Flags=MAINT")
    try:
        assert wait_until(lambda: "MAINTENANCE" in node(edge, "gpu02")["state"], 20)
        row = node(edge, "gpu02")
        assert (row["counts"], row["free"]) == (False, False)
    finally:
        lab.run(["scontrol", "delete", "reservation=repair"])


def test_nothing_new_is_read_without_a_change_and_everything_after_one(lab: Lab, edge: Agent) -> None:
    job_id = lab.sbatch("-H", user="ann")
    before = edge.job(job_id)
    lab.run(["scontrol", "update", f"jobid={job_id}", "nice=5"])
    after = edge.job(job_id)
    assert (before["nice"], after["nice"]) == (0, 5)


def test_texts_that_are_no_utf_8_neither_stop_the_reading_nor_get_lost(lab: Lab, edge: Agent) -> None:
    job_id = lab.sbatch("-H", "--job-name=n\udcff", "--comment=c\udcfe\udcff é", user="ann")
    lab.run(["scontrol", "update", f"jobid={job_id}", "admincomment=a\udcff b"])
    with Agent(lab, own_edge=False) as second_best:
        assert second_best.job(job_id)["admin_comment"] == "a\udcff b"
    job = edge.job(job_id)
    assert (job["name"], job["comment"]) == ("n\ufffd", "c\ufffd\ufffd é")
    assert job["admin_comment"] == "a\udcff b"
    edge.write(job_id, tag=f"{job['admin_comment']} slurmfair:hold")
    assert edge.job(job_id)["admin_comment"] == "a\udcff b slurmfair:hold"


@pytest.mark.slow
def test_reading_costs_at_most_half_of_pyslurm(lab: Lab, edge: Agent) -> None:
    lab.submit_many([["-H", "-G1", f"--job-name=job{i}"] for i in range(4000)], user="ann")
    ours, theirs = edge.ask("best_times", rounds=40)
    print(f"4,000 jobs: {1000 * ours:.1f} ms, pyslurm with eight attributes {1000 * theirs:.1f} ms")
    assert ours <= 0.5 * theirs


@pytest.mark.slow
def test_memory_does_not_grow_with_the_number_of_readings(lab: Lab, edge: Agent) -> None:
    ids = lab.submit_many([["-H", f"--job-name=job{i}"] for i in range(200)], user="ann")
    edge.ask("work", rounds=20, job_ids=ids[:5])
    before_kib = edge.ask("memory_kib")
    edge.ask("work", rounds=100, job_ids=ids[:5])
    assert edge.ask("memory_kib") - before_kib < 1024

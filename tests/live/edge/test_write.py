"""What the edge writes to a real Slurm, and what Slurm answers (SLURM.md 1, 2, 7, 8, 10)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.lab import Lab
from tests.lab.services import wait_until
from tests.live.agent import Agent, Raised

pytestmark = pytest.mark.slurm

HOLD = {"hold": True, "tag": "ticket 7 slurmfair:hold"}


@contextmanager
def counted(lab: Lab, updates: int) -> Iterator[None]:
    """Check how many update requests slurmctld counts meanwhile."""
    before = lab.sdiag()["by_type"].get("REQUEST_UPDATE_JOB", 0)
    yield
    assert lab.sdiag()["by_type"].get("REQUEST_UPDATE_JOB", 0) - before == updates


@pytest.fixture
def blocked(lab: Lab, edge: Agent) -> int:
    """Return a pending job that cannot start, with a nice value of its user."""
    job_id = lab.sbatch("--begin=now+1hour", "-G1", "--nice=3", user="ann")
    assert wait_until(lambda: edge.job(job_id)["reason"] == "BeginTime", 20)
    return job_id


def test_hold_with_tag_is_one_request_and_an_admins_hold(lab: Lab, edge: Agent, blocked: int) -> None:
    with counted(lab, 1):
        answer = edge.write(blocked, **HOLD)
    assert (answer["result"], answer["requests"]) == ("OK", 1)
    job = edge.job(blocked)
    assert (job["priority"], job["reason"], job["reason_text"]) == (0, "JobHeldAdmin", "")
    assert job["admin_comment"] == HOLD["tag"]
    refused = lab.run(["scontrol", "release", str(blocked)], user="ann", check=False)
    assert refused.returncode != 0
    assert edge.job(blocked)["priority"] == 0


def test_release_with_rank_and_tag_is_one_request_and_the_users_nice_survives(
    lab: Lab, edge: Agent, blocked: int
) -> None:
    edge.write(blocked, **HOLD)
    with counted(lab, 1):
        answer = edge.write(blocked, release=True, rank=1000, tag="ticket 7 slurmfair:free")
    assert (answer["result"], answer["requests"]) == ("OK", 1)
    job = edge.job(blocked)
    assert (job["priority"], job["site_factor"], job["nice"]) == (997, 1000, 3)
    assert job["admin_comment"] == "ticket 7 slurmfair:free"


def test_a_rank_and_a_new_tag_are_one_request_each(lab: Lab, edge: Agent, blocked: int) -> None:
    with counted(lab, 1):
        edge.write(blocked, rank=2_000_000_000)
    assert edge.job(blocked)["priority"] == 1_999_999_997
    with counted(lab, 1):
        edge.write(blocked, tag="slurmfair:free")
    assert edge.job(blocked)["admin_comment"] == "slurmfair:free"
    with counted(lab, 0):
        assert edge.write(blocked)["requests"] == 0


def test_a_factor_goes_back_to_zero(edge: Agent, blocked: int) -> None:
    edge.write(blocked, rank=500)
    edge.write(blocked, rank=0)
    assert (edge.job(blocked)["site_factor"], edge.job(blocked)["priority"]) == (0, 1)


def test_a_held_job_takes_a_rank_for_later(edge: Agent, blocked: int) -> None:
    edge.write(blocked, **HOLD)
    assert edge.write(blocked, rank=700)["result"] == "OK"
    assert (edge.job(blocked)["priority"], edge.job(blocked)["site_factor"]) == (0, 700)
    edge.write(blocked, release=True)
    assert edge.job(blocked)["priority"] == 697


def test_a_hold_writes_only_the_waiting_rest_of_an_array(lab: Lab, edge: Agent) -> None:
    job_id = lab.sbatch("--array=0-9%2", "-G1", user="ann")
    assert wait_until(lambda: edge.job(job_id)["reason"] == "JobArrayTaskLimit", 20)
    edge.write(job_id, **HOLD)
    jobs = edge.jobs()
    assert (jobs[job_id]["priority"], jobs[job_id]["tasks_waiting"]) == (0, 8), "not split by us"
    running = [row for row in jobs.values() if row["array_id"] == job_id and row["state"] == 1]
    assert [row["priority"] > 0 for row in running] == [True, True]


def test_the_priority_channel_pins_and_needs_two_requests_to_release_with_a_rank(
    lab: Lab, edge: Agent, blocked: int
) -> None:
    with Agent(lab, channel="priority") as pinning:
        with counted(lab, 1):
            pinning.write(blocked, rank=5000)
        assert edge.job(blocked)["priority"] == 5000
        with counted(lab, 1):
            pinning.write(blocked, rank=5000, **HOLD)
        assert edge.job(blocked)["priority"] == 0
        assert pinning.write(blocked, rank=5000)["result"] == "REREAD"
        with counted(lab, 2):
            answer = pinning.write(blocked, release=True, rank=4000, tag="slurmfair:free")
        assert (answer["result"], answer["requests"]) == ("OK", 2)
        job = edge.job(blocked)
        assert (job["priority"], job["admin_comment"]) == (4000, "slurmfair:free")


@pytest.mark.parametrize("own_edge", [True, False])
def test_each_refusal_falls_into_its_class(lab: Lab, edge: Agent, own_edge: bool) -> None:
    running, ended, held = (lab.sbatch("-G1", user="ann") for _ in range(3))
    assert wait_until(lambda: edge.job(held)["state"] == 1, 20)
    lab.run(["scancel", str(ended)])
    lab.run(["scontrol", "requeuehold", str(held)])
    lab.run(["scrontab", "-"], user="ann", input="0 0 1 1 * /bin/true\n")
    cron = next(row["job_id"] for row in edge.jobs().values() if row["cron"])
    assert wait_until(lambda: edge.job(held)["state"] == 0, 20)
    answers: dict[str, tuple[str, int]] = {}
    with Agent(lab, own_edge=own_edge) as agent, Agent(lab, channel="priority", own_edge=own_edge) as pinning:

        def seen(answer: dict[str, Any]) -> tuple[str, int]:
            return answer["result"], answer["error"]

        answers["unknown"] = seen(agent.write(4_000_000, rank=5))
        answers["ended"] = seen(agent.write(ended, rank=5))
        answers["running"] = seen(agent.write(running, rank=5))
        answers["held"] = seen(pinning.write(held, rank=5))
        answers["cron"] = seen(agent.write(cron, rank=5))
    lab.run(["scrontab", "-r"], user="ann")
    assert answers == {
        "unknown": ("MOVED_ON", 2017),
        "ended": ("MOVED_ON", 2084),
        "running": ("OK", 0),  # Slurm takes it silently
        "held": ("REREAD", 2042),
        "cron": ("SKIP", 2096),
    }


@pytest.mark.parametrize("own_edge", [True, False])
@pytest.mark.parametrize("user", ["oper", "nobody2", "ann"])
def test_without_the_rights_it_stops_with_the_line_that_mends_it(
    lab: Lab, blocked: int, edge: Agent, user: str, own_edge: bool
) -> None:
    with Agent(lab, user=user, own_edge=own_edge) as agent, pytest.raises(Raised) as caught:
        agent.write(blocked, rank=5, tag="slurmfair:free")
    assert caught.value.name == "SlurmRefused"
    assert f"sacctmgr -i add user {user} account=root adminlevel=Administrator" in caught.value.message
    assert edge.job(blocked)["admin_comment"] == ""


def test_slurmctld_away_is_told_and_other_threads_go_on(lab: Lab, edge: Agent, blocked: int) -> None:
    edge.read()
    lab.stop_service("slurmctld")
    try:
        with pytest.raises(Raised) as caught:
            edge.read()
        assert caught.value.name == "SlurmUnavailable" and "1800" in caught.value.message
        waited = edge.ask("write_while_counting", job_id=blocked, rank=5)
        assert waited["raised"] == "SlurmUnavailable"
        assert waited["turns"] > 500 * min(waited["took_s"], 1.0) * 0.5, "the lock of Python was kept"
    finally:
        lab.start_service("slurmctld")
    assert edge.job(blocked)["state"] == 0
    assert edge.write(blocked, rank=6)["result"] == "OK"


def test_munge_away_is_told(lab: Lab, edge: Agent, blocked: int) -> None:
    lab.stop_service("munged")
    try:
        for ask in (edge.read, lambda: edge.write(blocked, rank=5)):
            with pytest.raises(Raised) as caught:
                ask()
            assert caught.value.name == "SlurmUnavailable"
            assert "munge" in caught.value.message
    finally:
        lab.start_service("munged")
    assert wait_until(lambda: edge.job(blocked)["state"] == 0, 20)


def test_a_thousand_ranks_are_written_in_seconds(lab: Lab, edge: Agent) -> None:
    ids = lab.submit_many([["-H"]] * 1000, user="ann")
    changes = [{"job_id": job_id, "rank": 1000 + job_id} for job_id in ids]
    before = lab.sdiag()["dbd_agent_queue_size"]
    one = edge.write_many(changes, threads=1)
    four = edge.write_many([{**change, "rank": change["rank"] + 1} for change in changes], threads=4)
    print(f"1,000 ranks: {one['took_s']:.2f} s from one thread, {four['took_s']:.2f} s from four")
    assert one["results"] == four["results"] == {"OK": 1000}
    assert one["took_s"] < 5 and four["took_s"] < 5
    factors = {job["site_factor"] - job["job_id"] for job in edge.jobs().values() if job["state"] == 0}
    assert factors == {1001}
    assert lab.sdiag()["dbd_agent_queue_size"] <= before + 10


@pytest.mark.parametrize("own_edge", [True, False])
def test_an_array_is_let_go_in_part_with_one_request(lab: Lab, own_edge: bool) -> None:
    array = lab.sbatch("-G1", "--array=0-9%7", "--hold", user="ann")
    note = "slurmfair:free slurmfair:throttle=3,was=7"
    with Agent(lab, own_edge=own_edge) as agent:
        agent.write(array, hold=True, tag="slurmfair:hold")
        with counted(lab, 1):
            answer = agent.write(array, release=True, rank=1000, tag=note, throttle=3)
        assert (answer["result"], answer["requests"]) == ("OK", 1)
        job = agent.job(array)
        assert (job["priority"], job["admin_comment"], job["tasks_throttle"]) == (1000, note, 3)
        agent.wait_for_reason(array, "JobArrayTaskLimit")
        assert agent.job(array)["tasks_waiting"] == 7, "three tasks run"
        with counted(lab, 1):
            agent.write(array, hold=True, tag="slurmfair:hold", throttle=7)
        job = agent.job(array)
        assert (job["priority"], job["admin_comment"], job["tasks_throttle"]) == (0, "slurmfair:hold", 7)
        agent.write(array, release=True, tag="slurmfair:free", throttle=0)
        assert agent.job(array)["tasks_throttle"] == 0

"""What explain says on a real Slurm of jobs that lack room: on which nodes, for whom it is kept, and until when."""

from __future__ import annotations

import json
from typing import Any

from slurmfair.model import Outcome
from slurmfair.view import PROMISED
from tests.live.policies import gpu_pool, quota
from tests.live.site import Site

POLICY = gpu_pool(
    quota("vision", deserved=16),
    quota("speech", deserved=16),
    pool=("policy: round_robin",),
)
GANG = ("-N2", "--gres=gpu:h100:8")


def explain(site: Site, job: int, user: str = "eve") -> str:
    return site.report("slurmfair", "explain", str(job), user=user)


def as_json(site: Site, job: int) -> dict[str, Any]:
    (one,) = json.loads(site.report("slurmfair", "explain", "--json", str(job)))["explanations"]
    found: dict[str, Any] = one
    return found


def test_a_job_that_is_held_back_is_told_for_whom_and_why_that_one_goes_first(site: Site) -> None:
    site.write_policy(POLICY)
    nodes = ("gpu01", "gpu02", "gpu03")
    taken = [
        site.submit("--gpus=h100:8", "-N1", "-w", node, "--time=30", "-A", "speech", user="eve")
        for node in nodes
    ]
    rest = site.submit("--gpus=8", "-N1", "-w", "gpu04", user="eve")
    site.wait(lambda: len(site.running([*taken, rest])) == 4, "speech holds all")
    site.start()
    gang = site.submit(*GANG)
    site.wait(lambda: site.row(gang).get("reserved") == PROMISED, "room is kept for the gang")
    late = site.submit("--gpus=h100:1", "--time=2:00:00", user="eve")
    site.wait(lambda: site.held_by_us([late]), "the late one waits")
    site.end(rest)
    site.wait(lambda: site.outcome(late) == Outcome.HELD_BACK, "the late one leaves room")
    assert site.row(late)["blocker"] == gang

    told = explain(site, late)
    assert (
        f"kept for job {gang} (ann, vision), which needs 16 GPUs, and vision holds 0 of a fair share" in told
    )
    assert "promised to it by an earlier decision" in told
    assert "must not take it, because with it speech would hold 25 of a fair share of 16 GPUs" in told
    assert f"cannot delay job {gang} (it must end by " in told
    assert (as_json(site, late)["code"], as_json(site, late)["waits_for"]["number"]) == ("HELD_BACK", gang)

    told = explain(site, gang)
    assert (
        "It needs 2 nodes with 8 GPUs free each; none of the 4 nodes that it may use has so many now" in told
    )
    assert "Room is kept for it" in told
    assert "in 29 min" in told.partition("As much as it needs is free at ")[2].partition("at the latest")[0]

    site.end(taken[0])
    site.wait(
        lambda: "1 of the 4 nodes that it may use has so many now" in explain(site, gang), "one node is free"
    )
    assert as_json(site, gang)["nodes"] == {"nodes": 2, "each": 8, "found": 1, "usable": 4}
    site.end(taken[1])
    site.wait(lambda: site.running([gang]), "the gang starts")


def test_what_is_free_in_too_small_pieces_is_told_so(site: Site) -> None:
    site.write_policy(POLICY)
    nodes = ("gpu01", "gpu02", "gpu03")
    taken = site.submit_many([["--gpus=h100:4", "-N1", "-w", node] for node in nodes], user="eve")
    site.wait(lambda: len(site.running(taken)) == 3, "four are left on each node")
    site.start()
    gang = site.submit(*GANG)
    site.wait(lambda: site.outcome(gang) == Outcome.PLACEMENT, "by count it fits")
    told = explain(site, gang)
    assert "By count as much as it needs is free, but it needs 8 GPUs of type h100" in told
    assert (
        "It needs 2 nodes with 8 GPUs free each; none of the 4 nodes that it may use has so many now" in told
    )
    assert "Slurm did not start it" not in told, "nobody has let Slurm try"
    site.end(*taken[:2])
    site.wait(lambda: site.running([gang]), "two whole nodes are free")

"""Time-based fair share on a real Slurm: a large job gets its turn, use settles at the weights, switched while running."""

from __future__ import annotations

import math
import random
import time
from typing import Any

from slurmfair.view import load
from tests.live.booked import booked, held_by_second
from tests.live.policies import gpu_pool, quota
from tests.live.site import STATE, Site

GPUS = 32
SLURM_S = 7  # Slurm's own delay until a job starts that may: a pass of backfill and of the main scheduler


def policy(enabled: str, past: str, deserved: int, weight: int) -> str:
    return gpu_pool(
        quota("vision", deserved=deserved, weight=weight),
        quota("speech", deserved=deserved, weight=1),
        pool=(
            "policy: round_robin",
            f"fairshare: {{enabled: {enabled}, k: 1, {past}, min_history: 5s}}",
        ),
    )


def row_of(site: Site, name: str) -> dict[str, Any]:
    """Return the published row of a quota."""
    rows = load(site.lab.path(f"{STATE}/view.npz")).quotas
    return next(row for row in rows if row["quota"] == name)


def stream(site: Site, user: str, lengths_s: list[int]) -> list[int]:
    """Submit 1-GPU jobs of these lengths."""
    return site.lab.submit_many([["--gpus=1", f"--wrap=exec sleep {n}"] for n in lengths_s], user=user)


def test_a_job_larger_than_its_share_waits_for_ever_without_history_and_gets_its_turn_with_it(
    site: Site,
) -> None:
    """The story of the small jobs.

    B needs 24 of 32 GPUs, its share without history is 16: while A's 1-GPU jobs refill what gets free it
    never starts. With history A's use u of the surplus moves the shares: of SEMANTICS 7.3 with K = 1,
    weights 1/2 and B unused, P = 1 - u and 1, so F(B) = 32 / (2 - u). B is owed 24 once that rounds to 24.
    From then on room is kept for it (SEMANTICS 5): no job of A starts before those that run have ended.
    """
    needed, longest_s, cycle_s = 24, 14, 2 * site.interval_s
    enough = 2 - GPUS / (needed - 0.5)
    bound_s = 2 * cycle_s + longest_s + SLURM_S
    chance = random.Random(4)
    lengths_s = [chance.randint(4, longest_s) for _ in range(GPUS)]
    lengths_s += [chance.randint(longest_s - 4, longest_s) for _ in range(230)]

    site.write_policy(policy(enabled="false", past="window: {size: 30s}", deserved=0, weight=1))
    site.start()
    small = stream(site, "ann", lengths_s)
    site.wait(lambda: len(site.running(small)) >= GPUS - 1, "A has the whole pool")
    large = site.submit("-N3", "--gres=gpu:h100:8", user="eve")
    site.always(lambda: not site.running([large]), "B waits while history has no weight", bound_s + 3)
    assert row_of(site, "speech")["fair_share"] == GPUS / 2
    assert row_of(site, "vision")["usage"] > enough, "use is recorded while fair share is off"

    site.report("slurmfair", "set", "gpu", "fairshare.enabled=true")
    on_s = time.time()
    site.wait(lambda: row_of(site, "speech")["fair_share"] > needed - 0.5, "the next cycle uses it", 10)
    site.wait(lambda: site.starts([large]), "B starts", bound_s + 20)
    waited_s = site.jobs()[large].start_s - on_s
    print(f"B started {waited_s:.0f} s after the switch, the bound is {bound_s:.0f} s")
    assert waited_s <= bound_s

    running = site.running(small)
    site.report("slurmfair", "set", "gpu", "fairshare.enabled=false")
    site.wait(lambda: row_of(site, "speech")["fair_share"] == GPUS / 2, "the next cycle is without it", 10)
    jobs = site.jobs()
    assert jobs[large].state == "RUNNING", "who runs is left alone"
    assert all(jobs[one].state in ("RUNNING", "COMPLETING", "COMPLETED") for one in running)
    site.report("slurmfair", "unset", "gpu", "fairshare.enabled")


def test_use_settles_at_the_weights_and_deserved_stays_whatever_the_history(site: Site) -> None:
    """Weights 3:1, 4 of 32 deserved each, speech has used all of the surplus when vision comes.

    Then u = 0 and 1, so P(speech) = 1/4 + (1/4 - 1) < 0: nothing but what it deserves. As its use fades the
    parts of the surplus become 3/4 and 1/4, 18 and 6 GPUs of 24, by Slurm's own accounting.
    """
    deserved, settles_s, measured_s = 4, 30, 45
    chance = random.Random(5)
    past = "half_life: 8s, window: {size: 2m}"
    site.write_policy(policy(enabled="true", past=past, deserved=deserved, weight=3))
    site.start()
    speech = stream(site, "eve", [chance.randint(6, 12) for _ in range(32 + 140)])
    site.wait(lambda: len(site.running(speech)) >= GPUS - 1, "speech has the whole pool")
    site.wait(lambda: row_of(site, "speech")["usage"] > 0.75, "and has used most of the surplus")
    stream(site, "ann", [chance.randint(6, 12) for _ in range(260)])
    came_s = math.ceil(time.time())
    least: list[float] = []

    def look() -> bool:
        row = row_of(site, "speech")
        least.append(row["fair_share"])
        return time.time() > came_s + settles_s + measured_s

    site.wait(look, "measured", settles_s + measured_s + 10, every_s=1)
    now_s = int(time.time()) - 1
    assert min(least) >= deserved
    assert min(least) < deserved + 2, "its use took nearly all of the surplus from it"
    site.lab.run(["scancel", "--user=ann", "--user=eve"])
    runs = booked(site.lab, now_s)
    held = {name: held_by_second(runs, name, came_s, now_s) for name in ("vision", "speech")}
    over = {name: [max(0, gpus - deserved) for gpus in held[name]] for name in held}
    used = {name: sum(over[name][-measured_s:]) for name in over}
    part = used["vision"] / (used["vision"] + used["speech"])
    print(f"over-quota GPU-seconds {used}, vision's part {part:.3f}; speech held {held['speech']}")
    assert abs(part - 0.75) <= 0.05
    assert min(sum(held["speech"][i : i + 5]) for i in range(len(over["speech"]) - 5)) >= 5 * (deserved - 1.5)

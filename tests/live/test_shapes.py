"""Jobs of every shape: arrays, heterogeneous jobs, several partitions, and each form of asking for GPUs."""

from __future__ import annotations

from slurmfair.view import load
from tests.live.policies import gpu_pool, quota
from tests.live.site import STATE, Site
from tests.request_forms import FORMS

POLICY = gpu_pool(
    quota("vision", deserved=16, policy="fifo"),
    quota("speech", deserved=16, policy="fifo"),
)
N_GPUS = 32
WHOLE_NODE = ("--gpus=8", "-N1")


def demand(site: Site, quota: str) -> float:
    """Return what the quota's jobs hold and wait for, in GPUs, as published."""
    rows = load(site.lab.path(f"{STATE}/view.npz")).quotas
    return float(next(row["demand"] for row in rows if row["quota"] == quota))


def n_records(site: Site, array: int) -> int:
    return sum(job.array_id == array for job in site.jobs().values())


def test_arrays_are_held_and_ranked_whole_and_count_by_their_throttle(site: Site) -> None:
    site.write_policy(POLICY)
    fillers = site.fill(N_GPUS - 2, user="eve")
    site.start()
    throttled = site.submit("--gpus=1", "--array=0-49%4", user="ann")
    site.wait(lambda: len(site.array_tasks(throttled)) == 2, "two tasks run")
    behind = site.submit("--gpus=1", "--array=0-9", user="bob")
    site.wait(lambda: site.held_by_us([behind]), "the array behind it is held")
    site.wait(lambda: site.row(throttled).get("tasks") == 2, "the throttle leaves two of 48")
    assert demand(site, "vision") == 2 + 2 + 10
    assert (n_records(site, throttled), n_records(site, behind)) == (3, 1)
    site.end(*fillers[:4])
    site.wait(lambda: len(site.array_tasks(throttled)) == 4, "four tasks run")
    site.wait(lambda: len(site.array_tasks(behind)) == 2, "the other array takes what is left")
    assert not site.held_by_us([throttled, behind])
    assert (n_records(site, throttled), n_records(site, behind)) == (5, 3)


def test_both_parts_of_a_heterogeneous_job_are_held_ranked_and_started_together(site: Site) -> None:
    site.write_policy(POLICY)
    fillers = site.fill(N_GPUS, user="eve")
    head = site.submit(*WHOLE_NODE, user="ann")
    site.start()
    words = [
        "sbatch",
        "--parsable",
        "-o",
        "/dev/null",
        "--gpus=1",
        ":",
        "--gpus=2",
        "--wrap",
        "exec sleep 600",
    ]
    leader = int(site.lab.run(words, user="bob").stdout)
    parts = [leader, leader + 1]
    site.wait(lambda: site.held_by_us(parts) == parts, "both parts held")
    assert demand(site, "vision") == 8 + 3
    site.end(head)
    site.wait(lambda: not site.held_by_us(parts), "both released")
    ranks = [site.jobs()[part].priority for part in parts]
    assert ranks[0] == ranks[1] > 1
    jobs = site.jobs()
    on_node = {name: [one for one in fillers if jobs[one].nodes == name] for name in ("gpu01", "gpu02")}
    site.end(on_node["gpu01"][0], *on_node["gpu02"][:2])
    site.wait(lambda: site.running(parts) == parts, "both run, on a node each as Slurm wants it")


def test_a_job_for_two_partitions_is_one_job_of_its_quota_also_after_a_requeue(site: Site) -> None:
    site.write_policy(POLICY)
    fillers = site.fill(N_GPUS, user="eve")
    head = site.submit(*WHOLE_NODE, "-p", "interactive,train", user="ann")
    site.start()
    behind = site.submit("--gpus=1", "-p", "train,interactive", user="bob")
    site.wait(lambda: site.held_by_us([behind]), "held in both partitions")
    assert site.outcome(head) is not None and demand(site, "vision") == 8 + 1
    site.end(*fillers)
    site.wait(lambda: len(site.running([head, behind])) == 2, "both run")
    site.wait(lambda: demand(site, "vision") == 9, "charged once")
    again = site.fill(N_GPUS - 9, user="eve")
    site.lab.run(["scontrol", "requeue", str(head)])
    site.wait(lambda: site.states([head]) == ["PENDING"], "requeued")
    assert set(site.jobs()[head].partition.split(",")) == {"train", "interactive"}
    site.wait(lambda: site.running([head]), "it starts again", 90)
    assert site.row(head)["quota"] == "vision" and len(site.running(again)) == N_GPUS - 9


def test_every_form_of_asking_for_gpus_is_counted_held_and_started_right(site: Site) -> None:
    forms = [form for form in FORMS if "shard" not in form[0] and "-p cpu" not in form[0]]
    assert len(forms) >= 24
    site.write_policy(POLICY)
    fillers = site.fill(N_GPUS, user="eve")
    ids = site.submit_many([form.split() for form, *_ in forms], user="ann", seconds=1)
    site.start()
    head, *behind = ids
    site.wait(lambda: site.held_by_us(ids) == behind, "all held but the head")
    site.wait(lambda: set(ids) <= set(site.published()), "published")
    rows = site.published()
    columns = ("gpus", "cpus", "mem_mib", "nodes", "gpu_type")
    for job, (form, *expected) in zip(ids, forms, strict=True):
        assert [rows[job][column] for column in columns] == expected, form
    assert demand(site, "vision") == sum(gpus for _, gpus, *_ in forms)
    site.end(*fillers)
    site.wait(lambda: set(site.states(ids)) == {"COMPLETED"}, "all have run", 120)
    assert site.states([head]) == ["COMPLETED"]

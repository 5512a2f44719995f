"""Which jobs stand in which queue, what they want, and what room a pool has."""

from __future__ import annotations

import numpy as np
import pytest

from slurmfair.config_file import parse_policy
from slurmfair.model import GPU
from slurmfair.snapshot import PoolSnapshot, Snapshot, take_snapshot
from slurmfair.standing import Standing, reason_classes, standings
from slurmfair.throttle import startable_tasks, throttles_of
from tests.tables import NOW_S, jobs_of, nodes_of, reading_of

POLICY = parse_policy(
    """
version: 1
pools:
  gpu:
    partitions: [train, interactive]
    resource: gres/gpu
    quotas:
      vision: {match: {accounts: [vision]}, deserved: 16}
      llm:
        quotas:
          pretrain: {match: {accounts: [llm-pretrain]}, deserved: 8}
          eval: {match: {accounts: [llm-eval]}}
""",
    "test",
)
NODES = nodes_of(
    {"name": "gpu01", "partitions": ("train", "interactive"), "used": (6, 6, 6), "used_types": {"h100": 6}},
    {"name": "gpu02", "partitions": ("train",)},
    {"name": "gpu03", "gpus": {"a100": 4, "h100": 4}, "used": (3, 3, 3), "used_types": {"a100": 3}},
    {"name": "gpu04", "counts": False, "free": False, "state": "DOWN"},
    {"name": "cpu01", "partitions": ("cpu",), "gpus": {}},
)


def snapshot_of(*rows: dict[str, object], nodes=NODES) -> Snapshot:
    jobs = jobs_of(*rows)
    standing = standings(jobs, reason_classes(jobs), NOW_S)
    return take_snapshot(reading_of(jobs, nodes), standing, throttles_of(jobs), POLICY)


def standing_of(**fields: object) -> Standing:
    jobs = jobs_of({"job_id": 1, **fields})
    return Standing(standings(jobs, reason_classes(jobs), NOW_S)[0])


HOLD, GATE = "slurmfair:hold", "slurmfair:gate"


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, Standing.OPEN),
        ({"reason": "Resources"}, Standing.OPEN),
        ({"reason": "None"}, Standing.OPEN),
        ({"priority": 0, "reason": "JobHeldAdmin", "admin_comment": HOLD}, Standing.HELD),
        ({"priority": 0, "reason": "JobHeldAdmin", "admin_comment": f"ticket 7 {HOLD}"}, Standing.HELD),
        ({"priority": 0, "reason": "JobHeldAdmin"}, Standing.FOREIGN_HOLD),
        ({"priority": 0, "reason": "JobHeldUser", "admin_comment": HOLD}, Standing.FOREIGN_HOLD),
        ({"priority": 0, "reason": "JobHeldUser", "admin_comment": GATE}, Standing.GATED),
        ({"priority": 0, "reason": "JobHeldUser"}, Standing.FOREIGN_HOLD),
        (
            {
                "priority": 0,
                "reason": "JobHeldUser",
                "reason_text": "launch failed requeued held",
                "admin_comment": GATE,
            },
            Standing.FOREIGN_HOLD,
        ),
        ({"priority": 0, "reason": "JobHoldMaxRequeue", "admin_comment": HOLD}, Standing.FOREIGN_HOLD),
        ({"priority": 7, "admin_comment": HOLD}, Standing.RELEASED),
        ({"dependent": True, "reason": "Dependency"}, Standing.INELIGIBLE),
        ({"begin_s": NOW_S + 60, "reason": "BeginTime"}, Standing.INELIGIBLE),
        ({"reason": "JobArrayTaskLimit"}, Standing.INELIGIBLE),
        ({"reason": "QOSGrpGRES"}, Standing.SITE_LIMIT),
        ({"reason": "BadConstraints"}, Standing.CANNOT_RUN),
        ({"reason": "SomethingOfTheNextRelease"}, Standing.UNKNOWN),
        ({"cron": True, "reason": "BeginTime"}, Standing.CRON),
        ({"cron": True, "priority": 0, "reason": "JobHeldAdmin", "admin_comment": HOLD}, Standing.CRON),
        ({"reservation": "maint"}, Standing.RESERVATION),
        ({"state": 1}, Standing.RUNNING),
        ({"state": 1, "priority": 0, "admin_comment": HOLD}, Standing.LATE_HOLD),
        ({"state": 1, "priority": 0, "admin_comment": "slurmfair:free"}, Standing.RUNNING),
        ({"state": 2, "priority": 0, "admin_comment": HOLD}, Standing.SUSPENDED),
        ({"state": 3 | 0x8000}, Standing.RUNNING),
        ({"state": 0x8000}, Standing.RUNNING),
        ({"state": 3}, Standing.ENDED),
        ({"state": 0x800}, Standing.ENDED),
    ],
)
def test_each_kind_of_record_has_its_standing(fields, expected):
    assert standing_of(**fields) is expected


def pool(snapshot: Snapshot) -> PoolSnapshot:
    return snapshot.pools[0]


def test_a_throttled_array_may_start_only_what_its_throttle_leaves():
    jobs = jobs_of(
        {"job_id": 10, "array_id": 10, "tasks_waiting": 48, "tasks_throttle": 4},
        {"job_id": 11, "array_id": 10, "array_task": 0, "state": 1, "held_resources": (1, 1, 1)},
        {"job_id": 12, "array_id": 10, "array_task": 1, "state": 1, "held_resources": (1, 1, 1)},
        {"job_id": 13, "array_id": 13, "tasks_waiting": 2, "tasks_throttle": 4},
    )
    assert startable_tasks(jobs, throttles_of(jobs)).tolist() == [2, 1, 1, 2]


def test_an_array_at_its_throttle_is_not_in_the_queue():
    rows = [
        {"job_id": 10, "array_id": 10, "tasks_waiting": 5, "tasks_throttle": 1},
        {"job_id": 11, "array_id": 10, "array_task": 0, "state": 1, "held_resources": (1, 1, 1)},
        {"job_id": 12},
    ]
    snapshot = snapshot_of(*rows)
    assert snapshot.reading.jobs.job_id[pool(snapshot).entries.rows].tolist() == [12]


def test_a_heterogeneous_job_is_one_entry_with_the_sum_of_its_components():
    snapshot = snapshot_of(
        {"job_id": 21, "het_id": 20, "wanted": (4, 2, 2)},
        {"job_id": 20, "het_id": 20, "wanted": (8, 1, 1), "nodes_wanted": 2},
        {"job_id": 5},
    )
    entries = pool(snapshot).entries
    assert snapshot.reading.jobs.job_id[entries.rows].tolist() == [5, 20]
    assert entries.need.tolist() == [[1, 1, 1], [12, 3, 3]]
    assert entries.nodes.tolist() == [1, 3]
    assert sorted(snapshot.reading.jobs.job_id[entries.records].tolist()) == [5, 20, 21]


def test_a_heterogeneous_job_with_a_foreign_hold_is_left_alone_as_a_whole():
    snapshot = snapshot_of(
        {"job_id": 20, "het_id": 20},
        {"job_id": 21, "het_id": 20, "priority": 0, "reason": "JobHeldUser"},
    )
    assert len(pool(snapshot).entries.rows) == 0


def test_jobs_of_unmanaged_partitions_and_accounts_stand_in_no_queue():
    snapshot = snapshot_of({"job_id": 1, "partition": "cpu"}, {"job_id": 2, "account": "stranger"})
    assert len(pool(snapshot).entries.rows) == 0
    assert snapshot.pool_of.tolist() == [-1, 0]


def test_an_exclusive_job_wants_whole_nodes():
    snapshot = snapshot_of({"job_id": 1, "exclusive": True, "nodes_wanted": 2, "wanted": (1, 1, 1)})
    assert pool(snapshot).entries.need.tolist() == [[16, 128, 1024000]]


def test_gpus_without_a_node_count_are_spread_over_as_many_nodes_as_they_need():
    snapshot = snapshot_of({"job_id": 1, "wanted": (20, 1, 1), "nodes_wanted": 1})
    assert pool(snapshot).entries.nodes.tolist() == [3]


def test_what_runs_is_charged_to_its_quota_and_all_above():
    snapshot = snapshot_of(
        {"job_id": 1, "state": 1, "account": "llm-pretrain", "held_resources": (4, 4, 4)},
        {"job_id": 2, "state": 1, "account": "llm-eval", "held_resources": (2, 2, 2)},
        {"job_id": 3, "state": 2, "account": "llm-eval", "held_resources": (8, 2, 2)},
        {"job_id": 4, "state": 1, "account": "stranger", "held_resources": (1, 1, 1)},
    )
    held = dict(zip(pool(snapshot).quotas.path, pool(snapshot).allocated[:, 0].tolist(), strict=True))
    assert held == {"vision": 0, "llm": 6, "llm.pretrain": 4, "llm.eval": 2}
    assert len(pool(snapshot).running.rows) == 3


def test_capacity_counts_nodes_that_are_up_and_configured_counts_all():
    room = pool(snapshot_of({"job_id": 1})).room
    assert (room.capacity[GPU], room.configured[GPU], room.free[GPU]) == (24, 32, 2 + 8 + 5)


def test_draining_nodes_count_with_what_is_allocated_on_them_only():
    nodes = nodes_of({"used": (3, 3, 3), "counts": False, "draining": True, "free": False}, {})
    room = pool(snapshot_of({"job_id": 1}, nodes=nodes)).room
    assert (room.capacity[GPU], room.free[GPU]) == (11, 8)


def classes_of(row: dict[str, object]) -> set[str]:
    taken = pool(snapshot_of({"job_id": 1, **row}))
    mask = int(taken.entries.classes[0])
    return {name for c, name in enumerate(taken.room.class_name) if mask >> c & 1}


def test_a_job_may_use_the_nodes_of_all_its_partitions_and_only_of_its_type():
    both = "interactive+train:h100"
    assert classes_of({}) == {both, "train:h100", "train:any"}
    assert classes_of({"partition": "interactive"}) == {both}
    assert classes_of({"gpu_type": "a100"}) == {"train:a100"}
    assert {name.split(":")[1] for name in classes_of({"gpu_type": "h100"})} == {"h100"}


def test_a_job_that_asks_for_two_types_may_use_nodes_that_have_both():
    assert classes_of({"gpu_type": "a100,h100"}) == {"train:any"}
    assert classes_of({"gpu_type": "a100,l40"}) == {"train:a100"}, "no node has both, so it must be spread"


def test_a_node_with_four_gpus_of_one_type_serves_any_job_beside_one_with_four_of_two_types():
    nodes = nodes_of({"gpus": {"h100": 4}}, {"gpus": {"a100": 4, "h100": 4}})
    taken = pool(snapshot_of({"job_id": 1, "wanted": (4, 1, 1)}, nodes=nodes))
    mask = int(taken.entries.classes[0])
    sizes = [int(taken.room.class_node_size[c]) for c in range(len(taken.room.class_name)) if mask >> c & 1]
    assert sorted(sizes) == [4, 8]


def test_free_gpus_of_a_node_with_two_types_are_told_by_type():
    room = pool(snapshot_of({"job_id": 1})).room
    free_of = {
        (name, int(size)): np.flatnonzero(row).tolist()
        for name, size, row in zip(room.class_name, room.class_node_size, room.shape, strict=True)
    }
    assert free_of[("train:a100", 4)] == [1]
    assert free_of[("train:h100", 4)] == [4]
    assert free_of[("train:any", 8)] == [5]

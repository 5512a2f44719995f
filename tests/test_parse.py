"""Tests of slurmfair.slurm.parse: texts recorded from a Slurm 26.05.5, and those of SLURM.md."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmfair.slurm import parse
from slurmfair.slurm.parse import Tag, Waits


@pytest.mark.parametrize(
    ("reason", "text", "waits"),
    [
        ("None", "", Waits.TURN),
        ("Priority", "", Waits.TURN),
        ("Resources", "", Waits.TURN),
        ("Resources", "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions",
         Waits.TURN),
        ("ReqNodeNotAvail", "ReqNodeNotAvail, May be reserved for other job", Waits.TURN),
        ("ReqNodeNotAvail", "ReqNodeNotAvail, UnavailableNodes:gpu[01-02]", Waits.CLEARS),
        ("ReqNodeNotAvail", "ReqNodeNotAvail, Reserved for maintenance", Waits.CLEARS),
        ("BeginTime", "", Waits.CLEARS),
        ("JobArrayTaskLimit", "", Waits.CLEARS),
        ("QOSGrpGRES", "", Waits.LIMIT),
        ("QOSMaxJobsPerUserLimit", "", Waits.LIMIT),
        ("QOSNotAllowed", "", Waits.NEVER),
        ("AssocGrpCpuLimit", "", Waits.LIMIT),
        ("AssociationJobLimit", "", Waits.LIMIT),
        ("MaxMemPerLimit", "", Waits.LIMIT),
        ("MaxCpuPerAccount", "", Waits.LIMIT),
        ("MaxGRESRunMinsPerUser", "", Waits.LIMIT),
        ("MaxPoweredUpNodes", "", Waits.CLEARS),
        ("PartitionTimeLimit", "", Waits.NEVER),
        ("DependencyNeverSatisfied", "", Waits.NEVER),
        ("JobHeldAdmin", "", Waits.ADMIN_HOLD),
        ("JobHeldAdmin", "License request 'x:1' is no longer valid, holding job", Waits.HELD),
        ("JobHeldUser", "", Waits.HELD),
        ("JobHeldUser", "launch failed requeued held", Waits.HELD),
        ("JobHoldMaxRequeue", "launch failure limit exceeded requeued held", Waits.HELD),
        ("NonZeroExitCode", "", Waits.ENDED),
        ("SomethingNew", "", Waits.UNKNOWN),
        ("", "uid 2001 not in group permitted to use this partition (train)", Waits.UNKNOWN),
    ],
)  # fmt: skip
def test_reasons_fall_into_the_classes_of_the_sheet(reason: str, text: str, waits: Waits) -> None:
    assert parse.waits_for(reason, text) is waits


@pytest.mark.parametrize(
    ("shown", "name"),
    [
        ("Priority", "Priority"),
        (
            "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions",
            "Resources",
        ),
        ("ReqNodeNotAvail,_May_be_reserved_for_other_job", "ReqNodeNotAvail"),
        ("launch failed requeued held", "JobHeldUser"),
        ("job requeued in special exit state", "JobHeldUser"),
        ("launch failure limit exceeded requeued held", "JobHoldMaxRequeue"),
        ("License request 'x:1' is no longer valid, holding job", "JobHeldAdmin"),
        ("a text that nobody has seen yet", ""),
    ],
)
def test_free_text_is_told_from_a_reason_and_traced_to_it(shown: str, name: str) -> None:
    assert parse.split_reason(shown) == (name, "" if shown == name else shown)


def test_states_are_read_as_slurm_prints_them() -> None:
    assert parse.state_number("RUNNING") == 1
    assert parse.state_number("COMPLETING") == 0x8000
    assert parse.state_number("A_NEW_STATE") not in (0, 1), "an unknown state must never look like PENDING"


@pytest.mark.parametrize(
    ("text", "tag"),
    [
        ("", Tag.NONE),
        ("slurmfair:hold", Tag.HOLD),
        ("ticket 4711 slurmfair:gate", Tag.GATE),
        ("slurmfair:free ticket", Tag.FREE),
        ("slurmfair:holding", Tag.NONE),
        ("not-slurmfair:hold", Tag.NONE),
        ("slurmfair:hold,slurmfair:free", Tag.NONE),
    ],
)
def test_a_tag_is_a_whole_word_of_the_admin_comment(text: str, tag: Tag) -> None:
    assert parse.tag_of(text) is tag


def test_a_tag_is_replaced_in_its_place() -> None:
    assert parse.with_tag("a  slurmfair:gate b", Tag.HOLD) == "a  slurmfair:hold b"
    assert parse.with_tag("", Tag.FREE) == "slurmfair:free"
    assert parse.with_tag("slurmfair:gate slurmfair:hold", Tag.FREE) == "slurmfair:free"


OURS = st.sampled_from([Tag.GATE, Tag.HOLD, Tag.FREE])


@given(foreign=st.text().map(str.strip), first=OURS, second=OURS)
def test_foreign_text_survives_every_retagging(foreign: str, first: Tag, second: Tag) -> None:
    once = parse.with_tag(foreign, first)
    twice = parse.with_tag(once, second)
    assert parse.tag_of(once) is first
    assert parse.tag_of(twice) is second
    assert once.startswith(foreign) and twice.startswith(foreign)
    assert len(twice) <= len(foreign) + 1 + len(second.value)


@pytest.mark.parametrize(
    ("text", "throttle"),
    [
        ("", None),
        ("slurmfair:throttle=4,was=0", parse.Throttle(4, 0)),
        ("ticket slurmfair:free slurmfair:throttle=4,was=12 x", parse.Throttle(4, 12)),
        ("slurmfair:throttle=4,was=", None),
        ("slurmfair:throttle=4,was=0,", None),
        ("x-slurmfair:throttle=4,was=0", None),
    ],
)
def test_a_note_about_a_throttle_is_a_whole_word(text: str, throttle: parse.Throttle | None) -> None:
    assert parse.throttle_of(text) == throttle


def test_a_note_about_a_throttle_leaves_the_rest_of_the_comment() -> None:
    assert parse.with_throttle("a slurmfair:throttle=4,was=0 b", None) == "a b"
    assert (
        parse.with_throttle("a slurmfair:throttle=4,was=0", parse.Throttle(5, 2))
        == "a slurmfair:throttle=5,was=2"
    )
    assert parse.with_throttle("", parse.Throttle(1, 0)) == "slurmfair:throttle=1,was=0"


@pytest.mark.parametrize(
    ("tasks", "count"),
    [("", 1), ("0-49%4", 50), ("4-49%4", 46), ("0,3,6,9,50,60-70", 16), ("1-119:2", 60), ("0", 1), ("0-9:3", 4),
     ("[0-5]", 6), ("3-1", 1), ("0-5,...", 7)],
)  # fmt: skip
def test_waiting_array_tasks_are_counted(tasks: str, count: int) -> None:
    assert parse.count_tasks(tasks) == count


@given(st.sets(st.integers(0, 10_000), min_size=1), st.integers(0, 9))
def test_any_set_of_tasks_is_counted(tasks: set[int], throttle: int) -> None:
    listed = ",".join(str(task) for task in sorted(tasks)) + (f"%{throttle}" if throttle else "")
    assert parse.count_tasks(listed) == len(tasks)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("cpu=1,mem=1000M,node=1,billing=1,gres/gpu=2", parse.Tres(2, 1, 1000, 1)),
        ("cpu=4,mem=4000M,node=1,billing=4,gres/gpu=4,gres/gpu:h100=4", parse.Tres(4, 4, 4000, 1, 0, "h100")),
        ("cpu=1,mem=1000M,node=1,billing=1,gres/gpu=2,gres/gpu:a100=1,gres/gpu:h100=1",
         parse.Tres(2, 1, 1000, 1, 0, "a100,h100")),
        ("cpu=1,mem=500G,node=1,billing=1,gres/gpu=2", parse.Tres(2, 1, 512000, 1)),
        ("cpu=64,mem=1.50T,node=2", parse.Tres(0, 64, 1572864, 2)),
        ("cpu=1,mem=60M,node=1,gres/shard=6", parse.Tres(0, 1, 60, 1, 6)),
        ("", parse.Tres()),
        ("cpu=,mem=N/A,node=x,oddity", parse.Tres()),
    ],
)  # fmt: skip
def test_tres_texts_count_gpus_once(text: str, expected: parse.Tres) -> None:
    assert parse.tres(text) == expected


@pytest.mark.parametrize(
    ("asked", "types"),
    [("gres/gpu:2", ""), ("gres/gpu", ""), ("gres/gpu:h100:2", "h100"), ("gres/gpu:h100=1", "h100"),
     ("gres/gpu:h100:1,gres/gpu:a100:1", "a100,h100"), ("gres:gpu:7g.80gb:1", "7g.80gb"), ("license/x=3", "")],
)  # fmt: skip
def test_gpu_types_are_found_in_every_form_of_request(asked: str, types: str) -> None:
    assert parse.gpu_types(asked) == types


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        ("gpu:h100:8(S:0-1)", {"gpu:h100": 8}),
        ("gpu:h100:4(S:0,1),gpu:a100:4,shard:16", {"gpu:a100": 4, "gpu:h100": 4, "shard": 16}),
        ("gpu:8", {"gpu": 8}),
        ("gpu", {"gpu": 1}),
        ("gpu:7g.80gb:2,tmpdisk:100G", {"gpu:7g.80gb": 2, "tmpdisk": 100_000_000_000}),
        ("gpu:h100", {"gpu:h100": 1}),
        ("", {}),
    ],
)
def test_a_nodes_gres_text_is_read(text: str, counts: dict[str, int]) -> None:
    assert dict(parse.gres_counts(text)) == counts


def test_allocated_gpus_are_known_by_type() -> None:
    assert parse.typed_gpus("cpu=6,gres/gpu=6,gres/gpu:h100=4,gres/gpu:a100=2,gres/shard=1") == (
        ("a100", 2),
        ("h100", 4),
    )


def test_nodes_sum_typed_and_untyped_gpus_and_keep_shards_apart() -> None:
    node = parse.gres(
        [("gpu:h100", 4), ("gpu:a100", 4), ("shard:h100", 8), ("shard:a100", 8), ("tmpdisk", 5)]
    )
    assert node == parse.Gres((("a100", 4), ("h100", 4)), 16)
    assert node.gpu == 8
    assert [parse.gpus_of_shards(shards, node) for shards in (0, 1, 2, 3, 16)] == [0, 1, 1, 2, 8]
    assert parse.gpus_of_shards(3, parse.gres([("gpu", 8)])) == 0


@pytest.mark.parametrize(
    ("state", "has_jobs", "counts", "free", "draining"),
    [
        ("IDLE", False, True, True, False),
        ("MIXED", True, True, True, False),
        ("ALLOCATED", True, True, True, False),
        ("MIXED+PLANNED", True, True, True, False),
        ("IDLE+COMPLETING", False, True, False, False),
        ("IDLE+DRAIN", False, False, False, False),
        ("MIXED+DRAIN", True, False, False, True),
        ("DOWN", False, False, False, False),
        ("DOWN+NOT_RESPONDING", False, False, False, False),
        ("IDLE+NOT_RESPONDING", False, False, False, False),
        ("IDLE+FAIL", False, False, False, False),
        ("IDLE+INVALID_REG", False, False, False, False),
        ("FUTURE", False, False, False, False),
        ("UNKNOWN", False, False, False, False),
        ("IDLE+RESERVED", False, False, False, False),
        ("IDLE+MAINTENANCE+RESERVED", False, False, False, False),
        ("IDLE+CLOUD+POWERED_DOWN", False, True, True, False),
        ("MIXED+CLOUD+POWERING_UP", True, True, True, False),
        ("IDLE+CLOUD+POWERING_DOWN", False, True, False, False),
        ("IDLE+REBOOT_ISSUED", False, True, False, False),
    ],
)
def test_a_nodes_flags_say_what_it_is_good_for(
    state: str, has_jobs: bool, counts: bool, free: bool, draining: bool
) -> None:
    assert parse.node_use(state, has_jobs) == parse.NodeUse(counts, free, draining)

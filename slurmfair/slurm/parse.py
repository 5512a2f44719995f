"""Slurm's texts and numbers as values. Nothing here talks to Slurm.

Counts are GPUs, CPUs and MiB in the order of model.RESOURCES.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from enum import Enum, IntEnum
from typing import NamedTuple

NO_VAL = 0xFFFFFFFE
NO_VAL16 = 0xFFFE
INFINITE = 0xFFFFFFFF


class BaseState(IntEnum):
    """The low byte of a job's state; the bits above it are flags."""

    PENDING = 0
    RUNNING = 1
    SUSPENDED = 2
    COMPLETED = 3
    CANCELLED = 4
    FAILED = 5
    TIMEOUT = 6
    NODE_FAIL = 7
    PREEMPTED = 8
    BOOT_FAIL = 9
    DEADLINE = 10
    OUT_OF_MEMORY = 11


BASE_STATE = 0xFF
COMPLETING = 1 << 15
STATE_FLAGS = {
    "LAUNCH_FAILED": 1 << 8,
    "REQUEUED": 1 << 10,
    "REQUEUE_HOLD": 1 << 11,
    "SPECIAL_EXIT": 1 << 12,
    "RESIZING": 1 << 13,
    "CONFIGURING": 1 << 14,
    "COMPLETING": COMPLETING,
    "STOPPED": 1 << 16,
    "RECONFIG_FAIL": 1 << 17,
    "POWER_UP_NODE": 1 << 18,
    "REVOKED": 1 << 19,
    "REQUEUE_FED": 1 << 20,
    "RESV_DEL_HOLD": 1 << 21,
    "SIGNALING": 1 << 22,
    "STAGE_OUT": 1 << 23,
}


def state_number(name: str) -> int:
    """Return the number of one word as Slurm prints it; a flag hides the base state, which reads PENDING."""
    if name in BaseState.__members__:
        return BaseState[name]
    return STATE_FLAGS.get(name, 1 << 31)


class Waits(Enum):
    """Why a pending job waits, as far as the daemon cares (SLURM.md 5.3)."""

    TURN = "waits its turn"
    CLEARS = "cannot start now, clears by itself"
    LIMIT = "stopped by a limit of the site"
    NEVER = "cannot run as asked"
    ADMIN_HOLD = "held by an administrator, or by us"
    HELD = "held, and not by us"
    ENDED = "ended"
    UNKNOWN = "unknown: leave alone"


REASONS = {
    Waits.TURN: ("None", "Priority", "Resources", "Prolog", "SchedDefer"),
    Waits.CLEARS: (
        "Dependency", "BeginTime", "Cleaning", "JobArrayTaskLimit", "Licenses", "Reservation", "ReqNodeNotAvail",
        "BurstBufferResources", "BurstBufferStageIn", "FedJobLock", "MaxPoweredUpNodes", "MpiPortsBusy",
        "NvidiaImexChannels", "PartitionDown", "PartitionInactive", "NodeDown",
    ),
    Waits.NEVER: (
        "PartitionNodeLimit", "PartitionTimeLimit", "PartitionConfig", "BadConstraints", "Constraints",
        "InvalidAccount", "InvalidQOS", "QOSNotAllowed", "AccountNotAllowed", "DependencyNeverSatisfied",
        "ReservationInvalid", "DeadLine", "BurstBufferOperation",
    ),
    Waits.HELD: ("JobHeldUser", "JobHoldMaxRequeue", "ReservationDeleted"),
    Waits.ENDED: (
        "SystemFailure", "JobLaunchFailure", "NonZeroExitCode", "RaisedSignal", "TimeLimit", "InactiveLimit",
        "OutOfMemory",
    ),
}  # fmt: skip
REASON_CLASS = {name: waits for waits, names in REASONS.items() for name in names}
LIMIT = re.compile(
    r"QOS(Grp|Max|Min|JobLimit|ResourceLimit|TimeLimit|UsageThreshold)"
    r"|Assoc(Grp|Max)|Association(Job|Resource|Time)Limit|AccountingPolicy|MaxMemPerLimit"
    r"|Max\w+(PerAccount|RunMinsPerUser)$"
)
# Free texts that begin with these stand for the reason (SLURM.md 5.2); pyslurm shows nothing else.
TEXT_REASON = (
    ("Nodes required for job are DOWN", "Resources"),
    ("ReqNodeNotAvail", "ReqNodeNotAvail"),
    ("launch failure limit exceeded", "JobHoldMaxRequeue"),
    ("launch failed requeued held", "JobHeldUser"),
    ("user env retrieval failed requeued held", "JobHeldUser"),
    ("job requeued in ", "JobHeldUser"),
    ("License request ", "JobHeldAdmin"),
)
MAY_BE_RESERVED = "ReqNodeNotAvail, May be reserved"


def waits_for(reason: str, text: str = "") -> Waits:
    """Return the class of a pending job's reason, given Slurm's free description of it ("" for none).

    A hold by an administrator that carries a text is Slurm's own (an invalid license): not ours.
    """
    if reason == "JobHeldAdmin":
        return Waits.HELD if text else Waits.ADMIN_HOLD
    if reason == "ReqNodeNotAvail" and text.startswith(MAY_BE_RESERVED):
        return Waits.TURN
    if known := REASON_CLASS.get(reason):
        return known
    return Waits.LIMIT if LIMIT.match(reason) else Waits.UNKNOWN


def split_reason(shown: str) -> tuple[str, str]:
    """Return (name, free text) of what pyslurm shows; a text nobody knows has the name ""."""
    if re.fullmatch(r"\w+", shown):
        return shown, ""
    plain = shown.replace("_", " ")
    return next((name for start, name in TEXT_REASON if plain.startswith(start)), ""), shown


class Tag(Enum):
    """Our mark in a job's admin comment (SLURM.md 2.4)."""

    NONE = ""
    GATE = "slurmfair:gate"
    HOLD = "slurmfair:hold"
    FREE = "slurmfair:free"


TAG = re.compile(r"(?<!\S)slurmfair:(?:gate|hold|free)(?!\S)")


def tag_of(admin_comment: str) -> Tag:
    """Return our mark, the first one if there are several."""
    found = TAG.search(admin_comment)
    return Tag(found[0]) if found else Tag.NONE


def with_tag(admin_comment: str, tag: Tag) -> str:
    """Return the comment with this mark in the place of ours; every other character stays as it is."""
    if not (marks := list(TAG.finditer(admin_comment))):
        return " ".join(part for part in (admin_comment, tag.value) if part)
    first = marks[0]
    rest = TAG.sub("", admin_comment[first.end() :])
    return (admin_comment[: first.start()] + tag.value + rest).strip()


class Throttle(NamedTuple):
    """A bound on the tasks of an array that run at once: the one we set, and the array's own; 0 for none."""

    ours: int
    own: int


NOTE = re.compile(r"(?:^|\s)slurmfair:throttle=(\d+),was=(\d+)(?!\S)")


def throttle_of(admin_comment: str) -> Throttle | None:
    """Return what our note says about an array's throttle, None without a note."""
    found = NOTE.search(admin_comment)
    return Throttle(int(found[1]), int(found[2])) if found else None


def with_throttle(admin_comment: str, throttle: Throttle | None) -> str:
    """Return the comment with this note in the place of ours, or without one; the rest stays as it is."""
    rest = NOTE.sub("", admin_comment).strip()
    if throttle is None:
        return rest
    note = f"slurmfair:throttle={throttle.ours},was={throttle.own}"
    return " ".join(part for part in (rest, note) if part)


def count_tasks(tasks: str) -> int:
    """Return how many tasks a waiting array's list names: "0-5", "1-119:2", "3,7-9%4"; 1 for a plain job."""
    listed = tasks.partition("%")[0].strip("[]")
    if not listed:
        return 1
    return sum(_range_length(part) for part in listed.split(","))


def _range_length(part: str) -> int:
    """Return the length of "7", "0-5" or "1-119:2"; an unreadable part (a list cut by Slurm) counts as one task."""
    found = re.fullmatch(r"(\d+)(?:-(\d+)(?::(\d+))?)?", part)
    if not found or found[2] is None:
        return 1
    return max(int(found[2]) - int(found[1]), 0) // max(int(found[3] or 1), 1) + 1


class Tres(NamedTuple):
    """Counts of one TRES text. `types` names the GPU types in it, sorted and joined by commas."""

    gpu: int = 0
    cpu: int = 0
    mem: int = 0
    nodes: int = 0
    shards: int = 0
    types: str = ""


MIB = {"K": 1 / 1024, "M": 1, "G": 1024, "T": 1024**2, "P": 1024**3, "E": 1024**4}
COUNT = {"": 1, "K": 1000, "M": 1000**2, "G": 1000**3}
GPU_TYPE = re.compile(r"gres[/:]gpu:([^:=,;(]+)")


def tres(text: str) -> Tres:
    """Return the counts of a text like "cpu=2,mem=1.50G,node=1,gres/gpu=2,gres/gpu:h100=2".

    GPUs are `gres/gpu` alone, never summed with the typed counts (SLURM.md 0, rule 13). An unknown part is skipped.
    """
    counts = dict(part.split("=", 1) for part in text.split(",") if "=" in part)
    return Tres(
        gpu=_count(counts.get("gres/gpu", "")),
        cpu=_count(counts.get("cpu", "")),
        mem=memory_mib(counts.get("mem", "")),
        nodes=_count(counts.get("node", "")),
        shards=_count(counts.get("gres/shard", "")),
        types=gpu_types(text),
    )


def named_tres(text: str, names: Mapping[int, str]) -> str:
    """Return accounting's "1=4,1001=2" as "cpu=4,gres/gpu=2"."""
    pairs = [part.partition("=") for part in text.split(",")]
    return ",".join(
        f"{names.get(int(number), number)}={count}" for number, _, count in pairs if number.isdigit()
    )


def gpu_types(text: str) -> str:
    """Return the GPU types named in a TRES text or a request ("gres/gpu:h100:2"), sorted, joined by commas."""
    return ",".join(sorted({name for name in GPU_TYPE.findall(text) if not name.isdigit()}))


def memory_mib(text: str) -> int:
    """Return MiB of "500G", "1000M", "1.50T" or a bare number of MiB, rounded; 0 for what is no amount."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([KMGTPE]?)", text)
    return round(float(found[1]) * MIB[found[2] or "M"]) if found else 0


def _count(text: str) -> int:
    """Return a count, 0 for what is none; large ones may have a suffix."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([KMG]?)", text)
    return round(float(found[1]) * COUNT[found[2]]) if found else 0


class Gres(NamedTuple):
    """What a node has: GPUs by type ("" for untyped), and shards."""

    gpus: tuple[tuple[str, int], ...] = ()
    shards: int = 0

    @property
    def gpu(self) -> int:
        """All GPUs of the node."""
        return sum(count for _, count in self.gpus)


TYPED_GPU = re.compile(r"gres[/:]gpu:([^:=,;(]+)=(\d+)")


def typed_gpus(text: str) -> tuple[tuple[str, int], ...]:
    """Return the typed GPU counts of a TRES text, sorted by type."""
    return tuple(sorted((name, int(count)) for name, count in TYPED_GPU.findall(text)))


def gres_counts(text: str) -> tuple[tuple[str, int], ...]:
    """Return pairs such as ("gpu:h100", 8) of a node's text "gpu:h100:8(S:0-1),shard:16", sorted."""
    parts = re.sub(r"\([^)]*\)", "", text).split(",")
    pairs = []
    for part in filter(None, parts):
        name, _, count = part.rpartition(":")
        pairs.append((name, _count(count)) if name and count[0:1].isdigit() and _count(count) else (part, 1))
    return tuple(sorted(pairs))


def gres(counts: Iterable[tuple[str, int]]) -> Gres:
    """Return what a node has from pairs such as ("gpu:h100", 8), ("shard", 16)."""
    gpus: dict[str, int] = {}
    shards = 0
    for name, count in counts:
        kind, _, of_type = name.partition(":")
        if kind == "gpu":
            gpus[of_type] = gpus.get(of_type, 0) + count
        elif kind == "shard":
            shards += count
    return Gres(tuple(sorted(gpus.items())), shards)


def gpus_of_shards(shards: int, node: Gres) -> int:
    """Return the whole GPUs that shards of such a node take, rounded up."""
    return -(-shards * node.gpu // node.shards) if node.shards else 0


class NodeUse(NamedTuple):
    """What a node's state says about its GPUs (SLURM.md 12.2)."""

    counts: bool  # part of the capacity
    free: bool  # may take a job now
    draining: bool  # only what is allocated counts


GONE = {"DOWN", "FAIL", "NOT_RESPONDING", "INVALID_REG", "FUTURE", "DYNAMIC_FUTURE", "UNKNOWN", "ERROR"}
APART = {"RESERVED", "MAINTENANCE"}
DRAINING = {"DRAIN", "POWER_DRAIN"}
BUSY = {"COMPLETING", "REBOOT_ISSUED", "POWERING_DOWN", "POWER_DOWN", "BLOCKED"}


def node_use(state: str, has_jobs: bool) -> NodeUse:
    """Return the use of a node whose state reads e.g. "MIXED+PLANNED"; never judged by its base word alone."""
    words = set(state.upper().rstrip("*").split("+"))
    if words & (GONE | APART):
        return NodeUse(counts=False, free=False, draining=False)
    if words & DRAINING:
        return NodeUse(counts=False, free=False, draining=has_jobs)
    return NodeUse(counts=True, free=not words & BUSY, draining=False)

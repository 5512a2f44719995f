"""The whole typed surface of the kernels. Callers check the shapes: normal builds check nothing."""

from slurmfair.model import Bytes, Codes, Floats, Ints, Queue, Quotas, Room
from slurmfair.policy.terms import Judged
from slurmfair.walk import Line, Paper, Result, RoomLeft, Rules, Running, Standing, Tree

def make_pass(
    queue: Queue,
    judged: Judged,
    line: Line,
    tree: Tree,
    standing: Standing,
    room: RoomLeft,
    running: Running,
    rules: Rules,
    paper: Paper,
    result: Result,
) -> None: ...
def find_parked(
    queue: Queue, room: Room, quotas: Quotas, path_limit: Floats, blocks: Bytes, parked: Bytes
) -> None: ...
def window_rows(
    place: Ints,
    code: Codes,
    list_start: Codes,
    list_of: Codes,
    window: int,
    capacity: int,
    left: Ints,
    first: Ints,
    following: Ints,
    row: Ints,
    unit: Ints,
) -> tuple[int, int, bool]: ...
def longest_run(value: Ints, tail: Ints, before: Ints, kept: Bytes) -> int: ...
def divide_levels(
    rows: Ints,
    group_start: Ints,
    group_parent: Ints,
    priority: Ints,
    seniority: Ints,
    deserved: Floats,
    limit: Floats,
    weight: Floats,
    request: Floats,
    usage: Floats,
    capacity: Floats,
    unit: Floats,
    k: float,
    plain_if_all_zero: bool,
    active: Ints,
    score: Floats,
    fraction: Floats,
    share: Floats,
    due: Floats,
    corrected: Floats,
    effective: Floats,
    short: Floats,
) -> tuple[int, int]: ...
def round_shares(
    rows: Ints,
    group_start: Ints,
    group_parent: Ints,
    seniority: Ints,
    share: Floats,
    unit: Floats,
    order: Ints,
    fraction: Floats,
    out: Floats,
) -> None: ...
def decay_tables(
    half_life_s: float, far: Floats, far_length: Floats, near_length: Floats, near: Floats
) -> None: ...
def interval_sums(
    key: Ints,
    end_s: Ints,
    holding: Codes,
    holding_node: Codes,
    holding_amount: Floats,
    from_s: int,
    to_s: int,
    far: Floats,
    far_length: Floats,
    near_length: Floats,
    near: Floats,
    out: Floats,
) -> None: ...
def run_events(
    key: Ints, end_s: Ints, holding: Codes, origin_s: int, after_s: int, until_s: int, out: Ints
) -> int: ...
def sort_events(events: Ints, spare: Ints) -> bool: ...
def sweep(
    events: Ints,
    first: int,
    until: int,
    finish: bool,
    holding_node: Codes,
    holding_amount: Floats,
    step_node: Codes,
    step_amount: Floats,
    parent: Codes,
    group: Codes,
    below: Codes,
    group_parent: Codes,
    half_life_s: float,
    shift: int,
    far: Floats,
    far_length: Floats,
    near_length: Floats,
    next_tick: Ints,
    nodes: Floats,
    groups: Floats,
    pool: Floats,
) -> int: ...

__all__ = [
    "decay_tables",
    "divide_levels",
    "find_parked",
    "interval_sums",
    "longest_run",
    "make_pass",
    "round_shares",
    "run_events",
    "sort_events",
    "sweep",
    "window_rows",
]

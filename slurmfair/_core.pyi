"""The whole typed surface of the kernels. Callers check the shapes: normal builds check nothing."""

from slurmfair.model import Bytes, Codes, Floats, Ints, Queue, Room
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
    queue: Queue, room: Room, tree: Tree, path_limit: Floats, blocks: Bytes, parked: Bytes
) -> None: ...
def window_rows(
    place: Ints,
    code: Codes,
    list_start: Codes,
    list_of: Codes,
    window: int,
    capacity: int,
    seen: Ints,
    first: Ints,
    following: Ints,
    row: Ints,
    unit: Ints,
) -> tuple[int, int]: ...
def longest_run(value: Ints, tail: Ints, before: Ints, kept: Bytes) -> int: ...

__all__ = ["find_parked", "longest_run", "make_pass", "window_rows"]

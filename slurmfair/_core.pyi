"""The whole typed surface of the kernels. Callers check the shapes: normal builds check nothing."""

from slurmfair.model import Bytes, Codes, Ints

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

__all__ = ["longest_run", "window_rows"]

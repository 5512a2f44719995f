"""The kernels: loops over jobs in Cython. What they take and give stands in slurmfair/_core.pyi."""

from slurmfair._core.divide import divide_levels, round_shares
from slurmfair._core.order import find_parked, make_pass
from slurmfair._core.rewrite import longest_run, window_rows

__all__ = ["divide_levels", "find_parked", "longest_run", "make_pass", "round_shares", "window_rows"]

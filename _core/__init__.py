"""The kernels: loops over jobs in Cython. What they take and give stands in slurmfair/_core.pyi."""

from slurmfair._core.divide import divide_levels, round_shares
from slurmfair._core.order import find_parked, make_pass
from slurmfair._core.rewrite import longest_run, window_rows
from slurmfair._core.usage import decay_tables, interval_sums, run_events, sort_events, sweep

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

"""The kernels: loops over jobs in Cython. What they take and give stands in slurmfair/_core.pyi."""

from slurmfair._core.divide import divide_levels, round_shares
from slurmfair._core.usage import decay_tables, interval_sums, run_events, sort_events, sweep

__all__ = [
    "decay_tables",
    "divide_levels",
    "interval_sums",
    "round_shares",
    "run_events",
    "sort_events",
    "sweep",
]

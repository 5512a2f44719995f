"""The kernels: loops over jobs in Cython. What they take and give stands in slurmfair/_core.pyi."""

from slurmfair._core.rewrite import longest_run, window_rows

__all__ = ["longest_run", "window_rows"]

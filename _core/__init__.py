"""The kernels: loops over jobs in Cython. What they take and give stands in slurmfair/_core.pyi."""

from slurmfair._core.divide import divide_levels, round_shares

__all__ = ["divide_levels", "round_shares"]

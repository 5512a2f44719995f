"""The kernels: loops over jobs in Cython. What they take and give stands in slurmfair/_core.pyi."""

from slurmfair._core.order import find_parked, make_pass

__all__ = ["find_parked", "make_pass"]

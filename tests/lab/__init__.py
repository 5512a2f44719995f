"""A real Slurm for tests and for `make run`; needs root and only Python's standard library."""

from .errors import LabError
from .lab import Lab
from .settings import Settings
from .space import LabProcess

__all__ = ["Lab", "LabError", "LabProcess", "Settings"]

"""A real Slurm for tests and for `make run`; needs root and only Python's standard library.

From the outside in: `lab.py` up and down, `jobs.py` jobs, `daemons.py` services and slurm.conf,
`inside.py` commands and files, `space.py` and `init.py` the namespaces. `root.py` is the recipe of the
cached root, `conf.py` and `accounts.py` what the cluster looks like, `project.py` installs our own code.
"""

from .errors import LabError
from .lab import Lab
from .settings import Settings
from .space import LabProcess

__all__ = ["Lab", "LabError", "LabProcess", "Settings"]

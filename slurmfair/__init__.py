"""slurmfair: deserved quotas, time-based fair share and queue policies for an unmodified Slurm."""

__version__ = "0.1.0"

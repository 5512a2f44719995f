"""A cluster in memory with Slurm's rules."""

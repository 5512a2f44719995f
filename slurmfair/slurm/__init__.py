"""The edge to a real Slurm."""

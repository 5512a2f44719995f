"""The edge to Slurm on a real Slurm: what is read, what is written, and the gate."""

"""Tests on a real Slurm, the one of tests/lab."""

"""Tests on a real Slurm: tests/lab with the project installed in it."""

"""Tests of slurmfair."""

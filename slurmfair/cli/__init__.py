"""Arguments and printing; no decisions."""

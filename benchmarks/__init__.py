"""Speed as ratios inside one run: `python -m benchmarks` prints every line and fails if one is short."""

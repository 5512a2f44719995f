#!/usr/bin/env bash
# Everything `make test` runs, a line at each stage. Live tests need root and Debian; elsewhere they say why they are skipped.
set -euo pipefail
cd "$(dirname "$0")/.."
stage() { printf '== %s  (%s s)\n' "$1" "$SECONDS"; }
pytest=(.venv/bin/pytest -q -p no:cacheprovider)

stage "unit and simulation tests"
"${pytest[@]}" -n 2 -m "not slurm" tests --ignore tests/conformance
stage "case files"
"${pytest[@]}" tests/conformance
# Live tests watch a scheduler with a clock of its own; one that fails is tried again, and said to be so.
# They wait more than they work: two at a time, each with a lab of its own, all tests of a file in one.
stage "live tests: two real Slurms in tests/lab"
"${pytest[@]}" -rsR --reruns 2 --reruns-delay 1 -n 2 --dist loadfile --no-loadscope-reorder -m slurm tests
stage "done"

#!/usr/bin/env bash
# Everything `make test` runs, a line at each stage. Live tests need root and Debian; elsewhere they say why they are skipped.
set -euo pipefail
cd "$(dirname "$0")/.."
stage() { printf '== %s  (%s s)\n' "$1" "$SECONDS"; }

stage "unit, conformance and simulation tests"
.venv/bin/pytest -q -m "not slurm" tests
stage "live tests: a real Slurm in tests/lab"
.venv/bin/pytest -q -rs -m slurm tests
stage "done"

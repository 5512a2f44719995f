# The commands of the project. `make run` and `make test` need nothing but git, make, python3 and root.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/installed

.PHONY: run test bench lint types docs lab clean

run:
	@$(PYTHON) -m tests.lab.demo

test: $(STAMP)
	@bash tests/run.sh

bench: $(STAMP)
	@$(BIN)/python -m benchmarks

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	PATH="$(abspath $(BIN)):$$PATH" cython-lint _core slurmfair
	$(BIN)/mypy
	$(BIN)/python -m mypy.stubtest --ignore-missing-stub slurmfair._core

docs: $(STAMP)
	@$(BIN)/python docs/build.py

lab:
	$(PYTHON) -m tests.lab up
	$(PYTHON) -m tests.lab shell
	$(PYTHON) -m tests.lab down

$(STAMP): pyproject.toml setup.py $(wildcard _core/*.pyx) $(wildcard slurmfair/slurm/*.pyx)
	@echo "make: building slurmfair into $(VENV)"
	@bash tests/venv.sh $(PYTHON) $(VENV)
	@touch $@

clean:
	rm -rf $(VENV) build *.egg-info _core/*.c _core/*.so slurmfair/slurm/*.c slurmfair/slurm/*.so

# tesched: set-up, checks, tests and the demo. Each installs what it needs, once; a second run is quick.

SHELL := /bin/bash
.DEFAULT_GOAL := help
VENV := .venv
BIN := $(VENV)/bin
PYTHON ?= python3
PYTEST_WORKERS ?= 2

.PHONY: help setup install demo test check format bench clean

help:  ## List the targets.
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 16

$(VENV)/.ready: requirements.lock pyproject.toml
	PYTHON='$(PYTHON)' slurm_test_cluster/make-venv.sh '$(VENV)'
	@touch $@

setup: $(VENV)/.ready  ## Make the virtual environment, from the lock file.

install: setup  ## Install what tests and demo need besides: Slurm, PostgreSQL (Debian packages, as root).
	@slurm_test_cluster/install-slurm.sh
	@slurm_test_cluster/install-postgresql.sh

demo: setup  ## A real Slurm, the daemon beside it, trial-and-error jobs that start in seconds.
	@slurm_test_cluster/install-slurm.sh
	@$(BIN)/python -m tesched_testcluster demo

test: install  ## Run all tests, on a real Slurm and a real PostgreSQL.
	$(BIN)/pytest -n $(PYTEST_WORKERS) --dist loadfile -m 'not docker'

check: setup  ## Run ruff, its formatter, mypy (strict) and import-linter.
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

format: setup  ## Format the code.
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

bench: install  ## Print the benchmarks' figures.
	$(BIN)/python -m benchmarks.store
	$(BIN)/python -m benchmarks.observe

clean:  ## Remove the virtual environment and the tools' caches.
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

.PHONY: docker-test
docker-test: install  ## Run the tests that need a Docker engine; makes the image first.
	$(BIN)/python -m tesched_testcluster docker image
	$(BIN)/pytest -m docker

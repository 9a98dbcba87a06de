# tesched: set-up, checks, tests and the demo. Each installs what it needs, once; a second run is quick.

SHELL := /bin/bash
.DEFAULT_GOAL := help
VENV := .venv
BIN := $(VENV)/bin
PYTHON ?= python3
# One more than the cores of a small machine: most tests wait for Slurm.
PYTEST_WORKERS ?= 3

.PHONY: help setup install demo test test-docker test-clients check format bench clean

help:  ## List the targets.
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 16

$(VENV)/.ready: requirements.lock pyproject.toml
	PYTHON='$(PYTHON)' slurm_test_cluster/make-venv.sh '$(VENV)'
	@touch $@

setup: $(VENV)/.ready  ## Make the virtual environment, from the lock file.

install: setup  ## Install what tests and demo need besides: Slurm, PostgreSQL (Debian packages, as root).
	@slurm_test_cluster/install-slurm.sh
	@slurm_test_cluster/install-postgresql.sh

# On which cluster the demo runs: auto (containers where a Docker engine answers), docker, local.
DEMO ?= auto
demo: setup  ## A real Slurm, the daemon beside it, trial-and-error jobs that start in seconds.
	@[ '$(DEMO)' = docker ] || { [ '$(DEMO)' = auto ] && docker info >/dev/null 2>&1; } || slurm_test_cluster/install-slurm.sh
	@$(BIN)/python -m tesched_testcluster demo --on '$(DEMO)'

test: install  ## Run all tests: on a real Slurm and PostgreSQL here and, where a Docker engine answers, in containers.
	$(BIN)/pytest -n $(PYTEST_WORKERS) --dist loadfile -m 'not docker and not clients'
	@if docker info >/dev/null 2>&1; then $(MAKE) --no-print-directory test-docker; else \
	  echo 'No Docker engine answers: not run are the Docker cluster (make test-docker) and all that needs Slurm 26.05,'; \
	  echo 'the pyslurm client among it.'; fi

test-docker: install  ## Run the tests of the Docker cluster, and those of Slurm with pyslurm on Slurm 26.05.
	$(BIN)/python -m tesched_testcluster docker image
	$(BIN)/pytest -m docker
	$(BIN)/python -m tesched_testcluster docker run -- pytest tests/cluster -m 'not docker and not clients' -n $(PYTEST_WORKERS) --dist loadfile

# 216 MB of Debian's packages (torch for CPUs) and 90 MB of PyPI's, once; 1.5 GB in .clients and the image.
test-clients: install  ## Run trainings with Lightning and Transformers, on this host's Slurm and on 26.05 (needs Docker).
	$(BIN)/python -m tesched_testcluster docker clients
	$(BIN)/pytest -m clients
	$(BIN)/python -m tesched_testcluster docker run --clients -- pytest tests/cluster -m clients

check: setup  ## Run ruff, its formatter, mypy (strict), import-linter, and the checks of rooms and language.
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest -q tests/unit/project/test_rooms.py tests/unit/project/test_language.py

format: setup  ## Format the code.
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

bench: install  ## Print the benchmarks' figures.
	$(BIN)/python -m benchmarks.store
	$(BIN)/python -m benchmarks.observe
	$(BIN)/python -m benchmarks.step
	$(BIN)/python -m benchmarks.reports
	$(BIN)/python -m benchmarks.simulator

clean:  ## Remove the virtual environment and the tools' caches.
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

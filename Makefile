# tesched: set-up, checks, tests and the demo. Each installs what it needs, once; a second run is quick.

SHELL := /bin/bash
.DEFAULT_GOAL := help
# Where a container sets it, each process of the tests would compile all of tesched anew.
unexport PYTHONDONTWRITEBYTECODE
VENV := .venv
BIN := $(VENV)/bin
PYTHON ?= python3
# One more than the cores of a small machine: most tests wait for Slurm.
PYTEST_WORKERS ?= 3
# A file's tests share a cluster. In the order of tests/order.py: the longest files first, waiting beside computing ones.
IN_PARALLEL := -n $(PYTEST_WORKERS) --dist loadfile --no-loadscope-reorder
# What fails in tests/cluster and tests/integration runs a second time, alone; what passes then is printed as FLAKY.
TWO_PASSES := $(BIN)/python -m tests.two_passes $(IN_PARALLEL)

.PHONY: help setup install demo test test-all test-busy test-clients test-cluster test-docker-cluster test-flaky test-images \
  test-nightly test-plugin-24 test-release-26 plugin check locks format drawings bench clean

help:  ## List the targets.
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9-]+):.*## (.*)/  make \1\t\2/' | expand -t 16

$(VENV)/.ready: requirements.lock pyproject.toml
	PYTHON='$(PYTHON)' slurm_test_cluster/make-venv.sh '$(VENV)'
	@touch $@

setup: $(VENV)/.ready  ## Make the virtual environment, from the lock file.

install: setup  ## Install what tests and demo need besides: Slurm, PostgreSQL, Prometheus, Chromium (Debian packages, as root).
	@slurm_test_cluster/install-slurm.sh
	@slurm_test_cluster/install-postgresql.sh
	@slurm_test_cluster/install-prometheus.sh
	@slurm_test_cluster/install-chromium.sh

# A configured source tree of the running Slurm; empty: Debian's source package of the installed version.
SLURM_SOURCE ?=
# Where the plugin and Debian's source are; the local test cluster takes the plugin from there, too.
TESCHED_BUILD ?= $(CURDIR)/build
plugin:  ## Build preempt/tesched for the installed Slurm, in build/slurm_plugin (SLURM_SOURCE=FOLDER: for that one).
	@source='$(SLURM_SOURCE)'; source=$${source:-$$(slurm_plugin/debian-source.sh '$(TESCHED_BUILD)')} \
	  && $(MAKE) --no-print-directory -C slurm_plugin SLURM_SOURCE="$$(realpath "$$source")" BUILD='$(TESCHED_BUILD)/slurm_plugin'

# On which cluster the demo runs: auto (containers where a Docker engine answers), docker, local.
DEMO ?= auto
# Where it draws what happened (.svg); the record of it is kept beside that (.json).
PICTURE ?=
demo: setup  ## A real Slurm, the daemon beside it, trial-and-error jobs that start in seconds.
	@[ '$(DEMO)' = docker ] || { [ '$(DEMO)' = auto ] && docker info >/dev/null 2>&1; } || slurm_test_cluster/install-slurm.sh
	@$(BIN)/python -m tesched_testcluster demo --on '$(DEMO)' $(if $(PICTURE),--picture '$(PICTURE)')

test: install plugin  ## The gate, some half an hour on two cores: all tests but those of tests/cluster that are not marked `gate`.
	@$(MAKE) --no-print-directory -C slurm_plugin test
	$(TWO_PASSES) -m 'not slurm and not docker and not clients or gate'
	@$(BIN)/python -m tests.full_run say

test-all: install plugin  ## All tests, on all releases of Slurm (needs Docker); the result goes to tests/full-run.json.
	$(BIN)/python -m tests.full_run run

test-cluster: install plugin  ## What `make test` leaves out of tests/cluster, on this host's Slurm.
	$(TWO_PASSES) tests/cluster -m 'not gate and not docker and not clients'

# What is run beside the loops; a part of it in a shorter time: make test-busy BUSY='.venv/bin/pytest tests/cluster/test_x.py'
BUSY ?= $(MAKE) --no-print-directory test
test-busy: install plugin  ## Run the gate beside eight busy loops: a test that waits for a time, not for a condition, fails.
	slurm_test_cluster/with-busy-loops.sh 8 $(BUSY)

test-flaky: install plugin  ## Run each test that make test called FLAKY 20 times beside four busy loops.
	slurm_test_cluster/with-busy-loops.sh 4 $(BIN)/python -m tests.flaky_again

.PHONY: image-26 image-24
image-26: setup
	$(BIN)/python -m tesched_testcluster docker image
image-24: setup
	$(BIN)/python -m tesched_testcluster docker image --trixie
test-images: image-26 image-24  ## Build the images of Slurm 26.05 and 24.11 (needs Docker), where they are not there already.

test-docker-cluster: image-26  ## Run the tests of the Docker cluster.
	$(TWO_PASSES) tests/cluster -m docker

test-release-26: image-26  ## Run what differs by release on Slurm 26.05 with pyslurm, in a container.
	$(BIN)/python -m tesched_testcluster docker run -- \
	  python -m tests.two_passes $(IN_PARALLEL) tests/cluster -m 'release and not docker and not clients'

test-nightly: install image-26  ## Run all of tests/cluster on Slurm 26.05, and ten times as many, random examples.
	HYPOTHESIS_PROFILE=nightly $(BIN)/pytest $(IN_PARALLEL) tests/properties tests/unit
	$(BIN)/python -m benchmarks.bound --arrivals 1000000 --seed $$(date +%s)
	$(BIN)/python -m tesched_testcluster docker run -- \
	  python -m tests.two_passes $(IN_PARALLEL) tests/cluster -m 'not docker and not clients'

# 216 MB of Debian's packages (torch for CPUs) and 90 MB of PyPI's, once; 1.5 GB in .clients and the image.
test-clients: install  ## Run trainings with Lightning and Transformers, on this host's Slurm and on 26.05 (needs Docker).
	$(BIN)/python -m tesched_testcluster docker clients
	$(BIN)/pytest -m clients
	$(BIN)/python -m tesched_testcluster docker run --clients -- pytest tests/cluster -m clients

test-plugin-24: image-24  ## Run the tests of preempt/tesched on Slurm 24.11, in a container of Debian trixie (needs Docker).
	$(BIN)/python -m tesched_testcluster docker run --trixie -- \
	  python -m tests.two_passes tests/cluster/test_plugin.py tests/cluster/test_plugin_ending.py tests/cluster/test_plugin_lever.py \
	  tests/cluster/test_plugin_came_back.py

check: setup  ## Run ruff, its formatter, mypy (strict), import-linter, the checks of rooms, language and broken rules.
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m benchmarks.mutations --check
	$(BIN)/pytest -q tests/unit/project/test_packages.py tests/unit/project/test_language.py \
	  tests/unit/project/test_sizes.py tests/unit/project/test_rules_page.py

# locks/ has what is installed on a login node (docs/howto/installation.md), as tested: its versions are requirements.lock's.
COMPILE := uv pip compile --quiet --universal --generate-hashes --python-version 3.11
locks:  ## Bring requirements.lock and locks/ up to date with pyproject.toml (needs uv).
	$(COMPILE) --group dev --extra gavel --extra postgresql --extra web pyproject.toml -o requirements.lock
	$(COMPILE) --no-annotate -c requirements.lock pyproject.toml -o locks/service.lock
	for extra in gavel plots postgresql top web; do \
	  $(COMPILE) --no-annotate -c requirements.lock --extra $$extra pyproject.toml -o locks/$$extra.lock || exit; done

format: setup  ## Format the code.
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

drawings: setup  ## Make docs/a-jobs-way.svg from its source (needs graphviz, a Debian package), docs/demo.svg from its record.
	$(BIN)/python -m tesched_testcluster draw docs/demo.json
	dot -Tsvg docs/a-jobs-way.dot -o docs/a-jobs-way.svg

bench: install  ## Print the benchmarks' figures.
	$(BIN)/python -m benchmarks.store
	$(BIN)/python -m benchmarks.observe
	$(BIN)/python -m benchmarks.step
	$(BIN)/python -m benchmarks.reports
	$(BIN)/python -m benchmarks.simulator
	$(BIN)/python -m benchmarks.start_up

clean:  ## Remove the virtual environment and the tools' caches.
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

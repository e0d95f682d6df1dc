# Everything a fresh machine with Python 3.11+ and Java 17 needs; `make help` lists the targets.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
PYTHON ?= python3
UV := .cache/uv/bin/uv
BIN := .venv/bin
export PYTHONPATH :=
# What builds pyspark and Penstock itself is pinned by hash, too: uv refuses any other build tool.
export UV_BUILD_CONSTRAINT := $(CURDIR)/requirements/build.txt
# Where this is set, as in many containers, every process compiles all that it imports: starts take twice as long.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup setup-dev setup-datahub demo kafka-cluster test test-faults simulate soak check fmt lock lock-check types docs screenshots bench clean

help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-13s %s\n", $$1, $$2}'

$(UV): requirements/uv.txt
	@echo "fetching uv into .cache/uv"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Penstock needs Python 3.11 or newer; set PYTHON=/path/to/python3.11"; exit 1; }
	@rm -rf .cache/uv && $(PYTHON) -m venv .cache/uv && .cache/uv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/uv.txt
	@touch $(UV)

# uv rebuilds pyspark (an sdist: half a minute, 1.5 GB of cache) for every environment unless it installs from its
# cache: try that first, for pyspark by itself because the rest may not be there.
define install
	@test -x $(2)/bin/python || $(UV) venv --quiet --python $(PYTHON) $(2)
	@echo "installing $(1) into $(2)"
	@sed -n '/^pyspark==/,/^[^ ].*==/p' $(1) | sed '$$d' | $(UV) pip install --python $(2) --quiet --offline --no-deps --require-hashes -r - 2>/dev/null || true
	@$(UV) pip install --python $(2) --quiet --compile-bytecode --offline --require-hashes -r $(1) 2>/dev/null || $(UV) pip install --python $(2) --quiet --compile-bytecode --require-hashes -r $(1)
	@$(UV) pip install --python $(2) --quiet --offline --no-deps -e . 2>/dev/null || $(UV) pip install --python $(2) --quiet --no-deps -e .
	@$(2)/bin/python -m compileall -q src
endef

.cache/stamps/run: $(UV) requirements/build.txt requirements/run.txt pyproject.toml
	$(call install,requirements/run.txt,.venv)
	@mkdir -p .cache/stamps && touch $@

.cache/stamps/dev: $(UV) requirements/build.txt requirements/dev.txt pyproject.toml
	$(call install,requirements/dev.txt,.venv)
	@mkdir -p .cache/stamps && touch $@ .cache/stamps/run

.cache/stamps/datahub: $(UV) requirements/build.txt requirements/datahub.txt pyproject.toml
	$(call install,requirements/datahub.txt,.cache/datahub)
	@mkdir -p .cache/stamps && touch $@

setup: .cache/stamps/run ## Make .venv with Penstock in it; the command is then .venv/bin/penstock

setup-dev: .cache/stamps/dev ## Make .venv with the test and check tools too

setup-datahub: .cache/stamps/datahub ## Make .cache/datahub, an environment with penstock[datahub] in it, which tests use

demo: setup ## Run actions, a table and a workflow on the embedded broker and watch them (ARGS="--seconds 20" ends it)
	@$(BIN)/penstock demo $(ARGS)

kafka-cluster: setup-dev ## Run three Kafka nodes on ports 9094 to 9096, with topics to try triggers on, until Ctrl-C
	@$(BIN)/python -m bench.kafka_cluster $(ARGS)

# Tests wait for sessions, back-offs and starts half of their time: three at once keep two cores at work.
test: setup-dev ## Run the test suite (fetches Kafka, PostgreSQL, a registry and a browser into .cache)
	@$(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder $(ARGS)

test-faults: setup-dev ## Run the fault matrix on three brokers (half an hour); its table goes to bench/results
	@$(BIN)/python -m pytest tests/faults -m faults $(ARGS)

simulate: setup-dev ## Run simulated schedules of the driver (ARGS="--minutes 60 --seed 7 --out bench/results/simulation.json")
	@$(BIN)/python -m tests.simulation $(ARGS)

soak: setup-dev ## Run with faults at random for ten minutes (ARGS="--minutes 2 --seed 7"); the outcome goes to bench/results
	@$(BIN)/python -m tests.faults.soak $(ARGS)

check: setup-dev lock-check ## Lint, types, import rules, lock, docs
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache
	@$(BIN)/deptry src
	@$(BIN)/codespell
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet --site-dir .cache/site

fmt: setup-dev ## Format and fix what can be fixed
	@$(BIN)/ruff format . && $(BIN)/ruff check --fix .

COMPILE = $(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --no-annotate
lock: $(UV) ## Make the hash-pinned locks anew from pyproject.toml
	@$(COMPILE) $(ARGS) requirements/build.in -o requirements/build.txt
	@$(COMPILE) $(ARGS) pyproject.toml -o requirements/run.txt
	@$(COMPILE) $(ARGS) pyproject.toml --group test --group check -o requirements/dev.txt
	@$(COMPILE) $(ARGS) pyproject.toml --extra datahub -c requirements/run.txt -o requirements/datahub.txt
	@$(COMPILE) $(ARGS) bench/datahub/requirements.in -o bench/datahub/requirements.txt

lock-check: $(UV) ## The locks still satisfy pyproject.toml and hold no addresses
	@! grep -nE 'https?://|--index-url|--find-links' requirements/*.txt bench/datahub/requirements.txt
	@mkdir -p .cache/lock
	@cp requirements/build.txt requirements/run.txt requirements/dev.txt requirements/datahub.txt .cache/lock/
	@$(COMPILE) requirements/build.in -o .cache/lock/build.txt && diff -q requirements/build.txt .cache/lock/build.txt
	@$(COMPILE) pyproject.toml -o .cache/lock/run.txt && diff -q requirements/run.txt .cache/lock/run.txt
	@$(COMPILE) pyproject.toml --group test --group check -o .cache/lock/dev.txt && diff -q requirements/dev.txt .cache/lock/dev.txt
	@$(COMPILE) pyproject.toml --extra datahub -c requirements/run.txt -o .cache/lock/datahub.txt && diff -q requirements/datahub.txt .cache/lock/datahub.txt

docs: setup-dev ## Build the documentation into site/
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

screenshots: setup-dev ## Take the pictures of the console for README and docs, in a real Chromium
	@$(BIN)/python -m tests.faces.console.screenshots docs/screenshots

bench: setup-dev ## Measure against the bars; results go to bench/results
	@$(BIN)/python -m bench $(ARGS)

clean: ## Remove what make made (not .cache/kafka and other downloads)
	@rm -rf .venv .cache/stamps .cache/datahub .cache/site .cache/lock site dist .mypy_cache .ruff_cache .pytest_cache

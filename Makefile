# The two commands: `make run` and `make test`. Each sets up what it needs. `make help` lists the rest.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.ready
UV      = $$(command -v uv || echo $(CURDIR)/$(BIN)/uv)
WORKERS ?= $$($(BIN)/python -c 'import os; print((os.cpu_count() or 2) * 3 // 2)')
PYTEST  = $(BIN)/pytest -n $(WORKERS)
WAITING ?= 1000,10000,100000
OLDEST  = tests/api tests/install/test_audit_mode.py tests/install/test_install.py tests/install/test_life.py tests/install/test_service.py tests/install/test_uninstall.py tests/install/test_up_manager.py tests/install/test_upgrade.py $(wildcard tests/live/test_job_*.py tests/live/test_door_*.py) tests/live/test_queuejob_drawing.py

.DEFAULT_GOAL := help
.PHONY: help setup parts run test crashes flow oldest compiled lint check fix bench faults clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' Makefile

setup: $(STAMP) ## prepare .venv with everything, .venv/bin/usher included

$(STAMP): pyproject.toml uv.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "Usher needs Python 3.11 or later; $(PYTHON) is $$($(PYTHON) -V). Say which: make PYTHON=python3.12 …" >&2; exit 1; }
	@test -x $(BIN)/python || { echo "Creating $(VENV)"; $(PYTHON) -m venv $(VENV) || uv venv --quiet $(VENV); } \
		|| { echo "$(PYTHON) cannot make a virtual environment. Install its venv module, or uv." >&2; rm -rf $(VENV); exit 1; }
	@command -v uv >/dev/null || test -x $(BIN)/uv || { echo "Installing uv into $(VENV)"; $(BIN)/python -m pip install --quiet uv; }
	@echo "Installing the locked dependencies"
	@UV_PROJECT_ENVIRONMENT=$(VENV) $(UV) sync --frozen --inexact --quiet
	@touch $@

parts: $(STAMP) ## build the control plane's programs if the cache lacks them (about 10 minutes, once)
	@$(BIN)/python -m usher.devcluster >/dev/null

run: parts ## a control plane, Usher in it, three tenants and their jobs, until Ctrl-C
	@$(BIN)/usher up --name run --manager --apply examples/tenants.yaml

test: $(STAMP) ## every test, those on the real control plane included (but see crashes and flow)
	@$(BIN)/python -m usher.devcluster helm >/dev/null
	@$(PYTEST) -m "not crash and not flow"

crashes: parts ## a manager stopped before and after each of its writes, and another that goes on (minutes)
	@$(PYTEST) -m crash

flow: parts ## what takes long: 500 jobs through managers that are killed, frozen and cut off; 20,000 objects; koord-scheduler (minutes)
	@$(BIN)/pytest -m flow

oldest: $(STAMP) ## jobs, doors and installation on the oldest Kubernetes that is supported, which is built once (minutes)
	@$(BIN)/python -m usher.devcluster helm >/dev/null
	@found=$$($(BIN)/python -m usher.devcluster oldest) && USHER_CONTROLPLANE_BIN=$$found $(PYTEST) -m "not crash and not flow and not since136" $(OLDEST)

compiled: $(STAMP) ## build the engine as machine code, as the image has it, and run its tests on that (minutes)
	@rm -rf build && mkdir -p build/source && cp -r pyproject.toml README.md LICENSE src build/source
	@echo "Compiling the engine"
	@HATCH_BUILD_HOOKS_ENABLE=1 $(UV) pip install --quiet --python $(BIN)/python --no-deps --target build/compiled build/source
	@PYTHONPATH=$(CURDIR)/build/compiled $(BIN)/python -c 'import usher.core.engine as e; assert e.__file__.endswith(".so"), e.__file__'
	@PYTHONPATH=$(CURDIR)/build/compiled $(PYTEST) tests/core tests/policies

lint: $(STAMP) ## style, types, import contracts; changes nothing
	@$(BIN)/ruff check --quiet
	@$(BIN)/ruff format --check --quiet
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo

check: lint ## lint and the unit tests; changes nothing, needs no control plane
	@$(PYTEST) -m "not controlplane and not crash and not flow"

fix: $(STAMP) ## format, fix what the linter can fix, and renew the docs and CRDs that are made from code
	@$(BIN)/ruff check --fix
	@$(BIN)/ruff format
	@$(BIN)/python docs/phases.py
	@$(BIN)/python -m usher.api
	@$(BIN)/python -m usher.webhooks
	@$(BIN)/python -m usher.install
	@$(BIN)/python docs/settings.py

bench: parts ## measure, and record the results in bench/results (WAITING=1000,… for other backlogs)
	@$(BIN)/python bench/controlplane.py
	@$(BIN)/python bench/cli.py
	@$(BIN)/python bench/shares.py --json bench/results/shares.json
	@$(BIN)/python bench/engine.py --waiting $(WAITING) --json bench/results/engine.json
	@test ! -d build/compiled || PYTHONPATH=$(CURDIR)/build/compiled $(BIN)/python bench/engine.py --waiting $(WAITING) --json bench/results/engine-compiled.json
	@$(BIN)/python bench/week.py --json bench/results/week.json
	@$(BIN)/python bench/webhook.py
	@$(BIN)/python bench/live.py
	@UV_PROJECT_ENVIRONMENT=$(VENV) $(UV) sync --frozen --inexact --quiet --group bench && $(BIN)/python bench/client.py

faults: $(STAMP) ## drive the engine through 20,000 courses of faults (SEEDS=first:last for others)
	@$(BIN)/python -m usher.sim.faults --seeds $(or $(SEEDS),1:20000) --jobs $$($(BIN)/python -c 'import os; print(os.cpu_count())')

clean: ## remove what was made in this folder (not the cache of built parts)
	rm -rf $(VENV) dist build .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Everything a developer does, one command each; `make help` lists them.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# Which Python each has, and where it comes from: ./bootstrap.
VENV := .venv
OLDEST := .venv-oldest
TRY := .venv-try
BIN := $(VENV)/bin
OURS := libraries/api libraries/kube libraries/service services/webhook services/operator services/server services/history certs tools/cluster tools/simulator sdk cli local dashboard
PIP_INSTALL = $(@D)/bin/pip install --quiet --disable-pip-version-check
# What others made, at the versions of uv.lock and held to its hashes; pip asks the index it is set up for.
INSTALL_LOCKED = $(@D)/bin/uv export --quiet --frozen --no-emit-workspace --no-header --no-annotate $(1) \
	--output-file $(@D)/requirements.txt && $(PIP_INSTALL) --require-hashes --no-compile -r $(@D)/requirements.txt
COMPILE = $(BIN)/uv pip compile --universal --python-version $(shell ./bootstrap --show oldest) --generate-hashes --no-header \
	--no-annotate --quiet --no-emit-package di-orchestrator
EXAMPLE ?= cartpole
ONLY ?=
VERSION ?=
UPGRADE ?=
REGISTRY ?= localhost:5000
# What a release is signed with; nothing is, without. Never in the repository.
KEY ?=
CERTIFICATE ?=
# Where a release is published.
URL ?= https://downloads.example.org/di-orchestrator
PYTEST := $(BIN)/python -m pytest
AS_ROOT := tools/as-root
# Where it is set, each of the thousands of processes of a test run compiles all that it imports: a
# second for a service.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help
help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

# ---------------------------------------------------------------- the tools
PYTHONS := bootstrap pyproject.toml services/operator/Dockerfile
$(VENV)/.ready $(OLDEST)/.ready: uv.lock services/build.lock $(PYTHONS) $(addsuffix /pyproject.toml,$(OURS))
	@./bootstrap $(@D) $(if $(filter $(OLDEST),$(@D)),oldest,newest)
	@$(PIP_INSTALL) --require-hashes --no-compile -r services/build.lock
	@$(call INSTALL_LOCKED)
	@$(PIP_INSTALL) --no-deps --no-build-isolation \
		$(addprefix --editable ,$(OURS))
	@touch $@

.PHONY: setup setup-oldest
setup: $(VENV)/.ready ## the Python environment in .venv, from the lock: of the images' Python (PYTHON=program: of another)
	@mkdir -p out # by the user: what root makes first, no later command of the user can write into
setup-oldest: $(OLDEST)/.ready ## the same in .venv-oldest, of the oldest Python that is promised

# What a local run needs, and no more.
RUNS := libraries/api libraries/kube libraries/service services/webhook services/operator services/server certs sdk cli local
$(TRY)/.ready: uv.lock services/build.lock $(PYTHONS) $(addsuffix /pyproject.toml,$(RUNS))
	@./bootstrap $(TRY) newest
	@$(PIP_INSTALL) --require-hashes --no-compile -r services/build.lock
	@$(call INSTALL_LOCKED,--no-dev --package di-local --extra try --package di-cli)
	@$(PIP_INSTALL) --no-deps --no-build-isolation \
		$(addprefix --editable ,$(RUNS))
	@touch $@

# ---------------------------------------------------------------- seeing it work
.PHONY: try
try: $(TRY)/.ready ## CartPole trained by processes of this machine: no root, no cluster, a minute
	@PATH="$(CURDIR)/$(TRY)/bin:$$PATH" $(TRY)/bin/python -m examples.demo.local

.PHONY: demo
demo: setup ## a cluster, the chart, a job (EXAMPLE=cartpole|coordinated|grpo|impala|di-engine[-dist|-elastic]|torch-ddp|jax|paddle|tensorflow|mpi|xgboost|ray|share)
	@$(AS_ROOT) $(BIN)/python -m examples.demo --example $(EXAMPLE)

.PHONY: down
down: setup ## end the demo's cluster
	@$(BIN)/di-cluster down --name demo

# ---------------------------------------------------------------- tests
LANE ?=
LANES = $(addprefix --lane ,$(LANE))

.PHONY: check
check: setup ## format, lint, types, import contracts, unit tests: no root, no cluster, at each change
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/ruff check --quiet .
	@$(BIN)/python -m tools.lanes check $(LANES)

.PHONY: test
test: setup ## every feature once, before a real API server and on a real node (LANE=units|server|... one lane)
	@$(AS_ROOT) $(BIN)/python -m tools.lanes test $(LANES)

.PHONY: test-all
test-all: setup-oldest ## every test on the oldest Python, with branch coverage, fault plans, fuzz and soak (LANE=)
	@$(AS_ROOT) $(OLDEST)/bin/python -m tools.lanes all $(LANES)

.PHONY: hooks
hooks: ## let git check format and lint of what is committed
	@git config core.hooksPath tools/hooks

.PHONY: faults
faults: setup ## every fault plan, with a report in out/faults (ONLY=text: those named so)
	@$(AS_ROOT) $(BIN)/python -m tools.faults --only "$(ONLY)"

.PHONY: hostile
hostile: setup ## good clients beside 500 bad ones of each kind at every port, and on a real node (an hour), into out/hostile
	@HOSTILE_SECONDS="$${HOSTILE_SECONDS:-60}" $(AS_ROOT) $(PYTEST) \
		tests/integration/serving/test_every_port.py tests/e2e/test_hostile.py

.PHONY: fuzz
fuzz: setup ## input of strangers without end, a report in out/fuzz (SHORT=1: a minute; ONLY=names)
	@$(AS_ROOT) $(BIN)/python -m tools.fuzz --only "$(ONLY)" \
		$(if $(SHORT),--seconds 60 --lanes 8)

.PHONY: soak
soak: setup ## 50,000 admissions, 100,000 requests while all is rolled and killed (SHORT=1: 5 minutes)
	@$(AS_ROOT) $(BIN)/python -m tools.soak $(if $(SHORT),--seconds 300)

.PHONY: bench
bench: setup ## all benchmarks into out/bench and docs/explanation/performance.md (QUICK=1: one line, 2 minutes)
	@$(AS_ROOT) $(BIN)/python -m tools.prepare bench "control plane" rival
	@$(AS_ROOT) $(BIN)/python -m tools.benchmarks $(if $(QUICK),--quick)

.PHONY: verify
verify: setup ## format, lint, types, import contracts, generated files, chart, compose file, locks, vulnerabilities
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/vermin --quiet --no-tips --violations --target=3.9- sdk/src
	@$(BIN)/vermin --quiet --no-tips --violations --target=3.8- libraries/api/src/di_unpack
	@$$($(BIN)/di-cluster binary helm) lint --strict charts/di-orchestrator
	@$(BIN)/check-jsonschema --builtin-schema vendor.compose-spec docker-compose.yml
	@$(BIN)/python -m tools.documents --check
	@$(BIN)/python -m tools.release.version --check
	@$(BIN)/towncrier build --draft --version 0 > /dev/null
	@$(BIN)/python -m tools.release.vendor --check
	@$(BIN)/uv lock --quiet --check --offline
	@$(BIN)/python -m tools.release.locks
	@./verify-generated
	@$(BIN)/python -m tools.release.vulnerabilities # the last line, also when nothing could be scanned

.PHONY: generate
generate: setup ## the CRDs, docs/how-to/gallery.md, tables of dijob.md, metrics.md, events.md and sdk.md, from the declarations
	@$(BIN)/python -m di_api.crd charts/di-orchestrator/files/*-{crd,policy}.yaml docs/reference/dijob.md
	@$(BIN)/python -m tools.documents

.PHONY: release
release: setup ## wheels, chart, bills of materials, provenance and checksums of what is committed, into out/release
	@$(BIN)/python -m tools.release.bundle out/release $(URL)

.PHONY: push
push: release ## images, chart, bills and provenance into a registry, signed with KEY= and CERTIFICATE=: REGISTRY=registry.example.org/team
	@$(AS_ROOT) $(BIN)/python -m tools.release.push "$(REGISTRY)" out/release \
		$(if $(KEY)$(CERTIFICATE),--key "$(KEY)" --certificate "$(CERTIFICATE)")

.PHONY: site
site: setup ## the documents as a site that needs no other host, into out/site
	@$(BIN)/python -m tools.release.site out/site

# ---------------------------------------------------------------- building
.PHONY: version
version: setup ## what version this is; with VERSION=0.2.0 it becomes that, everywhere, and changes/ its part of the changelog
	@$(BIN)/python -m tools.release.version $(VERSION)
	@$(if $(VERSION),$(BIN)/towncrier build --yes --version $(VERSION))

.PHONY: tag
tag: setup ## tag the commit as the version that it has; nothing is pushed
	@git diff --quiet HEAD && git tag --annotate --message "Version $$($(BIN)/python -m tools.release.version)" \
		"v$$($(BIN)/python -m tools.release.version)"

.PHONY: wheels
wheels: setup ## the Python packages, for pip install 'di-orchestrator[cli,local]', into out/wheels
	@$(BIN)/python -m tools.release.wheels out/wheels

.PHONY: images
images: setup ## the five service images, with docker, podman or buildah
	@$(AS_ROOT) $(BIN)/python -m di_cluster.release

# The examples' locks have the versions of the first. What `[tool.locks.apart]` names is made by hand.
.PHONY: lock
lock: ## pin all dependencies again, a package to one version in all locks (UPGRADE=1: to the newest)
	@$(BIN)/uv lock --quiet $(if $(UPGRADE),--upgrade)
	@mkdir -p out; $(BIN)/uv export --quiet --frozen --all-packages --all-extras --all-groups --no-hashes \
		--no-emit-workspace --no-annotate --no-header --output-file out/agreed.txt
	@pin() { echo "$$1"; $(COMPILE) $(if $(UPGRADE),--upgrade) --constraint out/agreed.txt "$$2" -o "$$1"; }; \
	pin services/build.lock services/build.in; \
	for e in cartpole coordinated-cartpole grpo impala jax ray share tensorflow xgboost; do \
		pin examples/$$e/requirements.lock examples/$$e/pyproject.toml; done
	@$(BIN)/python -m tools.release.locks

.PHONY: logs
logs: ## collect the logs of local clusters into out/logs
	@mkdir -p out/logs
	@for c in ~/.cache/di-orchestrator/clusters/*/log; do \
		[ -d "$$c" ] || continue; n=$$(basename $$(dirname $$c)); \
		mkdir -p out/logs/$$n; cp -r $$c/. out/logs/$$n/; done
	@echo "logs are in $$(pwd)/out/logs"

.PHONY: clean
clean: ## forget the environments and all results
	@rm -rf $(VENV) $(OLDEST) $(TRY) out .mypy_cache .ruff_cache .pytest_cache

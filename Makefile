# Every target installs what it needs; a fresh clone needs Python >= 3.11 and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip --disable-pip-version-check -q
# The version of everything that is released; install/ and README.md repeat it, and a test compares.
VERSION := v$(shell sed -n 's/^version = "\(.*\)"$$/\1/p' pyproject.toml)
# Another archive of a runtime image, such as `docker save` of the Dockerfile's, is packed as it is.
IMAGE ?= dist/function-modelplane-$(VERSION).tar
CROSSPLANE ?= $$($(BIN)/python -m tools.programs crossplane)

# Packages whose every branch is tested.
PURE := function/api/*,function/capacity/*,function/cloud/*,function/domain/*,function/kube/*,function/remote/*,function/scheduling/*,function/serving/*,function/status/*,function/traffic/*,function/weights/*
# The tests that cover them by themselves; tracing the others as well would only cost time.
COVERING := $(addprefix tests/,api capacity composers domain kube remote scheduling serving status traffic weights wire test_cases.py properties/test_ways_out.py)

.DEFAULT_GOAL := help
.PHONY: help demo test traced cover lint fmt generate docs conformance engines oracle needs needs-engine needs-free e2e e2e-long e2e-picker e2e-progress e2e-engine e2e-up \
  e2e-shell e2e-load e2e-down image package bench fleet fleet-races simulate simulate-short mutants fuzz fuzz-guided mutation instructions lock clean ui quickstart

# The targets with their durations, from the table of CONTRIBUTING.md.
help:
	@sed -n 's/^| `make \([a-z0-9-]*\)` | \(.*\) | \(.*\) |$$/make \1: \2 (\3)/p' CONTRIBUTING.md | sed 's/\[\([^]]*\)\]([^)]*)/\1/g'

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# Runtime only: what `make demo` and the image need.
$(VENV)/runtime.stamp: requirements/runtime.txt requirements/build.txt pyproject.toml | $(BIN)/python
	$(PIP) install --require-hashes -r requirements/runtime.txt
	$(PIP) install --require-hashes -r requirements/build.txt
	$(PIP) install --no-deps --no-build-isolation -e .
	touch $@

# The lock has all that they need; asked for more, pip warns of an extra (hf-transfer) that huggingface-hub has no more.
$(VENV)/dev.stamp: requirements/dev.txt $(VENV)/runtime.stamp
	$(PIP) install --require-hashes --no-deps -r requirements/dev.txt
	touch $@

$(VENV)/docs.stamp: requirements/docs.txt $(VENV)/runtime.stamp
	$(PIP) install --require-hashes -r requirements/docs.txt
	touch $@

$(VENV)/mutation.stamp: requirements/mutation.txt $(VENV)/dev.stamp
	$(PIP) install --require-hashes -r requirements/mutation.txt
	touch $@

$(VENV)/fuzz.stamp: requirements/fuzz.txt $(VENV)/dev.stamp
	$(PIP) install --require-hashes -r requirements/fuzz.txt
	touch $@

demo: $(VENV)/runtime.stamp
	$(BIN)/python -m tools.demo

# The workers and the many processes of the tests import what is compiled, also where Python is told to keep nothing.
test traced: export PYTHONDONTWRITEBYTECODE :=

# One worker more than two cores: some tests wait for processes. Where TRACED is set, as in CI, those of `make cover` are
# traced and leave their data for it, so that none runs twice.
test: $(VENV)/dev.stamp $(if $(TRACED),traced)
	$(BIN)/pytest -n 3 --dist worksteal tests $(if $(TRACED),$(addprefix --ignore=,$(COVERING)))

cover: $(VENV)/dev.stamp $(if $(TRACED),,traced)
	$(BIN)/coverage report --include '$(PURE)' --fail-under 100

traced: $(VENV)/dev.stamp
	$(BIN)/pytest -n 2 --dist worksteal --cov --cov-report= $(COVERING)

lint: $(VENV)/dev.stamp
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

fmt: $(VENV)/dev.stamp
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

generate: $(VENV)/dev.stamp
	$(BIN)/python -m tools.generate
	$(BIN)/python -m tools.gitops

conformance: $(VENV)/dev.stamp
	$(BIN)/python -m tools.programs crossplane crossplane-core kubectl oracle
	$(BIN)/pytest -m conformance tests/conformance tests/hub

# Every composed command line through the parsers of the engines themselves (tools/engines.py).
engines: $(VENV)/dev.stamp
	$(BIN)/python -m tools.programs kserve-merge
	$(BIN)/python -m tools.engines
	$(BIN)/pytest -m engines tests/engines

# The page of `modelplane ui` in Debian's Chromium; its screenshots go to the folder SCREENSHOTS.
ui: $(VENV)/dev.stamp
	SCREENSHOTS=$(or $(SCREENSHOTS),build/ui) $(BIN)/pytest -m browser tests/browser

# The site, into build/site; fails on a dead link, an omitted page, and whatever a page would load from elsewhere.
docs: $(VENV)/docs.stamp
	NO_MKDOCS_2_WARNING=1 PYTHONPATH=. $(BIN)/mkdocs build -q

# What the real programs make of quantities, selectors and images, after a new pin or new rows.
oracle: $(VENV)/dev.stamp
	for table in quantities selectors images; do \
	  "$$($(BIN)/python -m tools.programs oracle)" $$table > tests/oracle/$$table.json; \
	done

# The function runs from its image; without the variable it would from the tree, which is quicker to try something.
STACK := MODELPLANE_IMAGE=$(abspath $(IMAGE)) $(BIN)/python -m tools.stack

# Said before anything is installed or built: all that is missing on this machine.
needs:
	@$(PYTHON) -m tools.stack.needs

needs-engine:
	@$(PYTHON) -m tools.vllm needs

needs-free:
	@$(PYTHON) -m tools.stack.needs free

e2e: needs $(VENV)/dev.stamp image
	$(STACK) test

# What takes long: five minutes of heartbeats, a thousand nodes, services without us, two GPU clusters, Kueue; EARLIER_RELEASE
# names what is upgraded from. The last two scenarios, of one command that installs and of backups, use up their stacks.
e2e-long: needs $(VENV)/dev.stamp image
	E2E_LONG=1 $(STACK) test tests/e2e/test_18_nodes.py tests/e2e/test_13_upgrade.py tests/e2e/test_17_twenty.py \
	  tests/e2e/long_28_one_url.py tests/e2e/long_29_under_load.py tests/e2e/long_33_by_load.py \
	  tests/e2e/long_36_lent.py tests/e2e/long_37_walk.py tests/e2e/long_42_crashes.py
	$(BIN)/python -m tools.programs kueue
	$(STACK) test tests/e2e/long_40_kueue.py tests/e2e/long_45_own_cluster.py
	$(STACK) test tests/e2e/long_34_one_command.py
	$(STACK) test tests/e2e/long_35_restore.py

# A real answer: vLLM on processors, in the pods of the stack (tests/answers); as root.
e2e-engine: needs needs-engine $(VENV)/dev.stamp image
	$(BIN)/python -m tools.vllm
	$(STACK) test tests/answers

# What endpoint pickers save, and what it costs to lose them: the real picker and Envoy (docs/routing.md).
e2e-picker: needs $(VENV)/dev.stamp image
	$(BIN)/python -m tools.programs epp envoy
	$(STACK) test tests/e2e/long_41_pickers.py

# A download of 50 GB: what users see minute by minute, and what it costs (docs/storage.md); as root.
e2e-progress: needs $(VENV)/dev.stamp image
	$(STACK) test tests/e2e/long_43_progress.py

# Every command of docs/quickstart-kind.md, on a machine with Docker, kind, Helm and Go.
quickstart: $(VENV)/runtime.stamp
	$(BIN)/python -m tools.page docs/quickstart-kind.md

e2e-up: needs-free $(VENV)/dev.stamp image
	$(STACK) up

# KEDA and a Prometheus for the stack that is kept (docs/scale.md).
e2e-load: $(VENV)/dev.stamp
	@$(BIN)/python -m tools.stack load

e2e-shell: $(VENV)/dev.stamp
	@$(BIN)/python -m tools.stack shell

e2e-down: $(VENV)/dev.stamp
	$(BIN)/python -m tools.stack down

# The runtime image, without a container engine; on a machine with Debian's apt.
image: $(VENV)/runtime.stamp
	$(BIN)/python -m tools.image $(IMAGE)

# Both packages; with REGISTRY (host and path that they are pushed to) also the one that brings both and the provider,
# which is pulled from PROVIDER_REGISTRY. REPOSITORY is the address of the source that they name.
TAG ?= $(VERSION)
XPKG := $(CROSSPLANE) xpkg build --examples-root=none
package: $(VENV)/runtime.stamp $(if $(filter file,$(origin IMAGE)),image)
	REPOSITORY=$(REPOSITORY) REGISTRY=$(REGISTRY) PROVIDER_REGISTRY=$(PROVIDER_REGISTRY) TAG=$(TAG) \
	  $(BIN)/python -m tools.package_roots build/packages
	$(XPKG) --package-root=build/packages/package --embed-runtime-image-tarball=$(IMAGE) \
	  --package-file=dist/function-modelplane-$(VERSION).xpkg
	$(XPKG) --package-root=build/packages/apis --package-file=dist/configuration-modelplane-$(VERSION).xpkg
	$(if $(REGISTRY),$(XPKG) --package-root=build/packages/modelplane --package-file=dist/modelplane-$(VERSION).xpkg)
	$(if $(REGISTRY),cp build/packages/settings.yaml dist/settings-$(VERSION).yaml)

bench: $(VENV)/dev.stamp
	$(BIN)/python -m bench.decide
	$(BIN)/python -m bench.ledger
	$(BIN)/python -m bench.commands
	$(BIN)/python -m bench.load
	$(BIN)/python -m bench.sizes
	$(BIN)/python -m bench.nodes
	$(BIN)/python -m bench.ways_out

instructions: $(VENV)/dev.stamp
	$(BIN)/python -m bench.instructions

# What one change costs in a simulated fleet (docs/performance.md).
fleet: $(VENV)/dev.stamp
	$(BIN)/python -m bench.simulator grow
	$(BIN)/python -m bench.simulator scale
	$(BIN)/python -m bench.simulator resident
	$(BIN)/python -m bench.simulator herd

# Nothing is taken twice and nothing that serves goes, in 600 random histories: 15 to 30 minutes.
fleet-races: $(VENV)/dev.stamp
	$(BIN)/python -m bench.simulator races

# Histories of users, clusters and faults, judged by whose word stands behind what runs (docs/reliability.md): 10,000, in
# pieces (`python -m bench.histories run --first N` goes on), and 200 fixed ones.
simulate: $(VENV)/dev.stamp
	$(BIN)/python -m bench.histories run

simulate-short: $(VENV)/dev.stamp
	$(BIN)/pytest -m simulation -n 2 --dist worksteal tests/simulator tests/histories
	$(BIN)/python -m bench.histories run --seeds 100

# Defects that were there once, brought back one by one: each is found.
mutants: $(VENV)/dev.stamp
	$(BIN)/python -m bench.histories mutants

# Anything anywhere in a request: ten minutes at most; memory over 100,000 requests; hostile downloads, killed at random.
fuzz: $(VENV)/dev.stamp
	$(BIN)/python -m bench.fuzz requests
	$(BIN)/python -m bench.fuzz memory
	$(BIN)/python -m bench.fuzz downloads

# Requests again, of which libFuzzer keeps those that reach new code: ten minutes; on Linux.
fuzz-guided: $(VENV)/fuzz.stamp
	$(BIN)/python -m bench.fuzz.guided

# Which changes of decisions, of what stays, and of the download script no test of their packages sees: an hour of a core.
mutation: $(VENV)/mutation.stamp
	nice -n 15 $(BIN)/mutmut run --max-children 1
	$(BIN)/mutmut results

COMPILE := pip-compile -q --generate-hashes --strip-extras --allow-unsafe --no-header --annotation-style=line \
  --no-emit-index-url --no-emit-find-links --no-emit-trusted-host

lock: | $(BIN)/python
	$(PIP) install pip-tools
	$(BIN)/$(COMPILE) -o requirements/runtime.txt pyproject.toml
	for name in build dev docs fuzz mutation go traefik envoy pythonic; do $(BIN)/$(COMPILE) -o requirements/$$name.txt requirements/$$name.in; done

clean:
	rm -rf $(VENV) build .coverage .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache

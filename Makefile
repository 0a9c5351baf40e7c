# Every target installs what it needs; a fresh clone needs Python >= 3.11 and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip --disable-pip-version-check -q

.PHONY: demo test lint fmt generate conformance e2e e2e-up e2e-down bench lock clean

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# Runtime only: what `make demo` and the image need.
$(VENV)/runtime.stamp: requirements/runtime.txt pyproject.toml | $(BIN)/python
	$(PIP) install --require-hashes -r requirements/runtime.txt
	$(PIP) install hatchling editables && $(PIP) install --no-deps --no-build-isolation -e .
	touch $@

$(VENV)/dev.stamp: requirements/dev.txt $(VENV)/runtime.stamp
	$(PIP) install --require-hashes -r requirements/dev.txt
	touch $@

demo: $(VENV)/runtime.stamp
	$(BIN)/python -m tools.demo

test: $(VENV)/dev.stamp
	$(BIN)/pytest --cov --cov-report=term tests

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

conformance: $(VENV)/dev.stamp
	$(BIN)/python -m tools.programs crossplane crossplane-core
	$(BIN)/pytest -m conformance tests/conformance

lock: | $(BIN)/python
	$(PIP) install pip-tools
	$(BIN)/pip-compile -q --generate-hashes --strip-extras --allow-unsafe --no-header --annotation-style=line \
	  --no-emit-index-url --no-emit-find-links --no-emit-trusted-host -o requirements/runtime.txt pyproject.toml
	$(BIN)/pip-compile -q --generate-hashes --strip-extras --allow-unsafe --no-header --annotation-style=line \
	  --no-emit-index-url --no-emit-find-links --no-emit-trusted-host -o requirements/dev.txt requirements/dev.in

clean:
	rm -rf $(VENV) .coverage .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache

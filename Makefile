# Everything lives in the project's own .venv; Python 3.11 or newer is all that is needed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
SERVE_READY := $(VENV)/.serve-ready
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

CONFIG ?= examples/config.json
REST_PORT ?= 8000

.PHONY: help serve setup test check lint types imports lock clean
help:
	@echo "make serve   install what a server needs into $(VENV), serve $(CONFIG) on port $(REST_PORT)"
	@echo "make test    install what is needed into $(VENV), run the tests"
	@echo "make check   lint, types, import contracts, tests with coverage: what CI runs"
	@echo "make setup   only install"
	@echo "make lock    make the lock files anew from pyproject.toml"

serve: $(SERVE_READY)
	$(BIN)/graphrt serve $(CONFIG) --rest_port $(REST_PORT)

setup: $(READY)

$(SERVE_READY): requirements.lock pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install -r requirements.lock
	$(PIP) install --no-deps -e .
	touch $(SERVE_READY)

$(READY): requirements-dev.lock pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install -r requirements-dev.lock
	$(PIP) install --no-deps -e .
	touch $(READY) $(SERVE_READY)

# A file of tests shares servers and engines, so it stays with one process.
test: $(READY)
	$(BIN)/python -m pytest --numprocesses 4 --dist loadfile --cov --cov-report=term

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/mypy

imports: $(READY)
	$(BIN)/lint-imports

check: lint types imports test

# The server's lock is a part of the developers' one: the same versions.
lock:
	rm -rf build/lock && $(PYTHON) -m venv build/lock
	build/lock/bin/python -m pip install --quiet --upgrade pip
	build/lock/bin/python -m pip install --quiet ".[dev,clients,images,otel]"
	build/lock/bin/python -m pip freeze --exclude graphrt --exclude pip > requirements-dev.lock
	rm -rf build/lock && $(PYTHON) -m venv build/lock
	build/lock/bin/python -m pip install --quiet --upgrade pip
	build/lock/bin/python -m pip install --quiet --constraint requirements-dev.lock .
	build/lock/bin/python -m pip freeze --exclude graphrt --exclude pip --exclude setuptools > requirements.lock
	rm -rf build/lock

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .coverage

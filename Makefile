# Everything lives in the project's own .venv; Python 3.11 or newer is all that is needed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: help setup test check lint types imports lock clean
help:
	@echo "make test    install what is needed into $(VENV), run the tests"
	@echo "make check   lint, types, import contracts, tests with coverage: what CI runs"
	@echo "make setup   only install"
	@echo "make lock    make requirements-dev.lock anew from pyproject.toml"

setup: $(READY)

$(READY): requirements-dev.lock pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-dev.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -e .
	touch $(READY)

test: $(READY)
	$(BIN)/python -m pytest --cov --cov-report=term

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/mypy

imports: $(READY)
	$(BIN)/lint-imports

check: lint types imports test

lock:
	rm -rf build/lock && $(PYTHON) -m venv build/lock
	build/lock/bin/python -m pip install --quiet --upgrade pip
	build/lock/bin/python -m pip install --quiet ".[dev]"
	build/lock/bin/python -m pip freeze --exclude graphrt --exclude pip > requirements-dev.lock
	rm -rf build/lock

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .coverage

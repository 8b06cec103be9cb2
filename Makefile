# The two commands are `make release` and `make test`; each sets up what it needs in .venv.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
LOCK := $(BIN)/uv pip compile --quiet --upgrade --universal --generate-hashes --no-header --no-annotate \
  --python-version 3.10 --only-binary :all:
PARSER := tests/workflows/node_modules/.package-lock.json

# Without bytecode, each of the thousands of processes that a test run starts would compile its modules anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help release test test-fast test-docs proof lint docs lock benchmark clean

help: ## show what there is
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 18

# Alike on every machine, whether podman or docker answers there or not.
release: export FATWHEEL_CONTAINERS ?= none
release: $(VENV)/.toolkit ## plan, build, audit, validate and publish ao-kernels to dist/index, and install it from there
	@$(BIN)/fatwheel release package/fatwheel.yml --to dir:dist/index --out dist --here --replace

# In the order of the folders, but for the short tests, which come last (tests/conftest.py): no process waits at the end.
# Three processes for two processors: in one process, tests wait for servers, disks and locks for a fifth of the time.
# Four take longer than three.
test: $(VENV)/.tests ## run every test but the longest
	@$(BIN)/python -m pytest -m "not long" --numprocesses 3 --dist loadfile --no-loadscope-reorder --durations 25

test-fast: $(VENV)/.tests ## run the tests that build and install nothing and need no torch, in under a minute
	@$(BIN)/python -m pytest -m "not slow and not long" tests/unit tests/proof --numprocesses 2 --dist loadfile --durations 10

proof: $(VENV)/.tests $(VENV)/.lint $(PARSER) ## run the longest tests, hold the toolkit against other people's projects, and record what came of it
	@$(BIN)/python -m pytest -m long --numprocesses 2 --dist loadfile
	@$(BIN)/python -m tests.proof
	@$(BIN)/python -m tests.proof.growth
	@$(BIN)/python -m tests.proof.starters
	@$(BIN)/python -m tests.proof.plain_way
	@$(BIN)/python -m tests.proof.cuda_builds
	@$(BIN)/python -m tests.proof.full_torch
	@$(BIN)/python -m tests.proof.recipe_builds
	@$(BIN)/python -m tests.proof.shards --units 64 --seconds 20
	@$(BIN)/python -m tests.proof.flawed.oracle
	@$(BIN)/python -m tests.proof.macos.wheels
	@$(BIN)/python -m tests.proof.index_walks
	@$(BIN)/python -m tests.proof.callers $(CALLERS)

lint: $(VENV)/.lint $(PARSER) ## check style, types, formatting, workflow files and the count of lines
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache >/dev/null || $(BIN)/lint-imports --no-cache
	@git ls-files 'kernels/*.cu' 'kernels/*.cuh' 'kernels/*.cpp' 'kernels/*.h' 'package/*.cpp' 'tests/kernels/*.cpp' | xargs $(BIN)/clang-format --dry-run --Werror
	@$(BIN)/python -m tests.workflows.lint
	@$(BIN)/python -m tests.language
	@$(BIN)/python -m tests.budget

docs: $(VENV)/.docs ## build the website in dist/site; a broken link or anchor fails. RELEASES=1 adds the released versions
	@$(BIN)/python -m docs.site $(if $(RELEASES),--releases)

test-docs: $(VENV)/.docs ## look at a website in a browser, and break pages to see that the build fails
	@$(BIN)/python -m pytest tests/integration/test_site.py

lock: $(VENV)/.tests ## bring the packages that workflows install up to date, each with its hashes
	@$(LOCK) pyproject.toml -o .github/actions/setup/requirements.txt
	@echo uv | $(LOCK) - -o .github/actions/setup/uv.txt >/dev/null

benchmark: $(VENV)/.tests ## measure planning, index writing and kernels
	@PYTHONPATH=package/src $(BIN)/python -m tests.benchmarks

clean: ## remove what the other commands made here
	rm -rf $(VENV) dist

# The environment: the toolkit first, then what its tests and its checks need.
$(VENV)/.python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "fatwheel needs Python 3.10 or later: make PYTHON=python3.12 …")'
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	@touch $@

$(VENV)/.toolkit: $(VENV)/.python pyproject.toml
	@$(BIN)/python -m pip install --quiet --editable .
	@touch $@

$(VENV)/.tests: $(VENV)/.toolkit pyproject.toml
	@$(BIN)/python -m pip install --quiet --group test
	@touch $@

$(VENV)/.lint: $(VENV)/.tests
	@$(BIN)/python -m pip install --quiet --group lint
	@touch $@

$(VENV)/.docs: $(VENV)/.toolkit pyproject.toml
	@$(BIN)/python -c 'import sys; sys.exit(sys.version_info < (3, 11) and "the website needs Python 3.11 or later, as Sphinx does: make clean, then make docs PYTHON=python3.12 …")'
	@$(BIN)/python -m pip install --quiet --group docs
	@touch $@

# GitHub's own parser of workflow files, which needs Node 20.6 or later: npm writes this file last.
$(PARSER): tests/workflows/package-lock.json
	@npm ci --prefix tests/workflows --no-audit --no-fund --loglevel=error >/dev/null

# Works with make, a Python and a network alone. The virtual environment is made once; stamp files in it
# remember what is installed, so that a second call goes straight to its work.
#
#   make test PYTHON=python3.13 VENV=.venv-3.13     another Python, in an environment of its own
#   make test PYTEST_ARGS="-k order -x"             other arguments for pytest

PYTHON ?= python3
VENV ?= .venv
# The extra that the tests are installed with; `tests` leaves out the linters and the type checkers.
EXTRA ?= dev
# The same for the benchmarks.
BENCH_EXTRA ?= bench
# No test takes minutes unless it hangs, and a hang should say where.
PYTEST_ARGS ?= -n auto --maxprocesses 8 --timeout 300

# Tests run side by side: more threads in each would only wait for each other.
export OPENBLAS_NUM_THREADS ?= 1
export OMP_NUM_THREADS ?= 1

BIN = $(VENV)/bin
PIP = $(BIN)/python -m pip install --quiet --disable-pip-version-check

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
# Two pip runs in one environment corrupt each other, and the tests use every core by themselves.
.NOTPARALLEL:

.PHONY: help demo test test-all upstream planted coverage mutants lint types imports docs pictures bench dist clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' Makefile

demo: $(VENV)/.stamp-train ## Trace, repair and restore a program, then train a classifier for three epochs
	$(BIN)/python examples/demo.py
	$(BIN)/aspecthook train --epochs 3 --work-dir work_dirs/demo --overwrite

test: $(VENV)/.stamp-$(EXTRA) ## Run the tests that a change should not break (minutes)
	$(BIN)/python -m pytest -m "not (torch or wide or stress)" $(PYTEST_ARGS)

test-all: $(VENV)/.stamp-$(EXTRA) $(VENV)/.stamp-torch ## Run every test: PyTorch (it is big), other libraries, documentation, stress
	$(BIN)/python -m pytest $(PYTEST_ARGS)

# In an environment of its own: they bring OpenCV and a gigabyte.
upstream: ## Run the tests of hooks that mmengine and Keras are needed for, Keras's own tests of callbacks among them
	@$(MAKE) --no-print-directory test-all VENV=.venv-upstream EXTRA=upstream \
	  PYTEST_ARGS="$(PYTEST_ARGS) tests/training/keras tests/training/hooks/test_mmengine.py"

# PLANTED_ARGS="weave order" for less; PLANTED_ARGS=--matrix runs all tests of each bug (two hours on two cores).
planted: $(VENV)/.stamp-$(EXTRA) ## Plant bugs in the package, one at a time, and see which test finds each
	$(BIN)/python -m tests.planted $(PLANTED_ARGS)

# Four tests of events fail while coverage.py traces; `make test` shows whether the tests pass, and this what they run.
coverage: $(VENV)/.stamp-mutants ## Measure which branches of the core and of weaving the tests run (minutes)
	$(BIN)/python -m coverage erase
	-$(BIN)/python -m coverage run -m pytest -m "not (torch or wide or stress)" --timeout 300 -p no:cacheprovider \
	  tests/core tests/weave tests/properties tests/copies tests/plugins tests/events
	$(BIN)/python -m coverage combine
	$(BIN)/python -m coverage report

# MUTANTS=20 for fewer; MUTANTS_ARGS="--seed 2 weave" for others.
mutants: $(VENV)/.stamp-mutants ## Change one small thing at a time in the package but training, see what is found (an hour)
	$(BIN)/python -m tests.mutants --size $(or $(MUTANTS),150) $(MUTANTS_ARGS)


lint: $(VENV)/.stamp-dev ## Check style and format
	$(BIN)/python -m ruff check .
	$(BIN)/python -m ruff format --check .

# `--verifytypes`: every public name has a type, whatever is not annotated in the libraries that it mentions. Then pyright
# reads no --pythonpath, but asks the first Python in PATH.
types: $(VENV)/.stamp-dev ## Check the types, the package's and its users'
	$(BIN)/python -m mypy --strict
	PYRIGHT_PYTHON_IGNORE_WARNINGS=1 $(BIN)/python -m pyright --pythonpath $(BIN)/python
	PYRIGHT_PYTHON_IGNORE_WARNINGS=1 PATH="$(abspath $(BIN)):$$PATH" \
	  $(BIN)/python -m pyright --verifytypes aspecthook --ignoreexternal

imports: $(VENV)/.stamp-dev ## Check that imports run one way
	$(BIN)/lint-imports

# From scratch each time, since Sphinx warns of a page only when it reads it.
docs: $(VENV)/.stamp-docs ## Build the documentation as a site: build/docs/index.html
	$(BIN)/python -m sphinx --fresh-env --fail-on-warning --quiet --doctree-dir build/doctrees docs build/docs

pictures: $(VENV)/.stamp-docs ## Take the pictures of a terminal in the documentation anew
	$(BIN)/python docs/terminal_pictures.py

bench: $(VENV)/.stamp-$(BENCH_EXTRA) ## Run the benchmarks (minutes); BENCH_ARGS="--fast chains" for less
	$(BIN)/python -m benchmarks $(BENCH_ARGS)

dist: $(VENV)/.stamp-dist ## Build the sdist and the wheel into dist/, and check what a package index will show
	rm -rf dist
	$(BIN)/python -m build
	$(BIN)/python -m twine check --strict dist/*

clean: ## Remove the environments and everything built or cached
	rm -rf .venv .venv-* build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name .git -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +

# Written so that every Python, Python 2 too, can run it and say what is wrong.
define CHECK_PYTHON
import sys; \
v = sys.version_info; \
v < (3, 11) and sys.exit("aspecthook needs Python 3.11 or newer, and $(PYTHON) is %d.%d. " % v[:2] + \
"Name another one: make PYTHON=python3.12 ..."); \
from importlib.util import find_spec; \
find_spec("ensurepip") and find_spec("venv") or sys.exit("$(PYTHON) cannot make virtual environments: it lacks ensurepip. " \
"On Debian and Ubuntu: apt install python%d.%d-venv" % v[:2])
endef

$(VENV)/.stamp-venv:
	@command -v "$(PYTHON)" >/dev/null || \
	  { echo "There is no $(PYTHON) here. Name another Python, 3.11 or newer: make PYTHON=python3.12 ..." >&2; exit 1; }
	@"$(PYTHON)" -c '$(CHECK_PYTHON)'
	"$(PYTHON)" -m venv $(VENV)
	@touch $@

# .stamp-dev, .stamp-tests, .stamp-bench, .stamp-torch and so on: the package with that extra. The constraints pin PyTorch.
$(VENV)/.stamp-%: $(VENV)/.stamp-venv pyproject.toml constraints.txt
	$(PIP) --editable '.[$*]' --constraint constraints.txt
	@touch $@

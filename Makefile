# Every target sets itself up: a machine with make and Python 3.11 to 3.13 needs nothing else.
#   make test PYTHON=python3.12      picks the interpreter (for a new .venv)
#   make test PYTEST_ARGS="-k flow"  passes arguments on to pytest

PYTHON ?= python3
PYTEST_ARGS ?=
VENV := .venv
TORCH_VENV := .venv-torch

INSTALL := -m pip install -qq --disable-pip-version-check -c requirements.lock -e
# One file per core, at most 4 at a time; tests of one file share what JAX has compiled.
PYTEST := -m pytest -n auto --maxprocesses 4 --dist loadfile
NO_TESTS := { status=$$?; [ $$status -ne 5 ] || echo "no test ran: that is a failure" >&2; exit $$status; }

.PHONY: help test test-torch test-ray bench demo lint types docs format lock clean
.DELETE_ON_ERROR:

help:
	@echo "make test        the whole default suite"
	@echo "make test-torch  the tests that need PyTorch (an environment of their own)"
	@echo "make test-ray    the tests that need Ray (no part of .ci/run)"
	@echo "make demo        complete two real inputs, results under demo-output/"
	@echo "make lint        ruff: rules and formatting      make types   mypy"
	@echo "make docs        the documentation, strictly     make format  rewrite in place"
	@echo "make lock        refresh requirements.lock       make clean   remove all of it"

test: $(VENV)/.dev
	@$(VENV)/bin/python $(PYTEST) $(PYTEST_ARGS) || $(NO_TESTS)

test-torch: $(TORCH_VENV)/.torch
	@$(TORCH_VENV)/bin/python $(PYTEST) -m torch $(PYTEST_ARGS) || $(NO_TESTS)

test-ray: $(VENV)/.dev $(VENV)/.ray
	@$(VENV)/bin/python -m pytest -m ray $(PYTEST_ARGS) || $(NO_TESTS)

demo: $(VENV)/.demo
	$(VENV)/bin/python -m examples.demo

lint: $(VENV)/.dev
	$(VENV)/bin/ruff check
	$(VENV)/bin/ruff format --check

types: $(VENV)/.dev
	$(VENV)/bin/mypy

docs: $(VENV)/.docs
	rm -rf docs/_build docs/api/generated
	$(VENV)/bin/python -m sphinx -W --keep-going --quiet -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

format: $(VENV)/.dev
	$(VENV)/bin/ruff check --fix
	$(VENV)/bin/ruff format

# The lock constrains every combination of extras on every supported Python. Of torch it fixes the
# release only: the CUDA packages that some of its builds ask for are the build's own choice.
lock: $(VENV)/.dev
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check uv
	$(VENV)/bin/uv pip compile pyproject.toml --quiet --upgrade --all-extras --universal \
	  --python-version 3.11 --fork-strategy fewest --no-annotate --no-header --no-emit-index-url \
	  --upgrade-package torch==2.13.0 --output-file $(VENV)/lock.txt
	{ echo "# Made by 'make lock', used as pip constraints (-c) for every set of extras."; \
	  grep -vE '^(nvidia-|cuda-|triton)' $(VENV)/lock.txt; } > requirements.lock

clean:
	rm -rf $(VENV) $(TORCH_VENV) build dist demo-output docs/_build docs/api/generated
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests examples docs -name __pycache__ -type d -prune -exec rm -rf {} +

# Environments. A stamp per extra, older than the files that decide what it holds: installed again
# only when one of those changes. The extras of .venv add up.

$(VENV)/.dev $(VENV)/.demo $(VENV)/.docs $(VENV)/.ray: $(VENV)/.%: pyproject.toml requirements.lock | $(VENV)/bin/pip
	@echo "installing the $* environment into $(VENV) (once)"
	@$(VENV)/bin/python $(INSTALL) ".[$*]"
	@touch $@

$(TORCH_VENV)/.torch: pyproject.toml requirements.lock | $(TORCH_VENV)/bin/pip
	@echo "installing the torch environment into $(TORCH_VENV) (once)"
	@$(TORCH_VENV)/bin/python $(INSTALL) ".[test,torch]"
	@touch $@

$(VENV)/bin/pip $(TORCH_VENV)/bin/pip:
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null || { \
	  echo "depthrank needs Python 3.11, 3.12 or 3.13, and '$(PYTHON)' is" \
	    "$$($(PYTHON) --version 2>/dev/null || echo missing). Name another: make PYTHON=python3.12 ..." >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "'$(PYTHON)' comes without venv or ensurepip. Install them (on Debian and Ubuntu the" \
	    "package python3-venv), or name another interpreter: make PYTHON=python3.12 ..." >&2; exit 1; }
	@$(PYTHON) -m venv $(patsubst %/bin/pip,%,$@)

bench: $(TORCH_VENV)/.torch
	$(TORCH_VENV)/bin/python benchmarks/authors_setting.py

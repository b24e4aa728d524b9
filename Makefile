# Every command installs what it needs into .venv first. On Windows, see CONTRIBUTING.md.

PYTHON ?= python3
BIN := .venv/bin
CHAPTER ?=
SET ?=

# A reader's own settings of Jupyter, IPython and matplotlib must not change what a notebook shows.
unexport JUPYTER_PATH IPYTHONDIR MPLBACKEND MATPLOTLIBRC PYTHONPATH PYTHONDONTWRITEBYTECODE
export JUPYTER_PREFER_ENV_PATH := 1
export PYTHONUTF8 := 1
export DENO_NO_UPDATE_CHECK := 1
# Two chapters or two tests run at a time, each on one core.
book test test-all: export OMP_NUM_THREADS := 1
book test test-all: export NUMBA_NUM_THREADS := 1

.NOTPARALLEL:
.PHONY: help book text test test-all serve print lab clean ready

help:  ## list these commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-9s %s\n", $$1, $$2 }' Makefile
	@echo 'CHAPTER=merged is for book, text and test-all; SET="seeds=1 dim=6", other parameters, is for book.'

book: ready  ## execute every chapter, or CHAPTER=name, and build the pages into _build/html
	$(BIN)/python tools/execute.py $(CHAPTER) $(if $(SET),--set $(SET:%='%'))
	@$(MAKE) --no-print-directory _build/.built

text: ready  ## fill the numbers into the text and tidy the notebooks, without executing them
	$(BIN)/python tools/execute.py --text $(CHAPTER)

test: _build/.built  ## check the style, run the quick tests, and compare every chapter with its outputs
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/deno fmt --check --quiet
	$(BIN)/deno lint --quiet
	$(BIN)/deno check --quiet book/iclbook/explorers
	$(BIN)/python tools/browsers.py
	$(BIN)/pytest -n 2 --dist worksteal -p no:nbval tests
	$(BIN)/pytest -n 2 --dist loadfile --nbval book

test-all: test  ## test, the slow tests, and every chapter with other settings
	$(BIN)/pytest -n 2 --dist worksteal -p no:nbval -m slow tests
	$(BIN)/python tools/other_settings.py $(CHAPTER)

serve: _build/.built  ## show the pages at http://127.0.0.1:8000
	$(BIN)/python -m http.server 8000 --bind 127.0.0.1 --directory _build/html

print: _build/.built  ## print the whole book to _build/print/book.pdf
	$(BIN)/python tools/browsers.py
	$(BIN)/python tools/paper.py

lab: ready  ## open the chapters in JupyterLab
	cd book && ../$(BIN)/jupyter-lab --allow-root

clean:  ## remove everything that was built, but not .venv
	rm -rf _build build *.egg-info .pytest_cache .ruff_cache .hypothesis

ready: .venv/.ready  ## install into .venv, which all other commands do first

.venv/.ready: requirements.txt requirements.lock pyproject.toml setup.py
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.12")'
	@echo "Setting up .venv (a minute)"
	@$(PYTHON) -m venv .venv
	@awk '/^[^ ]/ { uv = /^uv==/ } uv' requirements.lock > .venv/uv.txt
	@$(BIN)/pip install --quiet --require-hashes -r .venv/uv.txt
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --compile-bytecode --no-deps --require-hashes -r requirements.lock
	@$(BIN)/pip install --quiet $$(grep -o '^torch==[^ ]*' requirements.txt)
	@$(BIN)/pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

# The pages are built from nothing, because a second build of Sphinx would not repeat its warnings, and beside
# the old pages, which stay until the new ones are whole. The rule's file is as old as the start of the build.
SOURCES := $(shell find _config.yml _toc.yml book iclcore tools -type f -not -path '*/.*' -not -path '*/__pycache__/*')
_build/.built: .venv/.ready $(SOURCES) $(wildcard _build/seconds.json)
	@rm -rf _build/new && mkdir -p _build/new && touch _build/new/.built
	$(BIN)/jupyter-book build . -W -n --keep-going --quiet --path-output _build/new > _build/new/log
	@rm -rf _build/html && mv _build/new/_build/html _build/html && mv _build/new/.built _build/.built
	@rm -rf _build/new
	@echo "the book is in _build/html/index.html"

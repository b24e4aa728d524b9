# Each target sets up what it needs by itself: make and Python 3.11 or newer are enough.

PYTHON ?= python3
CHAPTER ?=
SET ?=

BIN := .venv/bin
READY := .venv/.ready
BUILT := _build/.built
CHECKED := $(if $(CHAPTER),$(CHAPTER:%=book/%.ipynb),book)
SOURCES := _config.yml _toc.yml $(shell find book tools iclcore -type f -not -path '*/.*' -not -path '*/__pycache__/*' 2>/dev/null)

# A reader's own Jupyter, IPython and matplotlib settings must not change what a notebook shows.
unexport JUPYTER_PATH IPYTHONDIR MPLBACKEND MATPLOTLIBRC PYTHONPATH
export JUPYTER_PREFER_ENV_PATH := 1
# All files are UTF-8, in whatever locale.
export PYTHONUTF8 := 1

# One after another, `make -j` or not: book and test both build, and both use all cores.
.NOTPARALLEL:
.PHONY: help book test test-settings test-processors test-mutants test-firefox lab serve bench browser clean

help:
	@echo "make book                  execute every chapter, check it by nbval, build the pages into _build/html"
	@echo "make book CHAPTER=merged   execute one chapter, then build"
	@echo "    SET=\"seeds=1 dim=6\"    with other settings, by the names of its parameters cell: to look at"
	@echo "make test                  lint, format, tests, pages in a browser: with make book, what CI runs"
	@echo "make test-settings         every chapter with other settings, into a temporary folder (CHAPTER=merged: one)"
	@echo "make test-processors       numeric tests and chapters as on three other processors (a quarter of an hour)"
	@echo "make test-mutants          put small faults into theory and engines: which do the tests miss? (20 minutes)"
	@echo "make test-firefox          the explorers in Firefox against Chromium, where Firefox is installed"
	@echo "make serve                 show the pages at http://127.0.0.1"
	@echo "make lab                   open the chapters in JupyterLab"
	@echo "make bench                 measure"
	@echo "make clean                 remove what was built (.venv stays)"

$(READY): requirements.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("Python 3.11 or newer is needed, not " + sys.version.split()[0] + ": make PYTHON=python3.12")'
	@echo "Setting up .venv (a minute or two)"
	@$(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

# nbval executes once more, as it is committed, and compares every printed number with what stands in
# the notebook.
# Make starts it without a shell between, which would not pass on the signal that ends make.
book test: export OMP_NUM_THREADS := 1
book test: export NUMBA_NUM_THREADS := 1
book: $(READY)
	$(BIN)/python tools/execute.py $(CHAPTER) $(if $(SET),--set $(SET:%='%'))
ifeq ($(SET),)
	$(BIN)/python tools/workplace.py $(BIN)/python -m pytest -n 2 --dist loadfile --nbval --nbval-current-env $(CHECKED)
endif
	$(BIN)/python tools/build.py

$(BUILT): $(READY) $(SOURCES)
	$(BIN)/python tools/build.py

serve: $(BUILT)
	@$(BIN)/python tools/serve.py _build/html

lab: $(READY)
	cd book && ../$(BIN)/jupyter lab --allow-root  # a container's user is root

test: browser $(BUILT)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python -m pytest -n 2 --dist worksteal tests

test-settings: $(READY)
	$(BIN)/python tools/workplace.py $(BIN)/python tools/other_settings.py $(CHAPTER)

test-processors: $(READY)
	$(BIN)/python tools/workplace.py $(BIN)/python tools/processors.py

test-mutants: $(READY)
	$(BIN)/python tools/workplace.py $(BIN)/python tools/mutants.py

test-firefox: browser $(READY)
	FIREFOX=yes $(BIN)/python -m pytest tests/browser/test_in_firefox.py

bench: browser $(BUILT)
	$(BIN)/python -m bench
	$(BIN)/python -m bench.redraw

# The browser tests drive Chromium; its name differs between systems.
browser:
	@for name in chromium chromium-browser google-chrome; do command -v $$name >/dev/null && exit 0; done; \
	if command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ]; \
	then apt-get update -qq && apt-get install -y -qq chromium; \
	else echo "make test needs chromium or google-chrome on the PATH (Debian: sudo apt-get install chromium)"; exit 1; fi

clean:
	rm -rf _build build *.egg-info .pytest_cache .ruff_cache .hypothesis

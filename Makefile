# Each command's steps are in tools/make.py, which runs without make too: Python 3.11 or newer is enough.

PYTHON ?= python3
CHAPTER ?=
SET ?=
export CHAPTER SET

# One after another, `make -j` or not: book and test both build, and both use all cores.
.NOTPARALLEL:
.PHONY: help book test test-slow test-settings test-processors test-mutants test-long test-browsers serve print lab bench browser ready clean

help:
	@$(PYTHON) tools/make.py

book test test-slow test-settings test-processors test-mutants test-long test-browsers serve print lab bench browser ready clean:
	@$(PYTHON) tools/make.py $@

# Two commands set everything up: `make demo` and `make test`. You need Python 3.11 or newer, and make.

PYTHON ?= python3
ARGS ?=
WORKERS ?= 3# one more than two cores: tests wait for disks and processes
VENV := .venv
RUN := $(VENV)/bin/python
PIP := $(RUN) -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
STAMP := $(VENV)/.installed
MOTO := .moto/bin/moto_server
# `make test` keeps its files in memory where 4 GB of it are free: half of the time it would wait for the disk.
MEMORY := $(shell df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 && $$4 > 4194304 {print "/dev/shm"}')

.DEFAULT_GOAL := help
.PHONY: help demo demo-postgres test test-slow test-all lint bench bench-spark bench-http soak torture mutants clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo '  pass options in ARGS: make bench ARGS=--quick'

demo: $(STAMP)-spark ## write 200,000 events, kill the writer half-way, prove that nothing is lost
	$(RUN) -m examples.demo $(ARGS)

demo-postgres: $(STAMP)-test ## the same on a real PostgreSQL server, which it starts
	$(RUN) -m examples.demo --engine postgres --dir demo-data/postgres --events 20000 $(ARGS)

test: $(STAMP)-test ## run the tests while you work: all but Spark, browsers, benchmarks and other long ones; 8 minutes
	@place=$$(mktemp -d $(or $(MEMORY),$${TMPDIR:-/tmp})/tallystick-tests-XXXXXX); chmod 755 "$$place"; trap 'rm -rf "$$place"' EXIT; \
	TMPDIR="$$place" $(RUN) -m pytest -n $(WORKERS) --dist loadfile -m 'not heavy' $(ARGS)

test-all: $(STAMP)-test $(MOTO) ## run all tests that a change must pass, as .ci/run does; 25 minutes
	$(RUN) -m pytest -n $(WORKERS) --dist loadfile -m 'not slow' $(ARGS)

test-slow: $(STAMP)-test $(MOTO) ## run the campaigns that are too long for .ci/run: Spark on a cluster, killed for real, and more
	$(RUN) -m pytest -m slow --timeout 1800 $(ARGS)

lint: $(STAMP)-lint $(STAMP)-test ## check style and types
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m mypy
	$(RUN) -m mypy --ignore-missing-imports bench examples tests/docs/requirements.py

bench: $(STAMP)-bench ## compare with other event stores (ARGS=--quick: two minutes)
	$(RUN) -m bench $(ARGS)

bench-spark: $(STAMP)-bench ## measure the pipeline on Spark (ARGS=--quick: 200,000 events)
	$(RUN) -m bench.spark $(ARGS)

bench-http: $(STAMP)-bench ## measure the service over HTTP (ARGS=--quick: two minutes)
	$(RUN) -m bench.http $(ARGS)

soak: $(STAMP) ## append for five minutes and watch the rate and the memory (ARGS="--minutes 60")
	$(RUN) -m bench.soak $(ARGS)

torture: $(STAMP)-test ## damage 10,000 stores, kill 500 writers per engine (ARGS="--count 2000 --kills 50 --seed 7")
	$(RUN) -m tests.torture $(ARGS)

mutants: $(STAMP)-test ## make 1,000 small mistakes in the code and count how many the tests notice (ARGS=--report prints the results)
	$(RUN) -m tests.mutants $(ARGS)

clean: ## remove the environment and everything that was built
	rm -rf $(VENV) .moto build dist demo-data bench/out .mutants .mypy_cache .pytest_cache .ruff_cache .hypothesis

$(RUN):
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)

# A server that speaks S3, for tests. It has its own environment: its botocore needs an older python-dateutil than ours.
$(MOTO): constraints-moto.txt
	$(PYTHON) -m venv .moto
	.moto/bin/pip install --quiet --disable-pip-version-check --constraint constraints-moto.txt 'moto[server]' \
		|| echo 'moto could not be installed: the tests of object stores are skipped.' >&2

# One stamp per extra: a second `make` installs nothing, a changed dependency installs again.
$(STAMP): pyproject.toml constraints.txt | $(RUN)
	$(PIP) --editable .
	@touch $@

$(STAMP)-%: pyproject.toml constraints.txt | $(RUN)
	$(PIP) --editable '.[$*]'
	@touch $@

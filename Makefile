# Every target makes the environment that it needs; nothing has to be installed before, but Python 3.11 or later,
# its venv module, util-linux and make.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
REPORTS ?= reports
PYTEST_ARGS ?=
# Hundreds of processes start below; each would compile all of its modules again.
unexport PYTHONDONTWRITEBYTECODE

# Where dev/kind made what kind needs, the shell is told; elsewhere kind and Docker are used as they are there.
KIND_ENV = set -e; settings=$$(dev/kind/env --if-made --site-packages $$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')); eval "$$settings"

.PHONY: conformance quick pure everything test test-kind kind-lab kind-down lint defects cells bench wheel clean help

help:
	@echo "make conformance   run the suite on the embedded cluster; the page is $(REPORTS)/latest/report.html"
	@echo "make quick         lint, types and the tests that only compute"
	@echo "make test          test the plugin; what goes wrong under defects and in mutants is for make cells"
	@echo "make everything    all there is, with full numbers of examples: nightly, before a release"
	@echo "make lint          ruff, mypy, import rules"
	@echo "make defects       run the suite under every planted defect, and every mutant; compare with the tables"
	@echo "make cells         the same, but under each defect only the rows that show it"
	@echo "make test-kind     run the suite on a kind cluster, and compare it with the embedded one"
	@echo "make kind-lab      make a Docker engine and a node image from nothing (dev/kind/README.md)"
	@echo "make kind-down     stop that engine"
	@echo "make bench         print the benchmarks"
	@echo "make wheel         build the wheel in dist/"
	@echo "make clean         remove the environment, wheels and reports"

$(VENV)/.ready: pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or later is needed, this is %s: make PYTHON=python3.12" % sys.version.split()[0])'
	@echo "Setting up $(VENV), once: PyTorch (from PyPI several GB, the CUDA build), Kubernetes client, test tools. Takes minutes."
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[torch,kind,html,parallel,etcd,mpi,dev]'
	touch $@

# In the order of the areas: pytest-randomly is here for the tests of the plugin.
conformance: $(VENV)/.ready
	$(BIN)/python -m pytest suites -p no:randomly --cluster=embedded --gpucluster-report-dir=$(REPORTS) $(PYTEST_ARGS)

# Tests mostly wait, so more run at a time than there are CPUs; who is done early takes over from others. Mutants and the
# tables of defects are tests of `make cells`, which reads each recording once.
test: $(VENV)/.ready
	$(BIN)/python -m pytest tests --ignore=tests/defects -n 4 --dist worksteal $(PYTEST_ARGS)

# Types and tests side by side.
quick: $(VENV)/.ready
	$(MAKE) --no-print-directory --jobs 2 --output-sync=target lint pure

pure: $(VENV)/.ready
	$(BIN)/python -m pytest tests --pure -n 2 -q $(PYTEST_ARGS)

everything: lint conformance defects
	$(BIN)/python -m pytest tests --everything -n 6 --dist worksteal $(PYTEST_ARGS)
	$(MAKE) --no-print-directory test-kind PYTEST_ARGS="--everything $(PYTEST_ARGS)"

test-kind: $(VENV)/.ready
	@$(KIND_ENV); $(BIN)/python -m pytest tests/kind/test_*.py tests/kind/misconfigurations -m kind -p no:randomly --durations=0 --durations-min=20 $(PYTEST_ARGS)

# Debian and root only, see dev/kind/README.md; who has Docker needs neither.
kind-lab:
	dev/kind/up

kind-down:
	dev/kind/down

lint: $(VENV)/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Waiting is most of what live defects take, so six run at a time, each worker on a cluster of its own; what starts torch
# stays with two of them, and what is decided from recordings with another, which reads each once.
MATRIX = tests/defects -m "" -n 6 --dist loadgroup

defects: $(VENV)/.ready
	$(BIN)/python -m pytest $(MATRIX) $(PYTEST_ARGS)

cells: $(VENV)/.ready
	$(BIN)/python -m pytest $(MATRIX) --declared $(PYTEST_ARGS)

bench: $(VENV)/.ready
	for each in benchmarks/*.py; do $(BIN)/python $$each || exit 1; done

wheel: $(VENV)/.ready
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist .
	@ls -t dist/*.whl | head -n 1

clean:
	rm -rf $(VENV) build dist reports

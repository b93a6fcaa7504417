# PYTHON: the interpreter to make the virtual environment with. VENV: where to put it.
PYTHON ?= python3
VENV ?= .venv

BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
DEMO := demo-out
QUICK := .venv-quick

NEW_ENOUGH = $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
    { echo "Python 3.10 or newer is needed; name one with: make PYTHON=python3.12" >&2; exit 1; }

.DEFAULT_GOAL := help
.PHONY: help demo quick test environments nightly lint docs clean

help: ## Show this list.
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "    make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(INSTALLED) ## Migrate the fixtures, verify that they train the same, and write reports to demo-out/.
	@fixtures/demo.sh $(BIN) $(DEMO)

# An environment of its own, because it is made in seconds: no PyTorch.
quick: $(QUICK)/.installed ## Run the linters and every 24th test that needs no PyTorch: half a minute, for while you write.
	$(QUICK)/bin/ruff check --quiet .
	$(QUICK)/bin/ruff format --check --quiet .
	PYTHONPATH=tests $(QUICK)/bin/pytest --quiet --numprocesses auto -p quick

# One thread each: the tests already fill the cores, and PyTorch's threads would only wait for each other.
# Byte code first: the tests start hundreds of processes, and where PYTHONDONTWRITEBYTECODE is set each would compile; and
# every process of pytest would rewrite the assertions of all tests anew, at each run.
test: lint docs ## Run the linters, the type checker, the documentation and all tests.
	$(BIN)/python -m compileall -q migrate shim
	OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE= $(BIN)/pytest --numprocesses auto --dist loadfile --no-loadscope-reorder --durations 25

# The rest of what CI runs. TORCH=--torch: with torch, too, at the price of gigabytes.
environments: $(INSTALLED) ## Run the commands in fresh environments: the oldest dependencies, every Python that is here.
	.ci/environments $(BIN) $(TORCH)

# Where the tests run 24 random programs, fix one script and kill runs over three files, hours go through thousands, six
# and ten. Each ends with 1 where something came out wrong; `fuzz_programs.py --reduce` shows it as a short program.
nightly: $(INSTALLED) ## Run 5,000 random programs, six through `fix`, and kill a thousand runs: hours, for a machine at night.
	AMP_MIGRATE_NIGHTLY=1 OMP_NUM_THREADS=1 $(BIN)/pytest tests/verify/commands/test_fix_without_a_hand.py
	AMP_MIGRATE_KILL_FILES=10 OMP_NUM_THREADS=1 $(BIN)/pytest tests/migrate/engine/disk/test_killed.py
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/fuzz_programs.py --programs 5000

lint: $(INSTALLED) ## Run the linters and the type checker.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Not `--quiet`: strictness counts the warnings that are printed.
docs: $(INSTALLED) ## Build the documentation into site/; a link that leads nowhere fails.
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

clean: ## Remove the virtual environment, the demo's output and all caches.
	rm -rf $(VENV) $(QUICK) $(DEMO) site build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Installed again whenever the dependencies may have changed.
$(INSTALLED): pyproject.toml
	@$(NEW_ENOUGH)
	$(PYTHON) -m venv $(VENV)
	@echo "Installing PyTorch and the rest, 6 GB with the libraries for GPUs; the first time this takes some minutes."
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@touch $@

$(QUICK)/.installed: pyproject.toml
	@$(NEW_ENOUGH)
	$(PYTHON) -m venv $(QUICK)
	$(QUICK)/bin/python -m pip install --quiet --editable '.[dev-codemod]'
	@touch $@

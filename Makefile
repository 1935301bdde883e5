# Each target makes its own virtual environment; nothing else is needed but Python 3.11 or newer.
PYTHON ?= python3
VENV ?= .venv
CONSTRAINTS ?= .ci/constraints.txt
BIN = $(VENV)/bin

.PHONY: quickstart test test-all coverage test-oldest test-matrix test-portable
.PHONY: lint doctest examples doc benchmarks studies mutate clean

quickstart: $(VENV)/.quickstart  ## the main job: one table, one figure, one page
	$(BIN)/python examples/plot_quickstart.py

test: $(VENV)/.installed  ## the test suite, without what is slow
	$(BIN)/python -m pytest -n auto -m "not slow" $(ARGS)

test-all: $(VENV)/.installed  ## all of it: simulations of coverage, other processes, whole reports
	$(BIN)/python -m pytest -n auto $(ARGS)

coverage: $(VENV)/.installed  ## the same, and which lines and branches it does not reach
	$(BIN)/python -m pytest -n auto --cov --cov-report=term $(ARGS)

test-oldest:  ## its fast part, with the oldest versions that pyproject.toml promises
	$(MAKE) test VENV=$(VENV)-oldest CONSTRAINTS=.ci/constraints-oldest.txt ARGS='-q $(ARGS)'

test-matrix:  ## its fast part, on each scikit-learn that is supported; VENVS says where the environments are kept
	.ci/test-matrix

test-portable: $(VENV)/.installed  ## a fast part of it as elsewhere: processors, order, a wheel, no extras
	FAST=1 BIN=$(BIN) .ci/test-portable $(ARGS)

doctest: $(VENV)/.installed
	$(BIN)/python -m pytest --doctest-modules sklearn_lhcal -q

lint: $(VENV)/.installed  ## style, faults that are known by sight (bandit's too), and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python -m mypy

examples: $(VENV)/.doc
	set -e; for example in examples/plot_*.py; do echo "$$example"; MPLBACKEND=Agg $(BIN)/python "$$example"; done

doc: $(VENV)/.doc  ## the web pages in doc/_build/html; runs all examples, warnings are errors
	rm -rf doc/_build doc/api doc/auto_examples
	$(BIN)/python -m sphinx --fail-on-warning --keep-going --quiet $(SPHINXOPTS) doc doc/_build/html

benchmarks: $(VENV)/.installed  ## one table of ratios to peers; the other files beside are studies of their own
	$(BIN)/python -m pip install --quiet --constraint $(CONSTRAINTS) --requirement benchmarks/requirements.txt
	$(BIN)/python benchmarks/run.py

studies: $(VENV)/.doc  ## every study of the papers' pages at full size; goes on where it was stopped
	$(MAKE) --keep-going --file benchmarks/papers/studies.mk BIN=$(BIN)

FILE = sklearn_lhcal/metrics/_binned.py
TESTS = tests/$(word 2,$(subst /, ,$(FILE)))
mutate: $(VENV)/.installed  ## do tests fail where the code is wrong? FILE="sklearn_lhcal/…", TESTS="tests/…"
	$(BIN)/python -m pip install --quiet mutmut
	rm -rf build/mutation && mkdir -p build/mutation
	git ls-files -z | xargs -0 cp --parents --target-directory=build/mutation
	printf '\n[tool.mutmut]\nsource_paths = ["%s"]\npytest_add_cli_args_test_selection = ["%s"]\n' \
	  $(FILE) $(TESTS) >> build/mutation/pyproject.toml
	printf 'pytest_add_cli_args = ["-m", "not slow", "-p", "no:xdist"]\n' >> build/mutation/pyproject.toml
	printf 'also_copy = ["sklearn_lhcal", "tests", "conftest.py", "CONTRIBUTING.md"]\n' \
	  >> build/mutation/pyproject.toml
	cd build/mutation && $(abspath $(BIN))/python -m mutmut run

clean:
	rm -rf $(VENV) $(VENV)-oldest $(VENV)-matrix

# TORCH names a wheel or version to install first. The first: nothing but what the quickstart imports.
$(VENV)/.quickstart: pyproject.toml $(CONSTRAINTS)
	$(PYTHON) -m venv $(VENV)
	@echo "Installing; PyTorch is large: about 200 MB to download without CUDA, 3 GB with it."
	[ -z "$(TORCH)" ] || $(BIN)/python -m pip install --quiet $(TORCH)
	$(BIN)/python -m pip install --quiet --constraint $(CONSTRAINTS) --editable ".[plot]" jinja2 pandas
	touch $@

$(VENV)/.installed: pyproject.toml $(CONSTRAINTS)
	$(PYTHON) -m venv $(VENV)
	[ -z "$(TORCH)" ] || $(BIN)/python -m pip install --quiet $(TORCH)
	$(BIN)/python -m pip install --quiet --constraint $(CONSTRAINTS) --editable ".[plot,test,lint]"
	touch $@

$(VENV)/.doc: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --constraint $(CONSTRAINTS) --editable ".[doc]"
	touch $@

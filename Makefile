# Each target makes its own virtual environment; nothing else is needed but Python 3.11 or newer.
PYTHON ?= python3
VENV ?= .venv
CONSTRAINTS ?= .ci/constraints.txt
BIN = $(VENV)/bin

.PHONY: quickstart test slow lint doctest examples benchmarks clean

quickstart: $(VENV)/.installed  ## the main job: one table and one figure
	$(BIN)/python examples/plot_quickstart.py $(ARGS)

test: $(VENV)/.installed  ## the test suite
	$(BIN)/python -m pytest -n auto $(ARGS)

doctest: $(VENV)/.installed
	$(BIN)/python -m pytest --doctest-modules sklearn_lhcal -q

lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

examples: $(VENV)/.installed
	set -e; for example in examples/plot_*.py; do echo "$$example"; MPLBACKEND=Agg $(BIN)/python "$$example"; done

benchmarks: $(VENV)/.installed
	$(BIN)/python benchmarks/run.py

clean:
	rm -rf $(VENV)

$(VENV)/.installed: pyproject.toml $(CONSTRAINTS)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint $(CONSTRAINTS) --editable ".[plot,test,lint]"
	touch $@

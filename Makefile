# Each target sets up what it needs: a fresh clone and Python 3.11 or newer are enough.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.weft-installed

.PHONY: setup demo test lint docs bench quality clean

setup: $(STAMP)  ## make .venv with Weft in it; quick when nothing changed

$(STAMP): pyproject.toml constraints.txt setup.py $(wildcard src/weft/core/native/*.[ch])
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check torch -c constraints.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]' -c constraints.txt
	@touch $@
	@echo "Weft is installed in $(VENV): run $(BIN)/weft --help, or 'source $(BIN)/activate' first."

demo: setup  ## learn to write dates of ten languages as ISO 8601, in about three minutes
	$(BIN)/weft demo

test: setup  ## every test
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal

lint: setup  ## ruff and strict mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: setup  ## build the documentation as a site that works offline → site/
	$(BIN)/python docs/tools/build.py --out site

bench: setup  ## Weft and its peers side by side (hours; QUICK=1: ten minutes) → docs/performance.md
	$(BIN)/python bench/all.py $(if $(QUICK),--quick)

quality: setup  ## the autopilot on public tasks, beside published figures (nine hours, resumable) → docs/quality.md
	$(BIN)/python bench/quality.py

clean:  ## remove what setup, demo, docs and bench made
	rm -rf $(VENV) dates-run dates-run-data .bench site

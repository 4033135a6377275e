# Each target sets up what it needs: a fresh clone and Python 3.11 or newer are enough.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.weft-installed

.PHONY: setup demo test sanitise lint docs bench quality audit clean

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

NATIVE := src/weft/core/native
SANITISED := build/sanitised.so
SANITISE := -fsanitize=address,undefined -fno-sanitize-recover=all

$(SANITISED): $(wildcard $(NATIVE)/*.[ch]) $(NATIVE)/source.py
	@mkdir -p $(@D)
	$(CC) -shared -fPIC -g -O1 -fno-omit-frame-pointer -fopenmp-simd -ffp-contract=fast $(SANITISE) \
	  -DWEFT_SOURCE=$$($(PYTHON) -c "import runpy; print(runpy.run_path('$(NATIVE)/source.py')['fingerprint']())") \
	  $(NATIVE)/*.c -lm -o $@

sanitise: setup $(SANITISED)  ## the tests of the compiled code under AddressSanitizer and UBSan; needs gcc, takes minutes
	export LD_PRELOAD="$$($(CC) -print-file-name=libasan.so) $$($(CC) -print-file-name=libubsan.so)" \
	  ASAN_OPTIONS=detect_leaks=0 WEFT_NATIVE_LIBRARY=$(CURDIR)/$(SANITISED) OMP_NUM_THREADS=1; \
	$(BIN)/python -c "from weft.core import native; assert native.state() == 'used', native.state()" && \
	$(BIN)/python -m pytest -s tests/test_native.py tests/test_fused.py tests/test_pointwise.py tests/test_packed.py \
	  tests/test_stepping.py tests/test_cache.py

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

audit: setup  ## try to break Weft: damage, hostile folders, kills, odd inputs (minutes; FULL=1: three hours, resumable)
	OMP_NUM_THREADS=1 $(BIN)/python bench/audit $(if $(FULL),--full)

clean:  ## remove what setup, demo, docs and bench made
	rm -rf $(VENV) dates-run dates-run-data .bench .audit site

# Two commands for a newcomer: `make demo` and `make test`. Both make .venv first.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
SRC    := src tests docs tools

# The data folder beside the checkout, where there is one; a user's own FAIRDP_DATA goes first.
ifndef FAIRDP_DATA
ifneq ($(wildcard ../shared/data/README.md),)
export FAIRDP_DATA := $(abspath ../shared/data)
endif
endif

.PHONY: browser install-browser demo docs faults gallery mutants pages picture results test test-lab test-more check setup clean workers

demo: $(VENV)/.base
	@$(BIN)/fairdp demo --seed 0 --out demo --overwrite
	@rm -f demo/report.html
	@$(BIN)/fairdp report demo/model --out demo/report.html

setup: $(VENV)/.dev

# The program with its laboratory, to which the demo belongs, and what its checks need besides.
$(VENV)/.base: pyproject.toml constraints.txt
	@echo "Installing fairdp into $(VENV) (once; a minute or two) …"
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) torch
	@$(PIP) --editable '.[lab]'
	@touch $@

$(VENV)/.dev: $(VENV)/.base
	@echo "Installing what the checks need …"
	@$(PIP) --editable '.[dev]'
	@touch $@

# Two processes with one thread each: more threads than cores wait for each other, and take twice the time.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile

# What every change must pass: format, lint, types, doctests and every test of a guarantee. The laboratory is below.
check: setup
	$(BIN)/ruff format --check $(SRC)
	$(BIN)/ruff check $(SRC)
	$(BIN)/mypy
	$(PYTEST) -m "not more" --ignore=tests/lab

test: check

# The laboratory: audits and attacks, studies, sweeps, drawing and the benchmark.
test-lab: setup
	$(PYTEST) tests/lab -m "not more"

# What takes longer, and nothing of the above: whole studies, tutorials, ONNX, the site, long runs, the built wheel.
test-more: setup browser
	$(PYTEST) -m more

# Chromium, in which the pages are looked at; where it is missing it is installed if that is possible.
browser:
	@command -v chromium > /dev/null || $(MAKE) --no-print-directory install-browser || { \
	  echo "make test-more needs chromium and cannot install it here: as root, apt-get install chromium" >&2; exit 1; }

install-browser:
	@test "$$(id -u)" = 0 && command -v apt-get > /dev/null
	@echo "Installing chromium (once) …"
	@apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium > /dev/null

# Every mistake of tests/mutants, put into the code in memory, against the check that should notice it; writes
# results/mutants.json and results/mutants.md. Some minutes on two cores.
mutants: setup
	OMP_NUM_THREADS=1 $(BIN)/python tests/mutants/run.py

# Every command killed, out of space, and held at each of its calls, and real processes; writes results/faults.json and
# results/faults.md. Some ten minutes of computing.
faults: setup
	OMP_NUM_THREADS=1 $(BIN)/python tests/faults/run.py

# One model by one worker and by 1 to 8 with torchrun, workers killed at random steps, and the speed of two; writes
# results/workers.json and results/workers.md. Some twenty minutes.
workers: setup
	$(BIN)/python tests/workers/run.py

# The picture in the README: what `make demo` prints, as an SVG.
picture: setup
	$(BIN)/python docs/picture.py docs/tutorials/demo.svg

# Reports as pictures, for docs/tutorials/first-report.md; needs Chromium and the data sets. Some minutes.
gallery: setup
	$(BIN)/python docs/gallery.py

# The site, in docs/_build; a warning is an error.
docs: setup
	$(BIN)/sphinx-build -W --keep-going -n -q -b html docs docs/_build
	@echo "Open docs/_build/index.html"

# The pages and pictures of docs/ that are made from the source, and the golden pages of what users are told.
pages: setup
	for page in cli_reference parameter_reference architecture paper_figures tables_page; do $(BIN)/python docs/$$page.py || exit 1; done
	$(BIN)/python tools/error_messages.py
	OMP_NUM_THREADS=1 $(BIN)/python docs/answers.py
	OMP_NUM_THREADS=1 $(BIN)/python tests/golden/write.py

# Every table and figure under results/ that repeats the paper. Finished trainings are lines of results/trainings: with
# those of this commit it takes minutes; without them tables take about half an hour on two cores, faces three hours of computing.
PAPER := datasets mc-error tradeoffs gains t-tests certificate-tightness impact-of-m imbalance components claims members \
         noise-allocation schedule convergence baselines literal intersections
results: setup
	for study in $(PAPER); do $(BIN)/fairdp reproduce $$study || exit 1; done

clean:
	rm -rf $(VENV) demo dist build docs/_build .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

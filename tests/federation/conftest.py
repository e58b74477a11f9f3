"""The environment of a federation's server and clients."""

import os
from pathlib import Path

import pytest

PYTHON = Path(__file__).resolve().parents[2] / ".venv-federation" / "bin" / "python"


@pytest.fixture(scope="module")
def python():
    """Return the Python of `make federation`; without it, skip the test, or fail in CI."""
    if not PYTHON.exists():
        if os.environ.get("CI"):
            pytest.fail("`make federation` has not made .venv-federation")
        pytest.skip(".venv-federation does not exist; run `make federation`")
    return str(PYTHON)

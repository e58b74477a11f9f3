"""The environment of a real federation's parties."""

import os
from pathlib import Path

import pytest

PYTHON = Path(__file__).resolve().parents[2] / ".venv-federation" / "bin" / "python"


@pytest.fixture(scope="module")
def python():
    """The Python of `make federation`. Skipped where it is not there; in CI that is a failure."""
    if not PYTHON.exists():
        if os.environ.get("CI"):
            pytest.fail("`make federation` has not made .venv-federation")
        pytest.skip("there is no .venv-federation: `make federation`")
    return str(PYTHON)

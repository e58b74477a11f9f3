"""Fixtures of the fault-injection tests."""

import shutil
import subprocess

import pytest

from tests.browser.chromium import in_ci


@pytest.fixture(scope="module")
def own_mounts():
    """Return the prefix of a command that runs with its own mount namespace."""
    for prefix in (["unshare", "-m"], ["unshare", "-r", "-m"]):
        if (
            shutil.which("unshare")
            and subprocess.run([*prefix, "mount", "--bind", "/", "/mnt"], check=False).returncode == 0
        ):
            return prefix
    (pytest.fail if in_ci() else pytest.skip)("this system allows no mount namespaces (unshare -m)")

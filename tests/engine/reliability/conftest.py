"""What the faults of machines need of this one."""

import shutil
import subprocess

import pytest

from tests.browser.chromium import in_ci


@pytest.fixture(scope="module")
def apart():
    """What a command begins with that is to have mounts of its own."""
    for tried in (["unshare", "-m"], ["unshare", "-r", "-m"]):
        if (
            shutil.which("unshare")
            and subprocess.run([*tried, "mount", "--bind", "/", "/mnt"], check=False).returncode == 0
        ):
            return tried
    (pytest.fail if in_ci() else pytest.skip)("this system lets nobody have mounts of their own (unshare -m)")

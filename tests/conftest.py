"""What tests of every part share."""

import pytest

from tests.browser import chromium as browsers


@pytest.fixture(scope="session")
def chromium() -> str:
    """Path of the Chromium to drive; a machine without one skips the browser tests, in CI that is a failure."""
    path = browsers.find()
    if path is None:
        leave_out = pytest.fail if browsers.in_ci() else pytest.skip
        leave_out("no Chromium is here: `make test` installs one where it may")
    return path

"""A home on a read-only file system: stored runs can be read, no data is lost, and a failing action gives an error.

Since root ignores file modes, the home is mounted read-only, in a mount namespace of the test's processes.
"""

import os
import subprocess
import sys

import pytest

from engine.service import Application
from engine.store.run_store import RunStore
from tests.engine.factories import SMALL, provenance, record
from tests.engine.reliability.disturbed import ROOT

MOUNT = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec "$@"'
SUBMIT = ("-m", "engine", "submit", "--corpus", "synthetic", "--seed", "7")
CLUSTER = """
import os
from engine.cluster import supervisor
from engine.errors import ClusterError
from engine.settings import Settings
try:
    supervisor.ensure_cluster(Settings.from_environment(), os.getpid())
except ClusterError as error:
    print(error)
supervisor.stop_cluster(Settings.from_environment(), os.getpid())
"""
PAGES = """
from streamlit.testing.v1 import AppTest
page = AppTest.from_file("app.py", default_timeout=300)
page.query_params["noise_multiplier"] = "1"  # a link to settings opens Explore
page.run()
assert not page.exception, page.exception[0].value
print(*(each.value for each in page.warning))
"""


@pytest.fixture
def finished_run(trained_settings):
    """Return the settings and the identity of a finished run, whose database is closed."""
    (trained_settings.home / "cluster" / "owners").mkdir(parents=True)
    app, store = Application(trained_settings), RunStore(trained_settings.store_url)
    identity = app.queries.identity(SMALL)
    store.submit(identity, SMALL, app.queries.corpus(SMALL).checksum)
    claim = store.claim(identity, "here")
    for number in range(3):
        store.append(claim, record(number))
    store.finish(claim, provenance(app.queries.corpus(SMALL).checksum))
    store.close()
    app.close()
    return trained_settings, identity


def run_read_only(own_mounts, settings, *command):
    return subprocess.run(
        [*own_mounts, "sh", "-c", MOUNT, str(settings.home), sys.executable, *command],
        cwd=ROOT,
        env=os.environ | {"EPSILON_HOME": str(settings.home), "EPSILON_DATA_DIR": "", "EPSILON_STORE_URL": ""},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )


@pytest.mark.repeats(area="processes")
def test_open_database_is_readable_but_not_writable(own_mounts, finished_run):
    """SQLite's auxiliary files exist: the file system became read-only while the process ran."""
    settings, identity = finished_run
    store = RunStore(settings.store_url)
    store.write_note(identity, "open")
    result = run_read_only(own_mounts, settings, "-m", "engine", "runs", "show", identity)
    assert (result.returncode, result.stderr) == (0, "")
    assert identity in result.stdout
    assert error_of(run_read_only(own_mounts, settings, *SUBMIT)).endswith("is read-only.")
    store.close()


@pytest.mark.repeats(area="processes")
def test_closed_database_gives_an_error_and_stays_intact(own_mounts, finished_run):
    """SQLite would have to create its auxiliary files."""
    settings, identity = finished_run
    for command in (("-m", "engine", "runs", "show", identity), SUBMIT):
        assert error_of(run_read_only(own_mounts, settings, *command)).endswith("not writable.")
    app = Application(settings)
    assert app.queries.get(identity).records == tuple(record(number) for number in range(3))
    app.close()


def error_of(result):
    """Return the one-line error of a failed command."""
    (sentence,) = result.stderr.strip().splitlines()
    assert result.returncode == 1
    return sentence


def test_failed_start_of_workers_gives_an_error(own_mounts, finished_run):
    settings, _ = finished_run
    result = run_read_only(own_mounts, settings, "-c", CLUSTER)
    assert result.returncode == 0, result.stderr
    folder = settings.home / "cluster" / "owners"
    assert all(part in result.stdout for part in ("workers cannot start", f"cannot be written to {folder}/"))
    assert result.stdout.endswith(": Read-only file system.\n")


@pytest.mark.repeats(area="processes")
def test_pages_open_with_a_warning(own_mounts, finished_run):
    settings, _ = finished_run
    result = run_read_only(own_mounts, settings, "-c", PAGES)
    assert result.returncode == 0, result.stderr
    assert "not writable" in result.stdout

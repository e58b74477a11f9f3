"""A home on a file system that has become read-only: what was stored can be seen, nothing is lost, and what cannot be
done is said in a sentence.

Root may write whatever the modes of files say, so the home is mounted read-only, where only the processes of the test
see it.
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
page = AppTest.from_file("app.py", default_timeout=300).run()
assert not page.exception, page.exception[0].value
print(*(each.value for each in page.warning))
"""


@pytest.fixture
def there(trained_settings):
    """A home with a run that is done, whose database nobody has open any more."""
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


def asked(apart, settings, *command):
    return subprocess.run(
        [*apart, "sh", "-c", MOUNT, str(settings.home), sys.executable, *command],
        cwd=ROOT,
        env=os.environ | {"EPSILON_HOME": str(settings.home), "EPSILON_DATA_DIR": "", "EPSILON_STORE_URL": ""},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )


def test_a_database_that_somebody_has_open_is_read_and_not_written(apart, there):
    """SQLite's files beside it are there: the disk became read-only while the program ran."""
    settings, identity = there
    store = RunStore(settings.store_url)
    store.write_note(identity, "open")
    shown = asked(apart, settings, "-m", "engine", "runs", "show", identity)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert identity in shown.stdout
    assert refused(asked(apart, settings, *SUBMIT)).endswith("is read-only.")
    store.close()


def test_one_that_nobody_has_open_is_said_and_is_whole_afterwards(apart, there):
    """SQLite would have to make files beside it."""
    settings, identity = there
    for command in (("-m", "engine", "runs", "show", identity), SUBMIT):
        assert refused(asked(apart, settings, *command)).endswith("not writable.")
    app = Application(settings)
    assert app.queries.get(identity).records == tuple(record(number) for number in range(3))
    app.close()


def refused(said):
    """The one sentence of a command that was refused."""
    (sentence,) = said.stderr.strip().splitlines()
    assert said.returncode == 1
    return sentence


def test_workers_that_cannot_start_are_said(apart, there):
    settings, _ = there
    said = asked(apart, settings, "-c", CLUSTER)
    assert said.returncode == 0, said.stderr
    folder = settings.home / "cluster" / "owners"
    assert all(part in said.stdout for part in ("workers cannot start", f"cannot be written to {folder}/"))
    assert said.stdout.endswith(": Read-only file system.\n")


def test_pages_open(apart, there):
    settings, _ = there
    said = asked(apart, settings, "-c", PAGES)
    assert said.returncode == 0, said.stderr
    assert "not writable" in said.stdout

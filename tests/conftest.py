"""Options, hooks and fixtures of all tests."""

import fcntl
import gc
import os
import shutil
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

# Libraries read these variables when they are imported. Waiting threads spin on cores that other processes could use;
# without these limits, spinning was half of the tests' processor time. Workers set their own values. Without bytecode,
# each process would compile all modules.
os.environ |= {
    "GOMP_SPINCOUNT": "10000",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "PYTHONDONTWRITEBYTECODE": "",
    "TF_NUM_INTRAOP_THREADS": "1",
    "TF_NUM_INTEROP_THREADS": "1",
}

import hypothesis
import numba
import pytest
from xdist.scheduler import LoadFileScheduling

from engine.settings import REPOSITORY, Settings
from engine.store import published
from engine.store import published_index as index_of_published
from tests import postgresql, repeated
from tests.browser import chromium as browsers
from tests.slowest_files import SlowestFiles

gc.disable()  # collection creates a million objects, and scans of them would take a sixth of its time


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop() -> None:
    gc.enable()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--nightly", action="store_true", help="run tests marked nightly too, with 50 times the examples")
    parser.addoption("--most-minutes", type=float, help="fail if the session takes longer than this")
    parser.addoption("--stop-after", type=float, metavar="SECONDS", help="skip each test that has not started by then")


def pytest_configure(config: pytest.Config) -> None:
    # A busy machine must not fail a test. In CI Hypothesis sets this itself, and repeats the same examples.
    examples = 5_000 if config.getoption("--nightly") else hypothesis.settings.default.max_examples
    profile = hypothesis.settings(hypothesis.settings.default, deadline=None, max_examples=examples)
    hypothesis.settings.register_profile("suite", profile)
    hypothesis.settings.load_profile("suite")
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(SlowestFiles(config.getoption("--most-minutes")))


DESELECTED = pytest.StashKey[dict[str, int]]()
"""Number of deselected tests by marker."""
STARTED = time.monotonic()
"""Time at which this process loaded the tests, in seconds of the monotonic clock."""
FIRST = ("browser", "federation", "reliability", "cluster")
"""Folders whose tests wait more than they compute; they run first, so that none of them is left for the end."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadFileScheduling:
    """Run all browser tests, which share a dashboard, in one process; distribute other tests by file."""
    return ByDashboard(config, log)


class ByDashboard(LoadFileScheduling):
    """A scheduler that keeps files together that use one dashboard."""

    def _split_scope(self, nodeid: str) -> str:
        file = super()._split_scope(nodeid)
        return "tests/browser" if file.startswith("tests/browser/") else file


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: next((n for n, name in enumerate(FIRST) if name in item.path.parts), len(FIRST)))
    for item in items:
        if item.get_closest_marker("browser"):
            item.add_marker(pytest.mark.flaky(reruns=1))
    if config.getoption("--nightly"):
        return
    due = list(repeated.AREAS)  # for the contract: it runs with Pythons other than the recorded one
    if config.option.markexpr != "contract":
        due = config.workerinput["repeats_due"] if hasattr(config, "workerinput") else repeated.due()
    excluded = {item: "repeats" for item, marker in marked(items, "repeats") if repeated.area(item, marker) not in due}
    excluded |= {item: "nightly" for item, _ in marked(items, "nightly")}
    deselected = dict(Counter(excluded.values()))
    config.stash[DESELECTED] = deselected
    if hasattr(config, "workeroutput"):  # a worker process; each of them collects all tests
        config.workeroutput["deselected"] = deselected
    if excluded:
        config.hook.pytest_deselected(items=list(excluded))
        items[:] = [item for item in items if item not in excluded]


def marked(items: list[pytest.Item], name: str) -> Iterator[tuple[pytest.Item, pytest.Mark]]:
    """Yield the tests with a marker, and the marker; with ``after=n``, all cases of the test but the first n."""
    cases: Counter[str] = Counter()
    for item in items:
        if marker := item.get_closest_marker(name):
            test = item.nodeid.partition("[")[0]
            if cases[test] >= marker.kwargs.get("after", 0):
                yield item, marker
            cases[test] += 1


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a worker process which areas are due, so that it need not read all sources."""
    node.workerinput["repeats_due"] = repeated.due()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Store the deselected tests of a worker process for the summary."""
    node.config.stash[DESELECTED] = getattr(node, "workeroutput", {}).get("deselected", {})


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    numbers = config.stash.get(DESELECTED, {})
    if number := numbers.get("nightly"):
        terminalreporter.write_line(f"not run: {number} tests marked nightly; `make nightly` runs them too")
    if number := numbers.get("repeats"):
        terminalreporter.write_line(
            f"not run: {number} tests marked repeats, which passed with these sources; `make nightly` runs them too"
        )


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    os.umask(0o022)  # pages and workers that ran in this process have set that of a private program
    limit = item.config.getoption("--stop-after")
    if limit is not None and time.monotonic() - STARTED > limit:
        pytest.skip(f"not reached within {limit:g} s")


def _skip_or_fail(reason: str) -> None:
    """Skip the test; in CI, where nothing may be missing, fail it."""
    (pytest.fail if browsers.in_ci() else pytest.skip)(reason)


@pytest.fixture(autouse=True)
def _one_numba_thread() -> None:
    """Limit Numba to one core, as the variables above do for other libraries; a test may raise the limit."""
    numba.set_num_threads(1)


@pytest.fixture(autouse=True, scope="module")
def _objects_of_earlier_tests() -> None:
    """Exempt the objects that exist before a file from later garbage collections.

    Streamlit collects all garbage after each script. Late in a session that took longer than the script.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def chromium() -> str:
    """Return the path of Chromium; without one, skip the browser tests, or fail in CI."""
    path = browsers.find()
    if path is None:
        _skip_or_fail("Chromium is not installed; `make test` installs it where allowed")
    return path


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[postgresql.Server]:
    """Run a PostgreSQL server for all tests; without one, skip the tests that need it, or fail in CI."""
    if reason := postgresql.missing():
        _skip_or_fail(reason)
    with postgresql.running() as server:
        yield server


@pytest.fixture(params=["SQLite", "PostgreSQL"])
def store_address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the URL of an empty database; a test with this fixture runs once with each kind."""
    if request.param == "SQLite":
        return f"sqlite:///{tmp_path / 'runs.sqlite'}"
    return request.getfixturevalue("postgresql_server").fresh()


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder that all processes of the suite share."""
    own = tmp_path_factory.getbasetemp()
    folder = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "shared"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def encoded(shared_folder: Path) -> Path:
    """Return a folder for vectors and encoded corpora, which all homes share, since each takes seconds to make."""
    (shared_folder / "encoded").mkdir(exist_ok=True)
    return shared_folder / "encoded"


@pytest.fixture(scope="session")
def published_index(shared_folder: Path) -> Path:
    """Return the index of the repository's published runs, which takes ten seconds to make."""
    index = shared_folder / index_of_published.NAME
    with open(shared_folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not index.exists():
            published._read_files.cache_clear()
            published._seen.clear()  # runs that this process has read are not written to an index
            published.read_all(REPOSITORY / "cached_results", index)
    assert index.exists()
    return index


def share(encoded: Path, home: Path, index: Path | None = None) -> None:
    """Link the shared files on corpora into a home, and copy the index of published runs if it is given."""
    if index:
        shutil.copy(index, home)
    for name in ("encoded", "vectors"):
        (encoded / name).mkdir(exist_ok=True)
        (home / name).symlink_to(encoded / name)


@pytest.fixture(scope="session")
def lesson_settings(encoded: Path, tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """Return settings for lessons on training, whose model is trained once for each home."""
    home = tmp_path_factory.mktemp("lessons")
    share(encoded, home)
    return Settings(home=home, data_dir=None, store_url=f"sqlite:///{home / 'runs.sqlite'}")


@pytest.fixture
def trained_settings(settings: Settings, encoded: Path, published_index: Path) -> Settings:
    """Return ``settings`` with a home that has the vectors, encoded corpora and index that tests share."""
    settings.home.mkdir(exist_ok=True)
    share(encoded, settings.home, published_index)
    return settings


@pytest.fixture
def settings(tmp_path: Path, request: pytest.FixtureRequest) -> Settings:
    """Return settings with an empty home, no published runs and only the embedded corpus.

    A test with the indirect parameter ``"PostgreSQL"`` stores its runs there.
    """
    home = tmp_path / "home"
    published = tmp_path / "published"
    published.mkdir()
    address = f"sqlite:///{home / 'runs.sqlite'}"
    if getattr(request, "param", "SQLite") == "PostgreSQL":
        address = request.getfixturevalue("postgresql_server").fresh()
    return Settings(home=home, data_dir=None, store_url=address, published=published)


@pytest.fixture
def with_published(settings: Settings, published_index: Path) -> Settings:
    """Return ``settings`` with the published results of the repository, and with their index."""
    settings.home.mkdir(exist_ok=True)
    shutil.copy(published_index, settings.home)
    return replace(settings, published=REPOSITORY / "cached_results")


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """Return the folder of real corpora, EPSILON_DATA_DIR."""
    folder = Settings.from_environment().data_dir
    if folder is None:
        _skip_or_fail("there are no real corpora: set EPSILON_DATA_DIR to their folder")
    return folder

"""What tests of every part share."""

import os
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# Libraries look at these as they are loaded. Threads that wait for one another spin, on cores that the other processes
# of a test, or other programs, could use: half of what all tests computed was that. Workers set their own.
os.environ |= {
    "GOMP_SPINCOUNT": "10000",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
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


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--nightly", action="store_true", help="run what takes hours too, with 50 times the examples")
    parser.addoption("--most-minutes", type=float, help="fail if the session takes longer than this")
    parser.addoption("--stop-after", type=float, metavar="SECONDS", help="skip each test that has not begun by then")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--nightly"):
        hypothesis.settings.register_profile("nightly", max_examples=5_000)
        hypothesis.settings.load_profile("nightly")
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(SlowestFiles(config.getoption("--most-minutes")))


LEFT_OUT = pytest.StashKey[dict[str, int]]()
"""How many tests were not selected, by the marker that they have."""
BEGUN = time.monotonic()
"""When this process loaded the tests."""
FIRST = ("browser", "federation", "reliability", "cluster")
"""Folders whose tests wait more than they compute. They come first, so that none of them is left for the end."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadFileScheduling:
    """Give one process all browser tests, which share a dashboard; a file at a time otherwise."""
    return ByDashboard(config, log)


class ByDashboard(LoadFileScheduling):
    """Keep the files together that use one dashboard."""

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
    markers = ("nightly",) if repeated.due() else ("nightly", "repeats")
    waiting = {item: name for item in items for name in markers if item.get_closest_marker(name)}
    left_out = dict(Counter(waiting.values()))
    config.stash[LEFT_OUT] = left_out
    if hasattr(config, "workeroutput"):  # one of several processes, each of which collects all
        config.workeroutput["left out"] = left_out
    if waiting:
        config.hook.pytest_deselected(items=list(waiting))
        items[:] = [item for item in items if item not in waiting]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Keep what one of several processes did not select, for the summary."""
    node.config.stash[LEFT_OUT] = getattr(node, "workeroutput", {}).get("left out", {})


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    found = config.stash.get(LEFT_OUT, {})
    if number := found.get("nightly"):
        terminalreporter.write_line(f"not run: {number} tests marked nightly; `make nightly` runs them too")
    if number := found.get("repeats"):
        terminalreporter.write_line(
            f"not run: {number} tests marked repeats, which passed with these sources; `make nightly` runs them too"
        )


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    limit = item.config.getoption("--stop-after")
    if limit is not None and time.monotonic() - BEGUN > limit:
        pytest.skip(f"not reached within {limit:g} s")


def _left_out(reason: str) -> None:
    """Skip on a laptop, fail in CI, where nothing may be missing."""
    (pytest.fail if browsers.in_ci() else pytest.skip)(reason)


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    """Numba computes on one core, however many there are: see above. A test may take them all."""
    numba.set_num_threads(1)


@pytest.fixture(scope="session")
def chromium() -> str:
    """Path of the Chromium to drive; a machine without one skips the browser tests, in CI that is a failure."""
    path = browsers.find()
    if path is None:
        _left_out("no Chromium is here: `make test` installs one where it may")
    return path


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[postgresql.Server]:
    """A PostgreSQL server for all tests; a machine without one skips those that need it, in CI that is a failure."""
    if reason := postgresql.missing():
        _left_out(reason)
    with postgresql.running() as server:
        yield server


@pytest.fixture(params=["SQLite", "PostgreSQL"])
def store_address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of an empty database; who asks for it runs once with each kind."""
    if request.param == "SQLite":
        return f"sqlite:///{tmp_path / 'runs.sqlite'}"
    return request.getfixturevalue("postgresql_server").fresh()


@pytest.fixture(scope="session")
def encoded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What is the same for all homes and takes seconds to make: vectors, encoded corpora."""
    return tmp_path_factory.mktemp("encoded")


@pytest.fixture(scope="session")
def published_index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The index of the repository's published runs, which takes ten seconds to make; its rows know their files."""
    index = tmp_path_factory.mktemp("index") / index_of_published.NAME
    published.read_all(REPOSITORY / "cached_results", index)
    return index


def share(encoded: Path, home: Path) -> None:
    """Let a home use the vectors and encoded corpora of all tests."""
    for name in ("encoded", "vectors"):
        (encoded / name).mkdir(exist_ok=True)
        (home / name).symlink_to(encoded / name)


@pytest.fixture(scope="session")
def lesson_settings(encoded: Path, tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """A home for lessons on training, whose bench is made once for each home."""
    home = tmp_path_factory.mktemp("lessons")
    share(encoded, home)
    return Settings(home=home, data_dir=None, store_url=f"sqlite:///{home / 'runs.sqlite'}")


@pytest.fixture
def trained_settings(settings: Settings, encoded: Path) -> Settings:
    """``settings`` with a home that shares vectors and encoded corpora with the other tests."""
    settings.home.mkdir()
    share(encoded, settings.home)
    return settings


@pytest.fixture
def settings(tmp_path: Path, request: pytest.FixtureRequest) -> Settings:
    """A home of its own, nothing published, no corpora beside the embedded one. A test that asks for ``"PostgreSQL"``
    by ``indirect`` has its runs there."""
    home = tmp_path / "home"
    published = tmp_path / "published"
    published.mkdir()
    address = f"sqlite:///{home / 'runs.sqlite'}"
    if getattr(request, "param", "SQLite") == "PostgreSQL":
        address = request.getfixturevalue("postgresql_server").fresh()
    return Settings(home=home, data_dir=None, store_url=address, published=published)


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of real corpora that EPSILON_DATA_DIR names."""
    found = Settings.from_environment().data_dir
    if found is None:
        _left_out("no real corpora are here: EPSILON_DATA_DIR names the folder")
    return found

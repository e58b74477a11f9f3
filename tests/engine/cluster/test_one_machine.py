"""A cluster of processes on one machine, each with its own home, and with the scheduler's address in a file.

The scheduler is killed, and libfaketime changes the clocks of the workers while they compute.
"""

import contextlib
import dataclasses
import glob
import inspect
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from distributed import worker

from engine.cluster import remote_workers
from engine.config import TrainingConfig
from engine.records import RunState
from engine.settings import REPOSITORY, Settings
from tests.browser.chromium import in_ci
from tests.browser.driving import free_port, wait_for
from tests.conftest import share
from tests.engine.reliability.disturbed import CONFIGS, App, Watch, alone
from tests.engine.test_file_access import accessible

RUNS = [dataclasses.replace(config, training=TrainingConfig(batch_size=8, epochs=20.0)) for config in CONFIGS]
"""Two runs of 550 steps with 20 records or more each, so that both go on while the scheduler is away."""
DAY = 86_400
LOST = "Failed to communicate with scheduler during heartbeat."
MOST_SECONDS = 300
WORKERS = ("behind", "ahead")
"""Names of the workers, after their clocks."""


class Members:
    """Scheduler, workers and an app.

    Args:
        folder: Their folder, with a home for each.
        encoded, index: See :func:`tests.conftest.share`.
        store_url: Address of the app's database.
    """

    def __init__(self, folder: Path, encoded: Path, index: Path, store_url: str) -> None:
        self.folder, self.encoded, self.index = folder, encoded, index
        self.file, self.port = folder / "scheduler.json", free_port()
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        key, shared = folder / "key.pem", folder / "shared"
        remote_workers.make_key(key)
        shared.mkdir()
        self.environment = {
            "EPSILON_STORE_URL": store_url,
            "EPSILON_ARTEFACTS": str(shared),
            "EPSILON_CLUSTER_KEY": str(key),
            "EPSILON_SCHEDULER": str(self.file),
            "EPSILON_DATA_DIR": "",
        }

    def schedule(self) -> None:
        self._start("scheduler", ["scheduler", "--port", str(self.port), "--file", str(self.file)], {})

    def work(self, name: str, **environment: str) -> None:
        home = self.folder / name
        home.mkdir()
        share(self.encoded, home, self.index)
        self._start(name, ["worker", "--workers", "1"], environment)

    def clock(self, name: str) -> Path:
        """Return the file with the offset of a worker's clock in seconds."""
        return self.folder / f"{name}.clock"

    def log(self, name: str) -> str:
        """Return the log of a member."""
        return (self.folder / f"{name}.log").read_text()

    def _start(self, name: str, words: list[str], environment: dict[str, str]) -> None:
        with open(self.folder / f"{name}.log", "ab") as log:
            self.running[name] = subprocess.Popen(
                [sys.executable, "-m", "engine", "cluster", *words],
                cwd=REPOSITORY,
                env=os.environ | self.environment | {"EPSILON_HOME": str(self.folder / name)} | environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def kill(self, name: str) -> None:
        """Kill a member and all processes that it has started."""
        process = self.running.pop(name)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.fixture(scope="module")
def settings_of_app(tmp_path_factory, encoded, published_index) -> Settings:
    """Settings of the app, whose database the members share."""
    home = tmp_path_factory.mktemp("app")
    share(encoded, home, published_index)
    return Settings(home=home, data_dir=None, store_url=f"sqlite:///{home / 'runs.sqlite'}", published=home / "none")


@pytest.fixture(scope="session")
def faketime() -> str:
    """Return the path of the library that changes the clock of one process."""
    paths = glob.glob("/usr/lib/*/faketime/libfaketimeMT.so.1")
    if not paths:
        (pytest.fail if in_ci() else pytest.skip)("libfaketime is not installed (Debian: apt-get install libfaketime)")
    return paths[0]


@pytest.fixture(scope="module")
def members(tmp_path_factory, encoded, published_index, settings_of_app, faketime):
    """Return a scheduler and two workers, which started first and waited for it. Files set their clocks."""
    made = Members(tmp_path_factory.mktemp("members"), encoded, published_index, settings_of_app.store_url)
    try:
        for name in WORKERS:
            made.clock(name).write_text("+0")
            fake = {"LD_PRELOAD": faketime, "FAKETIME_TIMESTAMP_FILE": str(made.clock(name)), "FAKETIME_NO_CACHE": "1"}
            fake |= {"FAKETIME_DONT_FAKE_MONOTONIC": "1", "FAKETIME_FORCE_MONOTONIC_FIX": "0", "NO_FAKE_STAT": "1"}
            made.work(name, **fake)  # without this 0, waits for Python's interpreter lock spin
        wait_for(lambda: all("Retrying until it succeeds" in made.log(name) for name in WORKERS), MOST_SECONDS)
        made.schedule()
        wait_for(lambda: all("1 worker ready for" in made.log(name) for name in WORKERS), MOST_SECONDS)
        yield made
    finally:
        for name in list(made.running):
            made.kill(name)


@pytest.fixture(scope="module")
def undisturbed(encoded, tmp_path_factory):
    return alone(RUNS, tmp_path_factory.mktemp("undisturbed"), encoded)


@pytest.mark.repeats(area="processes")
def test_runs_survive_changed_clocks_and_a_killed_scheduler(members, settings_of_app, undisturbed):
    """One clock goes back by a day and one forward. The monotonic clock continues, as on a real machine."""
    app, watch = App(settings_of_app, RUNS, **members.environment), Watch(settings_of_app, RUNS)
    try:
        watch.until(4)
        for name, days in zip(WORKERS, (-1, 1), strict=True):
            members.clock(name).write_text(f"{days * DAY:+d}")
        watch.until(12)
        assert not watch.over(), "the runs ended before the scheduler was killed"
        members.kill("scheduler")
        members.schedule()
        watch.to_the_end(undisturbed)
        for identity in watch.identities:
            run = watch.runs.queries.get(identity)
            assert run.status.state == RunState.DONE
            assert 0 < run.records[-1].seconds < DAY / 2
        refuse_access_of_others(members)
    finally:
        app.end()
        watch.close()


def refuse_access_of_others(members: Members) -> None:
    """Check that files in homes belong to their owner, and shared ones to the group of their folder too."""
    for name in WORKERS:
        assert not accessible(members.folder / name)
        assert "can be read by the group" in members.log(name)
    shared = [path for path in (members.folder / "shared").rglob("*") if not path.is_symlink()]
    assert shared
    assert not [path for path in shared if path.stat().st_mode & 0o007]


@pytest.mark.repeats(area="processes")
def test_ctrl_c_ends_workers_without_a_traceback(members):
    """A terminal sends SIGINT to all processes at once."""
    name = WORKERS[1]
    log = members.log(name)
    process = members.running.pop(name)
    family = psutil.Process(process.pid).children(recursive=True)
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(MOST_SECONDS) == 0
    _, left = psutil.wait_procs(family, MOST_SECONDS)
    assert left == []
    assert "1 worker ready for" in log
    assert members.log(name) == log, "nothing is printed"


LOST_CONNECTION = """
import logging
from engine.cluster import worker_preload
from distributed import worker
logging.basicConfig()
worker.logger.exception(worker_preload.LOST)
worker.logger.exception("Unexpected exception during heartbeat.")
"""


def test_lost_connection_is_not_printed_as_an_error_of_the_program():
    """At Ctrl-C a heartbeat may fail, which a traceback reported in one of many runs."""
    printed = subprocess.run([sys.executable, "-c", LOST_CONNECTION], cwd=REPOSITORY, capture_output=True, check=True)
    assert b"Unexpected exception" in printed.stderr
    assert LOST.encode() not in printed.stderr
    assert LOST in inspect.getsource(worker), "Dask has another message"

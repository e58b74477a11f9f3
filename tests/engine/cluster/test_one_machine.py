"""A cluster whose members are processes of one machine, with homes of their own: its address in a file, a scheduler
that is killed, and workers whose clocks are set while they compute (libfaketime)."""

import contextlib
import glob
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from engine.cluster import remote_workers
from engine.records import RunState
from engine.settings import REPOSITORY, Settings
from tests.browser.chromium import in_ci
from tests.browser.driving import free_port, wait_for
from tests.conftest import share
from tests.engine.reliability.disturbed import LONG, App, Watch, alone

DAY = 86_400
MOST_SECONDS = 300
WORKERS = ("behind", "ahead")
"""Names of the workers, after the clocks that they get."""


class Members:
    """Scheduler, workers and an app. folder: theirs, with a home for each; encoded: see :mod:`tests.conftest`."""

    def __init__(self, folder: Path, encoded: Path, store_url: str) -> None:
        self.folder, self.encoded = folder, encoded
        self.file, self.port = folder / "scheduler.json", free_port()
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        key, shared = folder / "key.pem", folder / "shared"
        remote_workers.make_key(key)
        shared.mkdir()
        self.named = {
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
        share(self.encoded, home)
        self._start(name, ["worker", "--workers", "1"], environment)

    def clock(self, name: str) -> Path:
        """Return the file that says by how many seconds a worker's clock is set."""
        return self.folder / f"{name}.clock"

    def said(self, name: str) -> str:
        """The log of a member."""
        return (self.folder / f"{name}.log").read_text()

    def _start(self, name: str, words: list[str], environment: dict[str, str]) -> None:
        with open(self.folder / f"{name}.log", "ab") as log:
            self.running[name] = subprocess.Popen(
                [sys.executable, "-m", "engine", "cluster", *words],
                cwd=REPOSITORY,
                env=os.environ | self.named | {"EPSILON_HOME": str(self.folder / name)} | environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def kill(self, name: str) -> None:
        """It, and all that it has started."""
        process = self.running.pop(name)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.fixture(scope="module")
def settings_of_app(tmp_path_factory, encoded) -> Settings:
    """Settings of the app, whose database the members share."""
    home = tmp_path_factory.mktemp("app")
    share(encoded, home)
    return Settings(home=home, data_dir=None, store_url=f"sqlite:///{home / 'runs.sqlite'}", published=home / "none")


@pytest.fixture(scope="session")
def faketime() -> str:
    """Path of the library that sets the clock of one process."""
    found = glob.glob("/usr/lib/*/faketime/libfaketimeMT.so.1")
    if not found:
        (pytest.fail if in_ci() else pytest.skip)("libfaketime is not here (Debian: apt-get install libfaketime)")
    return found[0]


@pytest.fixture(scope="module")
def members(tmp_path_factory, encoded, settings_of_app, faketime):
    """A scheduler and two workers, which were started first and waited for it. Their clocks stand in files."""
    made = Members(tmp_path_factory.mktemp("members"), encoded, settings_of_app.store_url)
    try:
        for name in WORKERS:
            made.clock(name).write_text("+0")
            fake = {"LD_PRELOAD": faketime, "FAKETIME_TIMESTAMP_FILE": str(made.clock(name)), "FAKETIME_NO_CACHE": "1"}
            made.work(name, **fake, FAKETIME_DONT_FAKE_MONOTONIC="1", NO_FAKE_STAT="1")
        wait_for(lambda: all("Retrying until it succeeds" in made.said(name) for name in WORKERS), MOST_SECONDS)
        made.schedule()
        wait_for(lambda: all("1 worker ready for" in made.said(name) for name in WORKERS), MOST_SECONDS)
        yield made
    finally:
        for name in list(made.running):
            made.kill(name)


@pytest.fixture(scope="module")
def undisturbed(encoded, tmp_path_factory):
    return alone(LONG, tmp_path_factory.mktemp("undisturbed"), encoded)


def test_runs_survive_changed_clocks_and_a_killed_scheduler(members, settings_of_app, undisturbed):
    """Each clock is set by a day, to either side; the monotonic clock goes on, as it does where a clock is set."""
    app, watch = App(settings_of_app, LONG, **members.named), Watch(settings_of_app, LONG)
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
    finally:
        app.end()
        watch.close()


def test_ctrl_c_ends_workers_without_a_traceback(members):
    """A terminal sends it to all processes at once."""
    name = WORKERS[1]
    log = members.said(name)
    process = members.running.pop(name)
    family = psutil.Process(process.pid).children(recursive=True)
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(MOST_SECONDS) == 0
    _, left = psutil.wait_procs(family, MOST_SECONDS)
    assert left == []
    assert "1 worker ready for" in log
    assert members.said(name) == log, "nothing is printed"

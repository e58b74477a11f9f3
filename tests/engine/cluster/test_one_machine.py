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
from engine.settings import REPOSITORY
from tests.browser.chromium import in_ci
from tests.browser.driving import free_port, wait_for
from tests.engine.reliability.disturbed import LONG, App, Watch, alone

DAY = 86_400
MOST_SECONDS = 300


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
        for each in ("encoded", "vectors"):
            (self.encoded / each).mkdir(exist_ok=True)
            (home / each).symlink_to(self.encoded / each)
        self._start(name, ["worker", "--workers", "1"], environment)

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


@pytest.fixture
def members(tmp_path, encoded, trained_settings):
    """They find an app of ``trained_settings`` by its database."""
    folder = tmp_path / "members"
    folder.mkdir()
    made = Members(folder, encoded, trained_settings.store_url)
    yield made
    for name in list(made.running):
        made.kill(name)


@pytest.fixture(scope="module")
def undisturbed(encoded, tmp_path_factory):
    return alone(LONG, tmp_path_factory.mktemp("undisturbed"), encoded)


@contextlib.contextmanager
def watching(settings, members):
    """An app with the runs, and who looks at them."""
    app, watch = App(settings, LONG, **members.named), Watch(settings, LONG)
    try:
        yield watch
    finally:
        app.end()
        watch.close()


def test_a_scheduler_whose_address_is_in_a_file_is_killed_and_comes_back(members, trained_settings, undisturbed):
    for name in ("one", "two"):
        members.work(name)  # they wait for the scheduler
    wait_for(lambda: all("Trying again and again" in members.said(name) for name in ("one", "two")), MOST_SECONDS)
    members.schedule()
    wait_for(lambda: all("1 worker ready for" in members.said(name) for name in ("one", "two")), MOST_SECONDS)
    with watching(trained_settings, members) as watch:
        watch.until(4)
        members.kill("scheduler")
        members.schedule()
        watch.to_the_end(undisturbed)
        assert {watch.runs.queries.status(each).state for each in watch.identities} == {RunState.DONE}


def test_ctrl_c_ends_workers_without_a_word(members):
    """A terminal sends it to all processes at once."""
    members.schedule()
    members.work("one")
    wait_for(lambda: "1 worker ready for" in members.said("one"), MOST_SECONDS)
    process = members.running["one"]
    family = psutil.Process(process.pid).children(recursive=True)
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(MOST_SECONDS) == 0
    _, left = psutil.wait_procs(family, MOST_SECONDS)
    assert left == []
    assert members.said("one").splitlines()[-1].startswith("1 worker ready for")
    assert "Traceback" not in members.said("one")


@pytest.fixture(scope="session")
def faketime() -> str:
    """The library that sets the clock of a process alone."""
    found = glob.glob("/usr/lib/*/faketime/libfaketimeMT.so.1")
    if not found:
        (pytest.fail if in_ci() else pytest.skip)("libfaketime is not here (Debian: apt-get install libfaketime)")
    return found[0]


def test_clocks_of_workers_that_are_set_while_they_compute(members, trained_settings, undisturbed, faketime):
    """By a day to either side. The clock by which processes wait goes on, as it does where somebody sets a clock."""
    clocks = {name: members.folder / f"{name}.clock" for name in ("behind", "ahead")}
    for clock in clocks.values():
        clock.write_text("+0")
    members.schedule()
    wait_for(members.file.exists, MOST_SECONDS)
    for name, clock in clocks.items():
        fake = {"LD_PRELOAD": faketime, "FAKETIME_TIMESTAMP_FILE": str(clock), "FAKETIME_NO_CACHE": "1"}
        members.work(name, **fake, FAKETIME_DONT_FAKE_MONOTONIC="1", NO_FAKE_STAT="1")
    wait_for(lambda: all("1 worker ready for" in members.said(name) for name in clocks), MOST_SECONDS)
    with watching(trained_settings, members) as watch:
        watch.until(4)
        clocks["behind"].write_text(f"-{DAY}")
        clocks["ahead"].write_text(f"+{DAY}")
        watch.to_the_end(undisturbed)
        for identity in watch.identities:
            run = watch.runs.queries.get(identity)
            assert run.status.state == RunState.DONE
            assert 0 < run.records[-1].seconds < DAY / 2

"""Background installation: runs once, resumes after an interruption, and reports failures."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from engine import serve, setup_status
from engine.errors import StoreError
from engine.settings import REPOSITORY
from engine.setup import Failed, background_install, install, packages
from engine.setup.install import Part
from engine.setup_status import Progress

ONE_PART = """
import os, sys, time
from pathlib import Path
from engine import setup_status as readiness
from engine.setup import background_install as background, install

folder = readiness.FOLDER = Path(sys.argv[1])

def make(progress):
    with (folder / "started").open("a") as file:
        file.write(f"{os.nice(0)}\\n")
    while not (folder / "go").exists():
        time.sleep(0.02)
    progress("half of it")
    (folder / "made").touch()

install.PARTS = (install.Part(name="the part", there=(folder / "made").exists, make=make),)
sys.exit(background.main())
"""
"""`python -m engine.setup.background_install` with a part that ends on request."""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(setup_status, "FOLDER", tmp_path)
    return tmp_path


@pytest.fixture
def start_install(folder):
    """Start background installations; kill the remaining ones at the end."""
    started = []

    def start() -> subprocess.Popen[str]:
        command = [sys.executable, "-c", ONE_PART, str(folder)]
        started.append(subprocess.Popen(command, cwd=REPOSITORY, stderr=subprocess.PIPE, text=True))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()
        process.stderr.close()


def wait_for(condition: Callable[[], object]) -> None:
    end = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)


def test_two_servers_install_once_at_low_priority(start_install, folder):
    both = start_install(), start_install()
    wait_for((folder / "started").exists)
    assert setup_status.look().under_way
    (folder / "go").touch()
    said = [process.communicate()[1] for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert (folder / "started").read_text() == f"{min(19, os.nice(0) + background_install.NICENESS)}\n"
    assert setup_status.look() is None
    assert sorted(text.count("the part: half of it") for text in said) == [0, 1]
    assert all(text.endswith("Set-up is done.\n") for text in said)


def test_interrupted_install_resumes_at_next_start(start_install, folder):
    first = start_install()
    wait_for((folder / "started").exists)
    first.send_signal(signal.SIGTERM)
    assert first.wait() == 128 + signal.SIGTERM
    left = setup_status.look()
    assert (left.under_way, left.left, left.failed) == (False, ("the part",), {})
    (folder / "go").touch()
    assert start_install().wait() == 0
    assert setup_status.look() is None


def parts(monkeypatch, **makes) -> list[str]:
    """Replace the parts of set-up; return the names of the finished ones."""
    made: list[str] = []

    def making(name: str, make: Callable[[], None]) -> Callable[[Callable[[str], None]], None]:
        def call(progress: Callable[[str], None]) -> None:
            make()
            made.append(name)

        return call

    found = (Part(name=name, there=lambda name=name: name in made, make=making(name, makes[name])) for name in makes)
    monkeypatch.setattr(install, "PARTS", tuple(found))
    return made


def test_failed_part_is_reported_and_the_others_are_made(monkeypatch, capsys):
    faults: list[Exception] = [Failed("No vectors could be had; the next set-up tries again."), ValueError("LLVM")]

    def fail():
        if faults:
            raise faults.pop(0)

    made = parts(monkeypatch, vectors=fail, training=fail, other=lambda: None)
    failed = install.make_missing(over=False)
    assert made == ["other"]
    assert failed["vectors"] == "No vectors could be had; the next set-up tries again."
    assert "(ValueError: LLVM)" in failed["training"]
    assert "`make setup` tries again" in failed["training"]
    seen = setup_status.look()
    assert (seen.failed, seen.left, seen.under_way) == (failed, (), False)
    said = capsys.readouterr().err
    assert all(sentence in said for sentence in failed.values())
    assert install.make_missing(over=False) == {}
    assert made == ["other", "vectors", "training"]
    assert setup_status.look() is None


def test_make_missing_skips_existing_parts(monkeypatch):
    made = parts(monkeypatch, vectors=lambda: None, training=lambda: None)
    install.make_missing(over=False)
    install.make_missing(over=False)
    assert made == ["vectors", "training"]


@pytest.mark.parametrize(
    ("fails", "code"),
    [
        (None, 0),
        (setup_status.VECTORS, 0),
        (setup_status.LANGUAGE_MODEL, 0),
        (setup_status.TRAINING, 1),
        ("en_core_web_lg", 1),
    ],
)
def test_main_makes_all_parts_and_fails_without_required_ones(monkeypatch, fails, code):
    def make(name):
        def fail(*_):
            raise Failed(f"{name} could not be had.")

        return fail if name == fails else lambda *_: None

    names = (setup_status.VECTORS, setup_status.TRAINING, setup_status.LANGUAGE_MODEL)
    made = parts(monkeypatch, **{name: make(name) for name in names})
    monkeypatch.setattr(install, "install_packages", lambda listed, light: listed == packages.TESTS and not light)
    monkeypatch.setattr(install, "vectors_installed", lambda name: False)
    monkeypatch.setattr(install, "fetch_vectors", make("en_core_web_lg"))
    assert install.main(["--tests", "--vectors", "en_core_web_lg"]) == code
    assert made == [name for name in names if name != fails]


def test_small_installation_omits_tensorflow_and_the_larger_model(monkeypatch):
    """Its parts include TensorFlow Privacy, whose statement in privacy reports needs no TensorFlow."""
    made: list[str] = []
    small = [
        replace(part, there=lambda: False, make=lambda _, name=part.name: made.append(name)) for part in install.SMALL
    ]
    monkeypatch.setattr(install, "SMALL", small)
    monkeypatch.setattr(install.setup_status, "alone", lambda waiting: nullcontext())
    monkeypatch.setattr(install, "install_packages", lambda listed, light: listed == packages.PRODUCT and light)
    assert install.main(["--small"]) == 0
    assert made == [setup_status.VECTORS, setup_status.TRAINING, setup_status.LANGUAGE_MODEL, "TensorFlow Privacy"]


def test_failed_pip_stops_the_install(monkeypatch, capsys, tmp_path):
    def fail(*_, **__):
        raise Failed("ERROR: no such package", said="what pip said")

    made = parts(monkeypatch, training=lambda: None)
    monkeypatch.setattr(packages, "installed", lambda *_, **__: False)
    monkeypatch.setattr(packages, "install", fail)
    assert install.main([]) == 1
    assert install.main(["--pages"]) == 1
    assert made == []
    assert re.search(r"what pip said\n.*requirements\.txt could not", capsys.readouterr().err)


class TestBeforeThePages:
    @pytest.fixture(autouse=True)
    def light(self, monkeypatch):
        """Install only the packages of the pages."""
        monkeypatch.setattr(packages, "installed", lambda listed, environment, light: light)

    def test_ready_for_pages_records_missing_parts_and_makes_none(self, monkeypatch):
        made = parts(monkeypatch, vectors=lambda: None, training=lambda: None)
        assert install.ready_for_pages()
        assert made == []
        assert setup_status.look() == Progress(parts=("vectors", "training"))

    def test_ready_for_pages_keeps_progress_of_running_install(self, monkeypatch):
        parts(monkeypatch, vectors=lambda: None, training=lambda: None)
        with setup_status.alone(lambda: None):
            setup_status.tell(Progress(parts=("vectors", "training"), over=1))
            assert install.ready_for_pages()
            assert setup_status.look().over == 1

    def test_no_process_starts_if_nothing_is_missing(self, monkeypatch):
        parts(monkeypatch)
        setup_status.tell(Progress(parts=("vectors",)))  # of a set-up that was killed after its last part
        assert install.ready_for_pages()
        assert setup_status.look() is None
        monkeypatch.setattr(serve, "SET_UP", ["no such command"])
        assert serve.start_set_up(0o022) is None

    def test_start_set_up_waits_until_it_is_running(self, monkeypatch, folder):
        setup_status.tell(Progress(parts=("the part",)))
        monkeypatch.setattr(serve, "SET_UP", [sys.executable, "-c", ONE_PART, str(folder)])
        process = serve.start_set_up(0o026)
        assert setup_status.look().under_way
        status = Path(f"/proc/{process.pid}/status")
        assert not status.exists() or re.search(r"^Umask:\s*0026$", status.read_text(), re.MULTILINE)
        serve.stop(process)
        assert process.returncode


def test_unwritable_folder_is_named(folder):
    (folder / "locks").write_text("no folder")
    with pytest.raises(StoreError, match="locks"), setup_status.alone(lambda: None):
        pass

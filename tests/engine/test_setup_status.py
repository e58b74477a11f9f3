"""Set-up status as other processes see it."""

import subprocess
import sys
import threading

import pytest

from engine import setup_status
from engine.errors import RunStopped
from engine.settings import REPOSITORY
from engine.setup_status import TRAINING, VECTORS, Progress

HOLDS = """
import sys
from pathlib import Path
from engine import setup_status as readiness
readiness.FOLDER = Path(sys.argv[1])
with readiness.alone(lambda: None):
    print("held", flush=True)
    sys.stdin.read()
"""
PROGRESS = Progress(parts=(VECTORS, TRAINING), over=1, step="5 of 62 functions", failed={VECTORS: "No."})


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(setup_status, "FOLDER", tmp_path)
    return tmp_path


@pytest.fixture
def holder(folder):
    """Start a process that holds the environment's lock until it is killed."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDS, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=REPOSITORY
    )
    assert process.stdout.readline() == b"held\n"
    yield process
    process.kill()
    process.communicate()


def test_no_status_without_missing_parts():
    assert setup_status.look() is None
    assert setup_status.being_made([VECTORS]) is None


def test_status_shows_progress_of_running_set_up(holder):
    setup_status.tell(PROGRESS)
    seen = setup_status.look()
    assert seen.under_way
    assert seen.parts == PROGRESS.parts
    assert seen.left == (TRAINING,)
    assert all(part in seen.where for part in ("1 of 2 parts", "training step (5 of 62"))
    assert seen.failed == {VECTORS: "No."}
    assert setup_status.being_made([TRAINING]) == seen
    assert setup_status.being_made([VECTORS]) is None
    setup_status.all_is_there()
    assert setup_status.look() is None


def test_killed_set_up_is_not_running(holder):
    setup_status.tell(PROGRESS)
    holder.kill()
    holder.wait()
    assert not setup_status.look().under_way
    setup_status.wait_for([TRAINING], pytest.fail)


@pytest.mark.parametrize("written", ["", "[]", '{"parts": 3}', '{"parts": ["a"], "unknown": 1}', "\0"])
def test_unreadable_status_file_is_ignored(folder, written):
    (folder / "set-up.json").write_text(written)
    assert setup_status.look() is None


def test_wait_for_reports_progress_and_ends_with_its_parts(holder):
    setup_status.tell(Progress(parts=(VECTORS, TRAINING)))
    said = []

    def waiting(words):
        said.append(words)
        setup_status.tell(Progress(parts=(VECTORS, TRAINING, "more"), over=len(said)))

    setup_status.wait_for([VECTORS, TRAINING], waiting)
    first, second = said
    assert all(part in first for part in ("waiting", " 0 of 2 parts", "word vectors"))
    assert all(part in second for part in ("waiting", " 1 of 3 parts", "training step"))


def test_wait_for_can_be_stopped(holder):
    setup_status.tell(PROGRESS)

    def stop(words):
        raise RunStopped(words)

    with pytest.raises(RunStopped):
        setup_status.wait_for([TRAINING], stop)


def test_lock_is_exclusive(holder):
    waits = threading.Event()
    entered = threading.Event()

    def enter():
        with setup_status.alone(waits.set):
            entered.set()

    thread = threading.Thread(target=enter)
    thread.start()
    assert waits.wait(60)
    assert not entered.is_set()
    holder.kill()
    assert entered.wait(60)
    thread.join()

"""Scripts run a few at a time, user requests before polls, and a long script does not block others."""

import asyncio
import itertools
import os
import subprocess
import sys
import threading
import time

import pytest
import streamlit as st

from benchmarks.session_client import Session
from engine.settings import REPOSITORY
from pages.shared import script_scheduler
from pages.shared.script_scheduler import (
    AT_ONCE,
    COUNTED_SECONDS,
    LONG_SECONDS,
    MOST_POLLS_A_SECOND,
    PATIENCE_SECONDS,
    PollRate,
    ScriptScheduler,
)
from tests.browser.driving import answers, free_port


class Script:
    """A script in its own thread, which runs until :meth:`end`."""

    def __init__(self, scheduler, started_names, name, *, poll=False):
        self._end = threading.Event()
        self._scheduler, self._started_names, self._name, self._poll = scheduler, started_names, name, poll
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        with self._scheduler.turn(poll=self._poll):
            self._started_names.append(self._name)
            self._end.wait()

    def end(self):
        self._end.set()
        self._thread.join()


def wait_until(condition):
    """Wait until the condition holds."""
    while not condition():
        time.sleep(0.005)


@pytest.fixture
def now():
    return [0.0]


@pytest.fixture
def started_names():
    return []


@pytest.fixture
def start(now, started_names):
    """Return a function that starts a script and returns once it runs or is queued; all scripts end with the test."""
    scheduler, started = ScriptScheduler(1, lambda: now[0]), []

    def start_script(name, *, poll=False):
        queued = len(scheduler._asked) + len(scheduler._polls)
        started.append(Script(scheduler, started_names, name, poll=poll))
        wait_until(lambda: name in started_names or len(scheduler._asked) + len(scheduler._polls) > queued)
        return started[-1]

    yield start_script
    for script in started:
        script.end()


def test_scripts_run_one_by_one_in_request_order(start, started_names):
    waiting = [start(name) for name in "abcd"]
    for number, script in enumerate(waiting, 1):
        wait_until(lambda number=number: len(started_names) >= number)
        assert started_names == list("abcd"[:number])
        script.end()


def test_polls_wait_for_user_requests(start, started_names):
    first = start("first")
    poll = start("poll", poll=True)
    requests = [start("asked"), start("asked too")]
    first.end()
    wait_until(lambda: len(started_names) == 2)
    requests[0].end()
    wait_until(lambda: len(started_names) == 3)
    assert "poll" not in started_names
    requests[1].end()
    wait_until(lambda: "poll" in started_names)
    poll.end()
    assert started_names == ["first", "asked", "asked too", "poll"]


def test_long_script_does_not_block_the_next(start, started_names, now):
    start("long")
    start("next")
    assert started_names == ["long"]
    now[0] += LONG_SECONDS
    wait_until(lambda: "next" in started_names)


def test_script_starts_after_the_maximum_wait(started_names, now):
    scheduler = ScriptScheduler(0, lambda: now[0])
    one, other = Script(scheduler, started_names, "one"), Script(scheduler, started_names, "poll", poll=True)
    wait_until(lambda: len(scheduler._asked) + len(scheduler._polls) == 2)
    time.sleep(0.5)  # the scheduler looks twice in this time
    assert started_names == []
    now[0] += PATIENCE_SECONDS
    wait_until(lambda: len(started_names) == 2)
    one.end()
    other.end()


def test_failing_script_frees_its_slot(started_names):
    scheduler = ScriptScheduler(1)
    with pytest.raises(ValueError, match="failed"), scheduler.turn(poll=False):
        raise ValueError("failed")
    Script(scheduler, started_names, "next").end()
    assert started_names == ["next"]


def test_fragment_inside_a_script_does_not_wait_again(started_names):
    scheduler = ScriptScheduler(1)
    with scheduler.turn(poll=False) as outer, scheduler.turn(poll=True) as inner:
        assert (outer, inner) == (True, False)
    assert not scheduler._running
    Script(scheduler, started_names, "next").end()
    assert started_names == ["next"]


def rate_of(number_of_sessions, intervals, seconds=120):
    """Return a poll rate after a time in which sessions poll at their intervals, and its clock."""
    now = [0.0]
    rate = PollRate(lambda: now[0])
    polls = sorted(
        (start / number_of_sessions * interval + turn * interval, interval)
        for start, interval in zip(range(number_of_sessions), itertools.cycle(intervals), strict=False)
        for turn in range(int(seconds / interval) + 1)
    )
    for at, interval in polls:
        if at <= seconds:
            now[0] = at
            rate.record(interval)
            rate.interval(1.0)
    return rate, now


def test_few_sessions_poll_at_their_own_interval():
    rate, _ = rate_of(9, [1.0])
    assert (rate.interval(1.0), rate.interval(2.0)) == (1.0, 2.0)


@pytest.mark.parametrize("intervals", [[1.0], [6.0], [1.0, 3.0, 6.0]])
def test_many_sessions_together_poll_at_the_maximum_rate(intervals):
    rate, _ = rate_of(60, intervals)
    assert 60 / rate.interval(1.0) == pytest.approx(MOST_POLLS_A_SECOND, rel=0.15)


def test_sessions_that_ended_do_not_count():
    rate, now = rate_of(60, [1.0])
    assert rate.interval(1.0) > 5
    now[0] += COUNTED_SECONDS + 1
    assert rate.interval(1.0) == 1.0


def test_poll_reruns_the_page_once_its_interval_no_longer_fits(monkeypatch):
    intervals, drawn, reruns = [], [], []
    rate, now = rate_of(60, [1.0])
    monkeypatch.setattr(script_scheduler, "_POLL_RATE", rate)
    monkeypatch.setattr(st, "fragment", lambda function, run_every: intervals.append(run_every) or function)
    monkeypatch.setattr(st, "rerun", lambda: reruns.append(now[0]))
    poll = script_scheduler.polling_fragment(drawn.append, 1.0)
    assert intervals == [pytest.approx(6.0, rel=0.15)]
    poll("fits")
    assert (drawn, reruns) == (["fits"], [])
    now[0] += COUNTED_SECONDS + 1
    with script_scheduler.turn(poll=False):
        poll("in the whole page")
    assert reruns == []
    poll("no longer fits")
    assert (drawn[1:], reruns) == (["in the whole page", "no longer fits"], [now[0]])
    script_scheduler.polling_fragment(drawn.append, None)("at a request")
    assert (intervals[1:], len(reruns)) == ([None], 1)


def test_every_polling_fragment_waits_for_its_turn():
    pages = (REPOSITORY / "pages").rglob("*.py")
    assert [path.stem for path in pages if "run_every" in path.read_text()] == ["script_scheduler"]


APP = """
import time
from pathlib import Path

import streamlit as st

from pages.shared import script_scheduler

folder = Path({folder!r})
script_scheduler.LONG_SECONDS = script_scheduler.PATIENCE_SECONDS = 600.0


def log(text):
    with (folder / "log").open("a") as file:
        file.write(text + "\\n")


def view(value):
    st.write(value)
    log(f"view {{value}}")


value = st.select_slider("value", ["1", "2", "3"])
log(f"asked {{value}}")
with script_scheduler.turn(poll=False):
    st.write(value)
    log(f"drawn {{value}}")
    if "hold" in st.query_params:
        while not (folder / "go").exists():
            time.sleep(0.01)
    else:
        script_scheduler.polling_fragment(view, 0.1)(value)
"""
"""A page that logs what it draws, and with ``?hold`` keeps its turn until the file ``go`` exists."""


async def until(condition):
    """Wait until the condition holds."""
    while not condition():
        await asyncio.sleep(0.01)


async def drawn_while_two_scripts_hold_their_turns(address, folder):
    """Move a slider twice while the session waits for its turn; return the log since then and the faults."""

    def log():
        return (folder / "log").read_text().split("\n")[:-1]

    async with Session(address) as session:
        await until(lambda: log().count("view 1") >= 3)
        holding = [asyncio.create_task(Session(f"{address}/?hold=1").__aenter__()) for _ in range(AT_ONCE)]
        await until(lambda: log().count("drawn 1") == 1 + AT_ONCE)
        polls = session.polls
        await until(lambda: session.polls >= polls + 3)  # one of them waits for its turn now
        before = len(log())
        moves = [asyncio.create_task(session.slide("value", "2"))]
        await until(lambda: "asked 2" in log())
        moves.append(asyncio.create_task(session.slide("value", "3")))
        await until(lambda: "asked 3" in log())
        drawn = [line for line in log()[before:] if not line.startswith("asked")]
        (folder / "go").touch()
        await asyncio.gather(*moves)
        await until(lambda: log().count("view 3") >= 3)
        others = [await other for other in holding]
        for other in others:
            await other.__aexit__(None, None, None)
        return drawn, log()[before:], [*session.faults, *(fault for other in others for fault in other.faults)]


def test_script_stopped_while_it_waits_draws_nothing(tmp_path):
    """A user moves a widget while a script or a poll waits: Streamlit stops that one and starts another."""
    (tmp_path / "app.py").write_text(APP.format(folder=str(tmp_path)))
    port = free_port()
    options = ["--server.port", str(port), "--server.headless", "true", "--server.address", "localhost"]
    server = subprocess.Popen(
        [sys.executable, "-m", "streamlit", "run", str(tmp_path / "app.py"), *options],
        cwd=REPOSITORY,
        env=os.environ | {"PYTHONPATH": str(REPOSITORY)},
    )
    try:
        address = f"http://localhost:{port}"
        wait_until(lambda: server.poll() is not None or answers(f"{address}/_stcore/health"))
        drawn, later, faults = asyncio.run(
            asyncio.wait_for(drawn_while_two_scripts_hold_their_turns(address, tmp_path), 120)
        )
    finally:
        server.terminate()
        server.wait(30)
    assert faults == []
    assert drawn == []
    assert "asked 2" in later
    assert not {"drawn 2", "view 1", "view 2"} & set(later)
    assert later.count("drawn 3") == 1

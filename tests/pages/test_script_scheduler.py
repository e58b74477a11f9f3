"""Scripts take turns: a few at once, who asked before what polls, and nobody waits for what takes long."""

import threading
import time

import pytest
from streamlit.runtime.scriptrunner import ScriptRunner
from streamlit.runtime.scriptrunner_utils.script_requests import RerunData, ScriptRequests

from pages.startup import script_scheduler
from pages.startup.script_scheduler import AT_ONCE, LONG_SECONDS, PATIENCE_SECONDS, ScriptScheduler


class Script:
    """A script in a thread of its own, which ends when it is told to."""

    def __init__(self, taking, began, name, *, poll=False):
        self._end = threading.Event()
        self._taking, self._began, self._name, self._poll = taking, began, name, poll
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        with self._taking.turn(poll=self._poll):
            self._began.append(self._name)
            self._end.wait()

    def end(self):
        self._end.set()
        self._thread.join()


def until(state):
    """Wait for it."""
    while not state():
        time.sleep(0.005)


@pytest.fixture
def now():
    return [0.0]


@pytest.fixture
def began():
    return []


@pytest.fixture
def start(now, began):
    """Starts a script by its name, and returns once it runs or stands in its queue; what runs is ended afterwards."""
    taking, started = ScriptScheduler(1, lambda: now[0]), []

    def one(name, *, poll=False):
        queued = len(taking._asked) + len(taking._polls)
        started.append(Script(taking, began, name, poll=poll))
        until(lambda: name in began or len(taking._asked) + len(taking._polls) > queued)
        return started[-1]

    yield one
    for script in started:
        script.end()


def test_they_run_in_the_order_in_which_they_were_asked_for_and_one_after_another(start, began):
    waiting = [start(name) for name in "abcd"]
    for number, script in enumerate(waiting, 1):
        until(lambda number=number: len(began) >= number)
        assert began == list("abcd"[:number])
        script.end()


def test_what_polls_waits_until_nobody_asks(start, began):
    first = start("first")
    poll = start("poll", poll=True)
    asked = [start("asked"), start("asked too")]
    first.end()
    until(lambda: len(began) == 2)
    asked[0].end()
    until(lambda: len(began) == 3)
    assert "poll" not in began
    asked[1].end()
    until(lambda: "poll" in began)
    poll.end()
    assert began == ["first", "asked", "asked too", "poll"]


def test_a_script_that_takes_long_holds_up_nobody(start, began, now):
    start("long")
    start("next")
    assert began == ["long"]
    now[0] += LONG_SECONDS
    until(lambda: "next" in began)


def test_who_has_waited_long_enough_begins_whatever_else_goes_on(began, now):
    taking = ScriptScheduler(0, lambda: now[0])
    one, other = Script(taking, began, "one"), Script(taking, began, "poll", poll=True)
    until(lambda: len(taking._asked) + len(taking._polls) == 2)
    time.sleep(0.5)  # two looks
    assert began == []
    now[0] += PATIENCE_SECONDS
    until(lambda: len(began) == 2)
    one.end()
    other.end()


def test_a_script_that_fails_makes_room(began):
    taking = ScriptScheduler(1)
    with pytest.raises(ValueError, match="failed"), taking.turn(poll=False):
        raise ValueError("failed")
    Script(taking, began, "next").end()
    assert began == ["next"]


def a_runner():
    """Of a session's scripts, as far as it is needed."""
    runner = ScriptRunner.__new__(ScriptRunner)
    runner._requests = ScriptRequests()
    return runner


def test_a_script_that_was_stopped_while_it_waited_does_nothing(monkeypatch, began):
    """A poll waits, a widget is moved: Streamlit stops the poll's script and starts another for the same session."""
    monkeypatch.setattr(ScriptRunner, "_run_script", lambda self, rerun_data: began.append(rerun_data.query_string))
    taking = ScriptScheduler(1)
    monkeypatch.setattr(script_scheduler, "ScriptScheduler", lambda: taking)
    script_scheduler.install()
    before = Script(taking, began, "before")
    until(lambda: began == ["before"])
    stopped, other = a_runner(), a_runner()
    poll = RerunData(query_string="poll", is_auto_rerun=True)
    waiting = [
        threading.Thread(target=stopped._run_script, args=(poll,)),
        threading.Thread(target=other._run_script, args=(RerunData(query_string="moved"),)),
    ]
    for thread in waiting:
        thread.start()
    until(lambda: len(taking._asked) + len(taking._polls) == 2)
    stopped._requests.request_stop()
    before.end()
    for thread in waiting:
        thread.join()
    assert began == ["before", "moved"]


def test_all_scripts_of_a_server_take_turns(monkeypatch):
    running, most, ended = [], [0], []

    def run(self, rerun_data):
        running.append(rerun_data)
        most[0] = max(most[0], len(running))
        time.sleep(0.002)
        running.remove(rerun_data)
        ended.append(rerun_data)

    monkeypatch.setattr(ScriptRunner, "_run_script", run)
    script_scheduler.install()
    runner = a_runner()
    asked = [RerunData(query_string=str(number), is_auto_rerun=number % 2 == 0) for number in range(40)]
    threads = [threading.Thread(target=runner._run_script, args=(each,)) for each in asked]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(ended) == len(asked)
    assert most[0] == AT_ONCE

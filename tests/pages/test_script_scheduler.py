"""Scripts run a few at a time, user requests before polls, and a long script does not block others."""

import threading
import time

import pytest
from streamlit.runtime.scriptrunner import ScriptRunner
from streamlit.runtime.scriptrunner_utils.script_requests import RerunData, ScriptRequests

from pages.startup import script_scheduler
from pages.startup.script_scheduler import AT_ONCE, LONG_SECONDS, PATIENCE_SECONDS, ScriptScheduler


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


def script_runner():
    """Return a partial script runner of a session."""
    runner = ScriptRunner.__new__(ScriptRunner)
    runner._requests = ScriptRequests()
    return runner


def test_script_stopped_while_queued_does_not_run(monkeypatch, started_names):
    """A user moves a widget while a poll waits: Streamlit stops the poll's script and starts another one."""
    monkeypatch.setattr(
        ScriptRunner, "_run_script", lambda self, rerun_data: started_names.append(rerun_data.query_string)
    )
    scheduler = ScriptScheduler(1)
    monkeypatch.setattr(script_scheduler, "ScriptScheduler", lambda: scheduler)
    script_scheduler.install()
    before = Script(scheduler, started_names, "before")
    wait_until(lambda: started_names == ["before"])
    stopped, other = script_runner(), script_runner()
    poll = RerunData(query_string="poll", is_auto_rerun=True)
    waiting = [
        threading.Thread(target=stopped._run_script, args=(poll,)),
        threading.Thread(target=other._run_script, args=(RerunData(query_string="moved"),)),
    ]
    for thread in waiting:
        thread.start()
    wait_until(lambda: len(scheduler._asked) + len(scheduler._polls) == 2)
    stopped._requests.request_stop()
    before.end()
    for thread in waiting:
        thread.join()
    assert started_names == ["before", "moved"]


def test_installed_scheduler_limits_concurrent_scripts(monkeypatch):
    running, maximum, ended = [], [0], []

    def run(self, rerun_data):
        running.append(rerun_data)
        maximum[0] = max(maximum[0], len(running))
        time.sleep(0.002)
        running.remove(rerun_data)
        ended.append(rerun_data)

    monkeypatch.setattr(ScriptRunner, "_run_script", run)
    script_scheduler.install()
    runner = script_runner()
    requests = [RerunData(query_string=str(number), is_auto_rerun=number % 2 == 0) for number in range(40)]
    threads = [threading.Thread(target=runner._run_script, args=(each,)) for each in requests]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(ended) == len(requests)
    assert maximum[0] == AT_ONCE

"""A poll-driven task pauses without polls, resumes with them, and reports its error."""

import threading
import time
from collections.abc import Iterator

from engine.errors import CorpusError
from engine.lessons.background_task import PollDrivenTask


def until(live: PollDrivenTask[int], state) -> None:
    """Poll until the condition holds."""
    deadline = time.monotonic() + 30
    while not state(seen := live.poll()):
        assert time.monotonic() < deadline, seen
        time.sleep(0.001)


def test_task_pauses_without_polls_and_resumes():
    begun = []

    def count(tell) -> Iterator[int | None]:
        begun.append(1)
        tell("counting")
        for number in range(5):
            yield None
            yield number

    live = PollDrivenTask(count, patience=-1.0)  # each step exceeds the idle timeout
    assert live.poll().found == ()
    until(live, lambda seen: seen.done)
    assert live.poll().found == (0, 1, 2, 3, 4)
    assert live.poll().stage == "counting"
    assert begun == [1]
    assert not live.going


def test_idle_task_stops_and_next_poll_restarts_it():
    going = threading.Event()

    def forever(tell) -> Iterator[int | None]:
        while True:
            going.set()
            yield None

    live = PollDrivenTask(forever, patience=0.05)
    live.poll()
    assert going.wait(30)
    deadline = time.monotonic() + 30
    while live.going:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    going.clear()
    live.poll()
    assert going.wait(30)  # a new poll resumes it


def test_concurrent_polls_share_one_computation():
    begun = []

    def count(tell) -> Iterator[int]:
        begun.append(1)
        yield from range(100)

    live = PollDrivenTask(count)
    pollers = [threading.Thread(target=until, args=(live, lambda seen: seen.done)) for _ in range(4)]
    for each in pollers:
        each.start()
    for each in pollers:
        each.join()
    assert begun == [1]
    assert live.poll().found == tuple(range(100))


def test_error_is_reported_with_partial_results():
    def fails(tell) -> Iterator[int]:
        yield 1
        raise CorpusError("there is none")

    live = PollDrivenTask(fails)
    until(live, lambda seen: seen.error)
    seen = live.poll()
    assert (seen.found, seen.error, seen.done) == ((1,), "there is none", False)


def test_bug_ends_task_and_is_logged(caplog):
    def fails(tell) -> Iterator[int]:
        raise ZeroDivisionError
        yield 1

    live = PollDrivenTask(fails)
    until(live, lambda seen: seen.error)
    assert "bug in this program" in live.poll().error
    assert not live.going
    assert "ZeroDivisionError" in caplog.text

"""A computation waits where nobody looks, goes on where somebody is back, and says why it ended."""

import threading
import time
from collections.abc import Iterator

from engine.errors import CorpusError
from engine.lessons.background_task import PollDrivenTask


def until(live: PollDrivenTask[int], state) -> None:
    """Look again and again until it is so."""
    deadline = time.monotonic() + 30
    while not state(seen := live.poll()):
        assert time.monotonic() < deadline, seen
        time.sleep(0.001)


def test_it_waits_where_nobody_looks_and_goes_on_where_it_was():
    begun = []

    def count(tell) -> Iterator[int | None]:
        begun.append(1)
        tell("counting")
        for number in range(5):
            yield None
            yield number

    live = PollDrivenTask(count, patience=-1.0)  # each step is too long
    assert live.poll().found == ()
    until(live, lambda seen: seen.done)
    assert live.poll().found == (0, 1, 2, 3, 4)
    assert live.poll().stage == "counting"
    assert begun == [1]
    assert not live.going


def test_who_has_left_stops_it():
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
    assert going.wait(30)  # and who is back starts it again


def test_two_who_look_share_one():
    begun = []

    def count(tell) -> Iterator[int]:
        begun.append(1)
        yield from range(100)

    live = PollDrivenTask(count)
    lookers = [threading.Thread(target=until, args=(live, lambda seen: seen.done)) for _ in range(4)]
    for each in lookers:
        each.start()
    for each in lookers:
        each.join()
    assert begun == [1]
    assert live.poll().found == tuple(range(100))


def test_what_goes_wrong_is_said():
    def fails(tell) -> Iterator[int]:
        yield 1
        raise CorpusError("there is none")

    live = PollDrivenTask(fails)
    until(live, lambda seen: seen.error)
    seen = live.poll()
    assert (seen.found, seen.error, seen.done) == ((1,), "there is none", False)


def test_a_fault_ends_it_too(caplog):
    def fails(tell) -> Iterator[int]:
        raise ZeroDivisionError
        yield 1

    live = PollDrivenTask(fails)
    until(live, lambda seen: seen.error)
    assert "bug in this program" in live.poll().error
    assert not live.going
    assert "ZeroDivisionError" in caplog.text

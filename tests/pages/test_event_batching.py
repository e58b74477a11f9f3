"""What scripts say reaches their session's event loop whole and in order, by few wake-ups; settings are as ever."""

import asyncio
import threading

import pytest
from streamlit import config
from streamlit.runtime.app_session import AppSession

from pages.startup import event_batching
from pages.startup.event_batching import BatchedEventQueue


class Loop(asyncio.SelectorEventLoop):
    """Counts how often another thread wakes it, and keeps what failed."""

    def __init__(self) -> None:
        super().__init__()
        self.woken = 0
        self.failed: list[BaseException] = []
        self.set_exception_handler(lambda loop, context: self.failed.append(context["exception"]))

    def call_soon_threadsafe(self, callback, *args, context=None):  # type: ignore[override]
        self.woken += 1
        return super().call_soon_threadsafe(callback, *args, context=context)

    def turn(self) -> None:
        """Do what waits, and no more."""
        self.call_soon(self.stop)
        self.run_forever()


@pytest.fixture
def loop():
    found = Loop()
    yield found
    found.close()


def test_all_that_is_said_before_the_loop_comes_to_it_wakes_it_once_and_is_taken_in_order(loop):
    taken = []
    box = BatchedEventQueue(loop, lambda number, *, word: taken.append((number, word)))
    for number in range(100):
        box.put(number, word="said")
    assert (loop.woken, taken) == (1, [])
    loop.turn()
    assert taken == [(number, "said") for number in range(100)]
    box.put(100, word="later")
    loop.turn()
    assert (loop.woken, taken[-1]) == (2, (100, "later"))


def test_what_is_said_while_a_message_is_taken_comes_after_all_that_waited(loop):
    taken = []

    def take(number):
        taken.append(number)
        if number == 0:
            box.put(2)

    box = BatchedEventQueue(loop, take)
    box.put(0)
    box.put(1)
    loop.turn()
    loop.turn()
    assert taken == [0, 1, 2]


def test_a_message_that_fails_is_told_and_costs_no_other(loop):
    taken = []
    box = BatchedEventQueue(loop, lambda number: taken.append(10 // number))
    for number in (5, 0, 2):
        box.put(number)
    loop.turn()
    assert taken == [2, 5]
    assert [type(error) for error in loop.failed] == [ZeroDivisionError]


def test_threads_that_speak_at_once_lose_nothing_and_each_is_heard_in_its_order(loop):
    each, taken = 2_000, []
    box = BatchedEventQueue(loop, lambda *said: taken.append(said))
    speaking = [
        threading.Thread(target=lambda name=name: [box.put(name, number) for number in range(each)]) for name in "abcd"
    ]
    for thread in speaking:
        thread.start()
    while any(thread.is_alive() for thread in speaking) or len(taken) < 4 * each:
        loop.turn()
    for name in "abcd":
        assert [number for other, number in taken if other == name] == list(range(each))


def test_a_session_has_one_mailbox_and_settings_are_read_as_ever(loop, monkeypatch):
    monkeypatch.setattr(AppSession, "_on_scriptrunner_event", AppSession._on_scriptrunner_event)
    monkeypatch.setattr(config, "get_option", config.get_option)
    look_up = config.get_option
    event_batching.install()
    taken = []
    session = AppSession.__new__(AppSession)
    session._event_loop = loop
    monkeypatch.setattr(AppSession, "__del__", lambda self: None)  # it was never whole: there is nothing to end
    session._handle_scriptrunner_event_on_event_loop = lambda *said, **more: taken.append(  # type: ignore[method-assign]
        (said, more)
    )
    session._on_scriptrunner_event("runner", "event", forward_msg="first")
    session._on_scriptrunner_event("runner", event="other", page_script_hash="page")
    loop.turn()
    assert loop.woken == 1
    assert taken == [
        (("runner", "event"), {"forward_msg": "first"}),
        (("runner",), {"event": "other", "page_script_hash": "page"}),
    ]
    for key in ("global.minCachedMessageSize", "server.port", "runner.magicEnabled"):
        assert config.get_option(key) == look_up(key)
    with pytest.raises(RuntimeError, match=r"nothing\.likeThis"):
        config.get_option("nothing.likeThis")
    before = look_up("server.port")
    config.set_option("server.port", before + 1)
    try:
        assert config.get_option("server.port") == before + 1
    finally:
        config.set_option("server.port", before)

"""Script events reach the session's event loop completely, in order and with few wake-ups; options are unchanged."""

import asyncio
import threading

import pytest
from streamlit import config
from streamlit.runtime.app_session import AppSession

from pages.startup import event_batching
from pages.startup.event_batching import BatchedEventQueue


class Loop(asyncio.SelectorEventLoop):
    """An event loop that counts wake-ups by other threads and collects exceptions."""

    def __init__(self) -> None:
        super().__init__()
        self.wake_ups = 0
        self.errors: list[BaseException] = []
        self.set_exception_handler(lambda loop, context: self.errors.append(context["exception"]))

    def call_soon_threadsafe(self, callback, *args, context=None):  # type: ignore[override]
        self.wake_ups += 1
        return super().call_soon_threadsafe(callback, *args, context=context)

    def turn(self) -> None:
        """Run the waiting callbacks once."""
        self.call_soon(self.stop)
        self.run_forever()


@pytest.fixture
def loop():
    found = Loop()
    yield found
    found.close()


def test_events_before_a_turn_need_one_wake_up_and_keep_their_order(loop):
    handled = []
    queue = BatchedEventQueue(loop, lambda number, *, word: handled.append((number, word)))
    for number in range(100):
        queue.put(number, word="sent")
    assert (loop.wake_ups, handled) == (1, [])
    loop.turn()
    assert handled == [(number, "sent") for number in range(100)]
    queue.put(100, word="later")
    loop.turn()
    assert (loop.wake_ups, handled[-1]) == (2, (100, "later"))


def test_event_put_by_a_handler_comes_after_waiting_ones(loop):
    handled = []

    def take(number):
        handled.append(number)
        if number == 0:
            queue.put(2)

    queue = BatchedEventQueue(loop, take)
    queue.put(0)
    queue.put(1)
    loop.turn()
    loop.turn()
    assert handled == [0, 1, 2]


def test_failing_handler_is_reported_and_loses_no_other_event(loop):
    handled = []
    queue = BatchedEventQueue(loop, lambda number: handled.append(10 // number))
    for number in (5, 0, 2):
        queue.put(number)
    loop.turn()
    assert handled == [2, 5]
    assert [type(error) for error in loop.errors] == [ZeroDivisionError]


def test_concurrent_threads_lose_no_event_and_keep_their_order(loop):
    number_of_events, handled = 2_000, []
    queue = BatchedEventQueue(loop, lambda *event: handled.append(event))
    threads = [
        threading.Thread(target=lambda name=name: [queue.put(name, number) for number in range(number_of_events)])
        for name in "abcd"
    ]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads) or len(handled) < 4 * number_of_events:
        loop.turn()
    for name in "abcd":
        assert [number for other, number in handled if other == name] == list(range(number_of_events))


def test_session_has_one_queue_and_options_are_unchanged(loop, monkeypatch):
    monkeypatch.setattr(AppSession, "_on_scriptrunner_event", AppSession._on_scriptrunner_event)
    monkeypatch.setattr(config, "get_option", config.get_option)
    original_get_option = config.get_option
    event_batching.install()
    handled = []
    session = AppSession.__new__(AppSession)
    session._event_loop = loop
    monkeypatch.setattr(AppSession, "__del__", lambda self: None)  # the session was never initialised
    session._handle_scriptrunner_event_on_event_loop = lambda *event, **more: handled.append(  # type: ignore[method-assign]
        (event, more)
    )
    session._on_scriptrunner_event("runner", "event", forward_msg="first")
    session._on_scriptrunner_event("runner", event="other", page_script_hash="page")
    loop.turn()
    assert loop.wake_ups == 1
    assert handled == [
        (("runner", "event"), {"forward_msg": "first"}),
        (("runner",), {"event": "other", "page_script_hash": "page"}),
    ]
    for key in ("global.minCachedMessageSize", "server.port", "runner.magicEnabled"):
        assert config.get_option(key) == original_get_option(key)
    with pytest.raises(RuntimeError, match=r"nothing\.likeThis"):
        config.get_option("nothing.likeThis")
    before = original_get_option("server.port")
    config.set_option("server.port", before + 1)
    try:
        assert config.get_option("server.port") == before + 1
    finally:
        config.set_option("server.port", before)

"""What the scripts of many sessions wait for at each of their messages, left out.

A page is a hundred messages and more. Streamlit (1.60) hands each of them to its event loop with a wake-up of its own,
and looks into its settings under one lock that all sessions have in common. At a wake-up, and where the lock is taken,
Python gives the interpreter to another session's script, and this one stands in line for it. Here all that a session
says before the event loop comes to it is handed over by one wake-up, in its order; and settings, which do not change
while pages are served, are read without the lock.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from streamlit import config
from streamlit.runtime.app_session import AppSession


class BatchedEventQueue:
    """What the threads of a session say to its event loop. take: what the loop does with each message."""

    def __init__(self, loop: asyncio.AbstractEventLoop, take: Callable[..., None]) -> None:
        self._loop, self._take, self._lock = loop, take, threading.Lock()
        self._waiting: deque[tuple[tuple[Any, ...], dict[str, Any]]] = deque()

    def put(self, *said: Any, **more: Any) -> None:
        """Have one message taken soon, after all that were put before it; from any thread."""
        with self._lock:
            first = not self._waiting
            self._waiting.append((said, more))
        if first:
            self._loop.call_soon_threadsafe(self._empty)

    def _empty(self) -> None:
        with self._lock:
            waiting, self._waiting = self._waiting, deque()
        for said, more in waiting:
            try:
                self._take(*said, **more)
            except Exception as error:  # of one message, as if each had come by itself
                self._loop.call_exception_handler({"message": "A script's message failed.", "exception": error})


def install() -> None:
    """Have it so in all sessions that this process serves from now on."""
    look_up = config.get_option

    def event(self: AppSession, *said: Any, **more: Any) -> None:
        box = self.__dict__.get("mailbox")
        if box is None:
            made = BatchedEventQueue(self._event_loop, self._handle_scriptrunner_event_on_event_loop)
            box = self.__dict__.setdefault("mailbox", made)
        box.put(*said, **more)

    def option(key: str) -> Any:
        known = config._config_options
        return known[key].value if known and key in known else look_up(key)

    AppSession._on_scriptrunner_event = event  # type: ignore[method-assign]
    config.get_option = option

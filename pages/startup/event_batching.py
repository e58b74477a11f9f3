"""Batched hand-over of script messages to Streamlit's event loop, and settings that are read without a lock.

A page has a hundred messages or more. Streamlit (1.60) wakes its event loop for each message, and reads its settings
under one lock that all sessions share. At each wake-up and each lock, Python may switch to another session's script,
and this one waits for its next turn. Here one wake-up hands over all queued messages of a session in their order.
Settings do not change while pages are served, so they are read without the lock.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from streamlit import config
from streamlit.runtime.app_session import AppSession


class BatchedEventQueue:
    """Queue of messages from the threads of a session to its event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, take: Callable[..., None]) -> None:
        """Create an empty queue for ``loop``, which calls ``take`` with each message."""
        self._loop, self._take, self._lock = loop, take, threading.Lock()
        self._waiting: deque[tuple[tuple[Any, ...], dict[str, Any]]] = deque()

    def put(self, *message: Any, **more: Any) -> None:
        """Queue a message behind all earlier ones; any thread may call this."""
        with self._lock:
            first = not self._waiting
            self._waiting.append((message, more))
        if first:
            self._loop.call_soon_threadsafe(self._empty)

    def _empty(self) -> None:
        with self._lock:
            waiting, self._waiting = self._waiting, deque()
        for message, more in waiting:
            try:
                self._take(*message, **more)
            except Exception as error:  # one message that fails must not stop the others
                self._loop.call_exception_handler({"message": "A script's message failed.", "exception": error})


def install() -> None:
    """Patch Streamlit for all sessions that this process serves from now on."""
    locked_option = config.get_option

    def event(self: AppSession, *message: Any, **more: Any) -> None:
        queue = self.__dict__.get("mailbox")
        if queue is None:
            created = BatchedEventQueue(self._event_loop, self._handle_scriptrunner_event_on_event_loop)
            queue = self.__dict__.setdefault("mailbox", created)
        queue.put(*message, **more)

    def option(key: str) -> Any:
        options = config._config_options
        return options[key].value if options and key in options else locked_option(key)

    AppSession._on_scriptrunner_event = event  # type: ignore[method-assign]
    config.get_option = option

"""Scripts take turns, where more of them want to run than a server can compute at once.

Streamlit (1.60) has a thread for each session, and all of them share one interpreter: where fifty people move a slider
at once, fifty scripts are each a fiftieth as fast, all of them end late, and what hands their messages on waits for
each of them in turn. Here a few run at once, in the order in which they were asked for, and what somebody asked for
goes before what polls. It is a courtesy and no lock: a script that computes for long, or waits for something else,
holds up nobody, and who has waited long enough begins.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from streamlit.runtime.scriptrunner import ScriptRunner
from streamlit.runtime.scriptrunner_utils.script_requests import RerunData, ScriptRequestType

AT_ONCE = 2
"""Scripts that compute at once: one of them, while the other waits for the database."""
LONG_SECONDS = 1.0
"""A script that has run for so long is one that computes or waits for long, and counts no more."""
PATIENCE_SECONDS = 5.0
"""Whoever has waited for so long begins."""
_LOOK_SECONDS = 0.25
"""Between two looks of who waits, at whether others have become long."""


class ScriptScheduler:
    """Who runs and who waits. clock: seconds."""

    def __init__(self, at_once: int = AT_ONCE, clock: Callable[[], float] = time.monotonic) -> None:
        self._at_once, self._clock, self._lock = at_once, clock, threading.Lock()
        self._running: dict[threading.Event, float] = {}
        self._asked: deque[threading.Event] = deque()
        self._polls: deque[threading.Event] = deque()

    @contextmanager
    def turn(self, *, poll: bool) -> Iterator[None]:
        """Wait for one's turn, and have it. poll: whether nobody asked."""
        ticket, queue = threading.Event(), self._polls if poll else self._asked
        begun = self._clock()
        with self._lock:
            queue.append(ticket)
        while not self._begins(ticket, queue, begun):
            ticket.wait(_LOOK_SECONDS)
            ticket.clear()
        try:
            yield
        finally:
            with self._lock:
                del self._running[ticket]
                self._call_next()

    def _begins(self, ticket: threading.Event, queue: deque[threading.Event], begun: float) -> bool:
        with self._lock:
            now = self._clock()
            counted = sum(now - since < LONG_SECONDS for since in self._running.values())
            is_due = counted < self._at_once and self._next() is ticket
            if not is_due and now - begun < PATIENCE_SECONDS:
                return False
            queue.remove(ticket)
            self._running[ticket] = now
            self._call_next()
            return True

    def _next(self) -> threading.Event | None:
        waiting = self._asked or self._polls
        return waiting[0] if waiting else None

    def _call_next(self) -> None:
        if (ticket := self._next()) is not None:
            ticket.set()


def install() -> None:
    """Have it so in all sessions that this process serves from now on."""
    turns, run = ScriptScheduler(), ScriptRunner._run_script

    def in_turn(self: ScriptRunner, rerun_data: RerunData) -> None:
        """A script that was told to stop while it waited does nothing: its session has another by now, and as it begins
        it would take from that one what it knows of widgets."""
        with turns.turn(poll=rerun_data.is_auto_rerun):
            if self._requests._state != ScriptRequestType.STOP:
                run(self, rerun_data)

    ScriptRunner._run_script = in_turn  # type: ignore[method-assign]

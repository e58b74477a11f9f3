"""Scheduling of session scripts, if more are requested than the server can run concurrently.

Streamlit (1.60) has a thread for each session, and all threads share one interpreter. If fifty users move a slider at
the same time, each script runs at a fiftieth of its speed, all finish late, and the event loop waits for each of them.
Here only a few scripts run concurrently, in the order of the requests, and user requests run before polls. The limit is
soft: a script that computes or waits for long does not block others, and a script that has waited long enough starts.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from streamlit.runtime.scriptrunner import ScriptRunner
from streamlit.runtime.scriptrunner_utils.script_requests import RerunData, ScriptRequestType

AT_ONCE = 2
"""Number of concurrent scripts: one computes while the other waits for the database."""
LONG_SECONDS = 1.0
"""Seconds after which a running script no longer counts towards the limit."""
PATIENCE_SECONDS = 5.0
"""Maximum waiting time in seconds; then a script starts regardless of the limit."""
_LOOK_SECONDS = 0.25
"""Seconds between two checks of a waiting script whether running ones have exceeded ``LONG_SECONDS``."""


class ScriptScheduler:
    """Queue of scripts with a limit of concurrent ones."""

    def __init__(self, at_once: int = AT_ONCE, clock: Callable[[], float] = time.monotonic) -> None:
        """Create a queue for ``at_once`` concurrent scripts; ``clock`` returns seconds."""
        self._at_once, self._clock, self._lock = at_once, clock, threading.Lock()
        self._running: dict[threading.Event, float] = {}
        self._asked: deque[threading.Event] = deque()
        self._polls: deque[threading.Event] = deque()

    @contextmanager
    def turn(self, *, poll: bool) -> Iterator[None]:
        """Wait for the turn of a script and run the context in it; ``poll`` marks a poll, not a user's request."""
        ticket, queue = threading.Event(), self._polls if poll else self._asked
        requested = self._clock()
        with self._lock:
            queue.append(ticket)
        while not self._try_start(ticket, queue, requested):
            ticket.wait(_LOOK_SECONDS)
            ticket.clear()
        try:
            yield
        finally:
            with self._lock:
                del self._running[ticket]
                self._call_next()

    def _try_start(self, ticket: threading.Event, queue: deque[threading.Event], requested: float) -> bool:
        with self._lock:
            now = self._clock()
            counted = sum(now - since < LONG_SECONDS for since in self._running.values())
            is_due = counted < self._at_once and self._next() is ticket
            if not is_due and now - requested < PATIENCE_SECONDS:
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
    """Patch Streamlit for all sessions that this process serves from now on."""
    scheduler, run = ScriptScheduler(), ScriptRunner._run_script

    def in_turn(self: ScriptRunner, rerun_data: RerunData) -> None:
        # A script that was stopped while it waited must not start: its session has a new script by now, and the
        # stopped one would consume the widget state of the new one.
        with scheduler.turn(poll=rerun_data.is_auto_rerun):
            if self._requests._state != ScriptRequestType.STOP:
                run(self, rerun_data)

    ScriptRunner._run_script = in_turn  # type: ignore[method-assign]

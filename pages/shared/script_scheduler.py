"""Scheduling of session scripts, if more are requested than the server can run concurrently.

Streamlit has a thread for each session, and all threads share one interpreter. If fifty users move a slider at the same
time, each script runs at a fiftieth of its speed, all finish late, and the event loop waits for each of them. Here only
a few scripts run concurrently, in the order of the requests, and user requests run before polls. The limit is soft: a
script that computes or waits for long does not block others, and a script that has waited long enough starts. If many
sessions poll, each polls less often.

``app.py`` and each :func:`polling_fragment` wait for their turn before they draw. A script that Streamlit stops while
it waits ends at its first element.
"""

import functools
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import ParamSpec

import streamlit as st

from pages.shared import session

_P = ParamSpec("_P")
AT_ONCE = 2
"""Number of concurrent scripts: one computes while the other waits for the database."""
LONG_SECONDS = 1.0
"""Seconds after which a running script no longer counts towards the limit."""
PATIENCE_SECONDS = 5.0
"""Maximum waiting time in seconds; then a script starts regardless of the limit."""
MOST_POLLS_A_SECOND = 10.0
"""Maximum number of polls per second of all sessions together: one poll takes a server some hundredths of a second."""
COUNTED_SECONDS = 10.0
"""Seconds in which polls are counted."""
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
        self._thread = threading.local()

    @contextmanager
    def turn(self, *, poll: bool) -> Iterator[bool]:
        """Wait for the turn of this thread's script and run the context in it.

        A fragment inside a script that has its turn does not wait again. Yields whether this is the script itself.

        Args:
            poll: Whether a poll requested the script, not a user.
        """
        if getattr(self._thread, "has_turn", False):
            yield False
            return
        ticket, queue = threading.Event(), self._polls if poll else self._asked
        requested = self._clock()
        with self._lock:
            queue.append(ticket)
        while not self._try_start(ticket, queue, requested):
            ticket.wait(_LOOK_SECONDS)
            ticket.clear()
        self._thread.has_turn = True
        try:
            yield True
        finally:
            self._thread.has_turn = False
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


class PollRate:
    """Limit of the polls of all sessions per second, shared equally."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Create a limit without polls; ``clock`` returns seconds."""
        self._clock, self._lock = clock, threading.Lock()
        self._polls: deque[tuple[float, float]] = deque()

    def record(self, interval: float) -> None:
        """Count a poll of a session that polls every ``interval`` seconds."""
        with self._lock:
            self._polls.append((self._clock(), interval))

    def interval(self, seconds: float) -> float:
        """Return the seconds between two polls of a session, at least ``seconds``.

        A session with an interval of i seconds polls ``COUNTED_SECONDS`` ÷ i times in this period. So the sum of the
        intervals of all polls in it, divided by the period, is the number of polling sessions.
        """
        with self._lock:
            while self._polls and self._clock() - self._polls[0][0] > COUNTED_SECONDS:
                self._polls.popleft()
            sessions = sum(interval for _, interval in self._polls) / COUNTED_SECONDS
        return max(seconds, sessions / MOST_POLLS_A_SECOND)


_SCHEDULER, _POLL_RATE = ScriptScheduler(), PollRate()
turn = _SCHEDULER.turn
"""Waits for the turn of a script among those of all sessions."""


def polling_fragment(function: Callable[_P, None], seconds: float | None) -> Callable[_P, None]:
    """Return a function as a fragment that reruns by itself, or only at user requests.

    Args:
        function: Draws the fragment.
        seconds: Seconds between two reruns, longer if many sessions poll; None for no reruns.
    """
    interval = None if seconds is None else _POLL_RATE.interval(seconds)

    @functools.wraps(function)
    def in_turn(*arguments: _P.args, **options: _P.kwargs) -> None:
        session.require_sign_in()
        with turn(poll=interval is not None) as is_poll:
            function(*arguments, **options)
        if is_poll and seconds is not None and interval is not None:
            _POLL_RATE.record(interval)
            if not interval / 3 <= _POLL_RATE.interval(seconds) <= 3 * interval:
                st.rerun()  # the whole page, which sets the interval; costs as much as five polls, so it is rare

    return st.fragment(in_turn, run_every=interval)

"""Throttling of auto-refresh, so that user interactions come first on a server with many sessions.

Every page with live content refreshes once every second or two. If more sessions poll than the server can serve, each
session is refreshed less often: its other polls are discarded.
"""

import threading
import time
from collections.abc import Callable

from streamlit.proto.ClientState_pb2 import ClientState
from streamlit.runtime.app_session import AppSession

MOST_A_SECOND = 10.0
"""Maximum number of polls per second of all sessions together: one poll takes a server some hundredths of a second."""
GONE_SECONDS = 10.0
"""Seconds without a poll after which a session no longer counts."""


class PollThrottle:
    """Rate limit of polls, shared equally by all polling sessions."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Create a limit without sessions; ``clock`` returns seconds."""
        self._clock, self._lock = clock, threading.Lock()
        self._asked: dict[str, float] = {}
        self._answered: dict[str, float] = {}

    def is_due(self, session: str) -> bool:
        """Return whether to serve the poll of this session that arrives now."""
        with self._lock:
            now = self._clock()
            self._asked[session] = now
            gone = [name for name, last in self._asked.items() if now - last > GONE_SECONDS]
            for name in gone:
                self._asked.pop(name)
                self._answered.pop(name, None)
            interval = len(self._asked) / MOST_A_SECOND
            if interval > 1 and now - self._answered.get(session, -interval) < interval:
                return False
            self._answered[session] = now
            return True


def install() -> None:
    """Patch Streamlit for all sessions that this process serves from now on."""
    throttle = PollThrottle()
    request_rerun = AppSession.request_rerun

    def throttled(self: AppSession, client_state: ClientState | None) -> None:
        is_poll = client_state is not None and client_state.is_auto_rerun
        if not is_poll or throttle.is_due(self.id):
            request_rerun(self, client_state)

    AppSession.request_rerun = throttled  # type: ignore[method-assign]

"""Throttling of auto-refresh, so that user interactions come first on a server with many sessions.

* Streamlit (1.60) merges two requests that wait for a session's script. If the first is for the whole script (a moved
  widget) and the second is a fragment's poll, Streamlit runs the fragment only. On a busy server, a moved slider then
  changed nothing. The whole script also draws the fragment, so such a poll is discarded.
* Every page with live content refreshes once every second or two. If more sessions poll than the server can serve, each
  session is refreshed less often: its other polls are discarded.
"""

import threading
import time
from collections.abc import Callable

from streamlit.proto.ClientState_pb2 import ClientState
from streamlit.runtime.app_session import AppSession
from streamlit.runtime.scriptrunner_utils.script_requests import RerunData, ScriptRequests, ScriptRequestType

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
    request_session_rerun, request_script_rerun = AppSession.request_rerun, ScriptRequests.request_rerun

    def throttled(self: AppSession, client_state: ClientState | None) -> None:
        is_poll = client_state is not None and client_state.is_auto_rerun
        if not is_poll or throttle.is_due(self.id):
            request_session_rerun(self, client_state)

    def keep_whole_script(self: ScriptRequests, new_data: RerunData) -> bool:
        whole_waits = self._state == ScriptRequestType.RERUN and not self._rerun_data.fragment_id_queue
        if whole_waits and new_data.fragment_id and new_data.is_auto_rerun:
            return True
        return request_script_rerun(self, new_data)

    AppSession.request_rerun = throttled  # type: ignore[method-assign]
    ScriptRequests.request_rerun = keep_whole_script  # type: ignore[method-assign]

"""Keeps what polls from standing in the way of what people ask for, on a server that many look at.

* Streamlit (1.60) makes one of two requests that wait for a session's script. Where the first is for the whole script,
  a widget that was moved, and the second for a fragment that polls, only the fragment is run: on a server that is busy
  a slider's move changed nothing. The whole script draws the fragment too, so such a poll is left out.
* Every page that shows something live asks for it again once a second or two, however many there are. Where more
  sessions poll than a server can draw for, each is drawn for more rarely: its other polls are left out.
"""

import threading
import time
from collections.abc import Callable

from streamlit.proto.ClientState_pb2 import ClientState
from streamlit.runtime.app_session import AppSession
from streamlit.runtime.scriptrunner_utils.script_requests import RerunData, ScriptRequests, ScriptRequestType

MOST_A_SECOND = 10.0
"""Polls of all sessions together that are answered: one takes a server some hundredths of a second."""
GONE_SECONDS = 10.0
"""A session that has not polled for so long looks no longer."""


class PollThrottle:
    """The sessions that poll. clock: seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._asked: dict[str, float] = {}
        self._answered: dict[str, float] = {}

    def is_due(self, session: str) -> bool:
        """Whether a poll of this session, which comes now, is answered: each is as often as the others."""
        with self._lock:
            now = self._clock()
            self._asked[session] = now
            gone = [each for each, at in self._asked.items() if now - at > GONE_SECONDS]
            for each in gone:
                self._asked.pop(each)
                self._answered.pop(each, None)
            between = len(self._asked) / MOST_A_SECOND
            if between > 1 and now - self._answered.get(session, -between) < between:
                return False
            self._answered[session] = now
            return True


def install() -> None:
    """Have it so in all sessions that this process serves from now on."""
    crowd, session_asks, script_is_asked = PollThrottle(), AppSession.request_rerun, ScriptRequests.request_rerun

    def asks(self: AppSession, client_state: ClientState | None) -> None:
        polls = client_state is not None and client_state.is_auto_rerun
        if not polls or crowd.is_due(self.id):
            session_asks(self, client_state)

    def is_asked(self: ScriptRequests, new_data: RerunData) -> bool:
        whole_waits = self._state == ScriptRequestType.RERUN and not self._rerun_data.fragment_id_queue
        if whole_waits and new_data.fragment_id and new_data.is_auto_rerun:
            return True
        return script_is_asked(self, new_data)

    AppSession.request_rerun = asks  # type: ignore[method-assign]
    ScriptRequests.request_rerun = is_asked  # type: ignore[method-assign]

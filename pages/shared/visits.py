"""Visits: the browsers that are connected to this server, and the user who is signed in on each.

Streamlit accepts connections and files from anyone, before anyone signs in. Each browser gets a random cookie with its
first page. The script of a page registers it once its user is signed in. What costs memory or disk space needs a
registered cookie; the number of other connections is limited.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache

from engine.settings import Settings

COOKIE = "epsilon-visit"
"""Name of the cookie."""
MOST_SIGNED_OUT = 64
"""Connections of users who are not signed in, on a dashboard with sign-in; each shows the sign-in page."""
MOST_SIGNED_IN = 40
"""Connections of one user; each open tab is one."""
MOST_LOCAL = 250
"""Connections of a dashboard without sign-in, which serves this machine only."""
PER_SECOND = 10
"""Connections of users who are not signed in that begin in a second, from one address; others wait."""
_LONGEST_WAIT = 10.0
"""Seconds for which a connection waits for its turn."""


@dataclass(eq=False)
class Connection:
    """A WebSocket.

    Attributes:
        visit: Cookie of the browser, or "".
        address: The address that it comes from, or that of a proxy.
        end: Closes it.
        ended: Whether it was closed to make room for another one.
    """

    visit: str
    address: str
    end: Callable[[], object]
    ended: bool = False


@dataclass(frozen=True)
class _Guest:
    name: str
    may_upload: bool
    until: float


@dataclass
class Visits:
    """Connected browsers and signed-in users; methods may be called from all threads.

    Args:
        sign_in: Whether users sign in.
        clock: Seconds that never decrease.
    """

    sign_in: bool
    clock: Callable[[], float] = time.monotonic
    _guests: dict[str, _Guest] = field(default_factory=dict)
    _open: list[Connection] = field(default_factory=list)  # the oldest first
    _next: dict[str, float] = field(default_factory=dict)  # when the next connection of an address may begin
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def admit(self, visit: str | None, name: str, *, may_upload: bool, seconds: float) -> None:
        """Register the user who is signed in on a browser, for these seconds."""
        if not visit:
            return
        with self._lock:
            now = self.clock()
            self._guests = {key: guest for key, guest in self._guests.items() if guest.until > now}
            self._guests[visit] = _Guest(name, may_upload, now + seconds)

    def expel(self, visit: str | None = None, *, name: str | None = None) -> None:
        """Forget the user of a browser, or a user on all browsers, after sign-out or without a role."""
        with self._lock:
            self._guests = {key: guest for key, guest in self._guests.items() if key != visit and guest.name != name}

    def user(self, visit: str) -> str | None:
        """Return the name of the user who is signed in on a browser, "" without sign-in, or None."""
        if not self.sign_in:
            return ""
        with self._lock:
            guest = self._guests.get(visit)
            return guest.name if guest and guest.until > self.clock() else None

    def may_upload(self, visit: str) -> bool:
        """Return whether a browser has a connection, and its user may upload files."""
        with self._lock:
            guest = self._guests.get(visit)
            allowed = not self.sign_in or (guest is not None and guest.may_upload and guest.until > self.clock())
            return allowed and self.is_open(visit)

    def is_open(self, visit: str) -> bool:
        """Return whether a browser has a connection."""
        with self._lock:
            return bool(visit) and any(each.visit == visit for each in self._open)

    def wait(self, visit: str, address: str) -> float | None:
        """Return the seconds until a connection may begin; None if too many others from its address wait."""
        with self._lock:
            if self.user(visit) is not None:
                return 0.0
            now = self.clock()
            self._next = {key: begin for key, begin in self._next.items() if begin > now}
            begin = self._next.get(address, now)
            if begin - now > _LONGEST_WAIT:
                return None
            self._next[address] = begin + 1 / PER_SECOND
            return begin - now

    def connect(self, visit: str, address: str, end: Callable[[], object]) -> Connection:
        """Register a connection, and end an older one if there are too many.

        Args:
            visit: Cookie of the browser, or "".
            address: The address that it comes from.
            end: Closes it; called at most once.
        """
        connection = Connection(visit, address, end)
        with self._lock:
            self._open.append(connection)
            name = self.user(visit)
            alike = [each for each in self._open if self.user(each.visit) == name]
            limit = MOST_SIGNED_OUT if name is None else MOST_SIGNED_IN if self.sign_in else MOST_LOCAL
            if len(alike) > limit:
                # The address with the most connections loses its oldest one: a flood displaces itself.
                ((busiest, _),) = Counter(each.address for each in alike).most_common(1)
                oldest = next(each for each in alike if each.address == busiest)
                self._open.remove(oldest)
                oldest.ended = True
                oldest.end()
        return connection

    def disconnect(self, connection: Connection) -> None:
        """Forget a connection that is closed."""
        with self._lock:
            if connection in self._open:
                self._open.remove(connection)


@cache
def of_this_server() -> Visits:
    """Return the visits of this process, which scripts of all sessions and the middleware share."""
    return Visits(sign_in=Settings.from_environment().access is not None)

"""A small web server for the poll: one page at an address of the local network, separate from the dashboard.

Any device in the network may send any request. Therefore:

* Tornado rejects long headers and bodies, and closes connections of slow senders.
* Each address has a rate limit and a limit on its connections.
* ``Host`` must be the server's own address, against DNS rebinding.
* An answer needs the token of the open round, which no other site can read, and must not have the ``Origin`` of another
  site, against CSRF.
* No frame can show the page, against clickjacking.
"""

import asyncio
import logging
import math
import re
import secrets
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable

from tornado.http1connection import HTTP1ServerConnection
from tornado.httpserver import HTTPServer
from tornado.iostream import IOStream
from tornado.netutil import bind_sockets
from tornado.web import Application, HTTPError, RequestHandler

from engine.errors import EpsilonError
from engine.lessons.poll import voter_page
from engine.lessons.poll.rate_limit import Buckets
from engine.lessons.poll.rounds import Poll, Refused

MOST_BYTES, MOST_HEADER_BYTES = 1000, 8000
"""Largest size of a request's body and of its headers, in bytes."""
SLOWEST = 5.0
"""Timeout for headers and for the body, in seconds."""
MOST_CONNECTIONS, MOST_OF_ONE = 300, 60
"""Largest number of open connections, from all addresses and from one."""
LOGGED_SECONDS = 60.0
"""Least seconds between two log messages on refused requests."""
LOOK_AGAIN = 6
"""Seconds after which a phone without a question to answer reloads the page."""

_log = logging.getLogger(__name__)
_COOKIE = re.compile(r"[A-Za-z0-9_-]{22}")
_SENTENCES = {
    403: "The request used another address than that of this page. Open the link of your teacher.",
    404: "This server has only one page: the class poll.",
    405: "This server has only one page: the class poll.",
    429: "Too many requests from this phone. Wait a moment, then try again.",
}


class PollServer:
    """The server of a poll, until it is closed.

    Args:
        poll: The poll.
        host: Address of this machine.
        port: Port; 0 selects a free one.

    Raises:
        EpsilonError: If the port is in use, or the address is not one of this machine.
    """

    def __init__(self, poll: Poll, host: str, port: int) -> None:
        try:
            self._sockets = bind_sockets(port, host)
        except OSError as error:
            raise EpsilonError(f"The poll cannot listen at {host}:{port}: {error.strerror or error}.") from error
        self.address = f"{host}:{self._sockets[0].getsockname()[1]}"
        self._poll = poll
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), name="poll", daemon=True)
        self._thread.start()
        self._ready.wait()

    @property
    def link(self) -> str:
        """Address that phones open."""
        return f"http://{self.address}/"

    def close(self) -> None:
        """Stop the server; on return the port is closed."""
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join()

    async def _serve(self) -> None:
        self._loop, self._ended = asyncio.get_running_loop(), asyncio.Event()
        refusals = Refusals()
        shared = {"poll": self._poll, "address": self.address, "buckets": Buckets(), "refusals": refusals}
        server = _Server(
            Application(
                [("/", _Handler, shared)],
                default_handler_class=_NotFound,
                default_handler_args=shared,
                log_function=_quiet,
            ),
            max_body_size=MOST_BYTES,
            max_header_size=MOST_HEADER_BYTES,
            max_buffer_size=MOST_BYTES + MOST_HEADER_BYTES,
            idle_connection_timeout=SLOWEST,
            body_timeout=SLOWEST,
        )
        server.refusals = refusals
        server.add_sockets(self._sockets)
        self._ready.set()
        await self._ended.wait()
        server.stop()
        await server.close_all_connections()


def _quiet(handler: RequestHandler) -> None:
    """Log nothing, since a log would contain the phones' addresses."""


class Refusals:
    """Log that the server refuses what exceeds its limits, without addresses, at most once in ``LOGGED_SECONDS``."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._logged_at, self._number = clock, -math.inf, 0

    def count(self) -> None:
        """Count a refused request or connection, and log the number of all so far."""
        self._number += 1
        if self._clock() - self._logged_at >= LOGGED_SECONDS:
            _log.warning("The class poll refused requests or connections above its limits, so far %d.", self._number)
            self._logged_at = self._clock()


class _Server(HTTPServer):
    """An HTTP server that limits open connections, in total and per address."""

    def initialize(self, *args: object, **more: object) -> None:
        super().initialize(*args, **more)  # type: ignore[arg-type]  # arguments are passed on
        self._open: Counter[str] = Counter()
        self._from: dict[IOStream, str] = {}
        self.refusals = Refusals()

    def handle_stream(self, stream: IOStream, address: tuple[str, int]) -> None:
        if len(self._from) >= MOST_CONNECTIONS or self._open[address[0]] >= MOST_OF_ONE:
            self.refusals.count()
            stream.close()
            return
        self._from[stream] = address[0]
        self._open[address[0]] += 1
        super().handle_stream(stream, address)

    def on_close(self, server_conn: object) -> None:
        if isinstance(server_conn, HTTP1ServerConnection) and server_conn.stream in self._from:
            address = self._from.pop(server_conn.stream)
            self._open[address] -= 1
            if not self._open[address]:
                del self._open[address]
        super().on_close(server_conn)


class _Handler(RequestHandler):
    """Handler of the page and of the answers from its form."""

    SUPPORTED_METHODS = ("GET", "HEAD", "POST")

    def initialize(self, poll: Poll, address: str, buckets: Buckets, refusals: Refusals) -> None:
        self._poll, self._address, self._buckets, self._refusals = poll, address, buckets, refusals

    def set_default_headers(self) -> None:
        self.clear_header("Server")
        self.set_header("Content-Security-Policy", voter_page.POLICY)
        self.set_header("X-Frame-Options", "DENY")
        self.set_header("X-Content-Type-Options", "nosniff")
        self.set_header("Referrer-Policy", "same-origin")  # with no-referrer a browser would send Origin: null
        self.set_header("Cross-Origin-Resource-Policy", "same-origin")
        self.set_header("Cache-Control", "no-store")

    def prepare(self) -> Awaitable[None] | None:
        if not self._buckets.allows(self.request.remote_ip or "", time.monotonic()):
            self._refusals.count()
            self.set_header("Retry-After", "1")
            raise HTTPError(429)
        if self.request.host != self._address:
            raise HTTPError(403)
        return None

    def get(self) -> None:
        phone = self._phone()
        if not phone:
            self.set_cookie("phone", secrets.token_urlsafe(16), httponly=True, samesite="Strict")
        current, value = self._poll.current(), self._poll.answered(phone)
        if current is None:
            self._show("No question is open. This page reloads automatically.", again=LOOK_AGAIN)
        elif value is None or self.get_query_argument("change", None) is not None:
            self._show("")
        else:
            message = f"{value:g}{current.question.unit} is counted."
            self._show(message, form=False, again=LOOK_AGAIN)

    head = get

    def post(self) -> None:
        if self.request.headers.get("Origin", f"http://{self._address}") != f"http://{self._address}":
            raise HTTPError(403)
        phone = self._phone()
        if not phone:
            self.set_status(400)
            self._show("Each phone counts once, by a cookie. Allow cookies, reload the page, and answer again.")
            return
        try:
            self._poll.answer(self.get_body_argument("round", ""), phone, self.get_body_argument("guess", ""))
        except Refused as refusal:
            self.set_status(422)
            self._show(str(refusal))
        else:
            self.redirect("/", status=303)

    def write_error(self, status_code: int, **_more: object) -> None:
        self.finish(
            voter_page.page(
                said=_SENTENCES.get(status_code, "The server cannot read this request."), asked=None, again=0
            )
        )

    def _phone(self) -> str:
        """Return the phone's cookie; empty without a cookie of this server's form."""
        cookie = self.get_cookie("phone", "") or ""
        return cookie if _COOKIE.fullmatch(cookie) else ""

    def _show(self, message: str, *, form: bool = True, again: int = 0) -> None:
        current = self._poll.current()
        question, token = (current.question, current.token) if current else (None, "")
        self.finish(voter_page.page(said=message, asked=question, token=token, form=form, again=again))


class _NotFound(_Handler):
    """Handler of all other addresses."""

    def get(self) -> None:
        raise HTTPError(404)

    head = post = get

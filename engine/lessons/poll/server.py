"""The poll's own small web server: one page, on an address of the local network, and nothing of the dashboard.

Whoever is in the network may send it anything. Headers and bodies are short or refused (Tornado), slow senders are cut
off, each address has a rate and a number of connections. The name in ``Host`` must be the server's own, so that no
other site's name can be made to lead here (DNS rebinding); an answer needs the open round's token, which no other site
can read, and no other site's ``Origin`` (CSRF); the page is shown in no frame (clickjacking).
"""

import asyncio
import re
import secrets
import threading
import time
from collections import Counter
from collections.abc import Awaitable

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
"""Of an answer's body, and of its headers."""
SLOWEST = 5.0
"""Seconds that headers may take, and that a body may take."""
MOST_CONNECTIONS, MOST_OF_ONE = 300, 60
"""Open at once, from all addresses and from one."""
LOOK_AGAIN = 6
"""Seconds after which a phone that has nothing to answer looks again."""

_COOKIE = re.compile(r"[A-Za-z0-9_-]{22}")
_SENTENCES = {
    403: "This page was asked for by another address than its own.",
    404: "There is nothing here but the question of the class.",
    405: "There is nothing here but the question of the class.",
    429: "Too many requests from this phone: wait a moment.",
}


class PollServer:
    """Serves a poll until it is closed. Raises EpsilonError where the port is taken or the address is not this
    machine's."""

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
        """What phones open."""
        return f"http://{self.address}/"

    def close(self) -> None:
        """End it; on return nothing listens any more."""
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join()

    async def _serve(self) -> None:
        self._loop, self._ended = asyncio.get_running_loop(), asyncio.Event()
        shared = {"poll": self._poll, "address": self.address, "buckets": Buckets()}
        server = _Server(
            Application(
                [("/", _Handler, shared)],
                default_handler_class=_Nothing,
                default_handler_args=shared,
                log_function=_quiet,
            ),
            max_body_size=MOST_BYTES,
            max_header_size=MOST_HEADER_BYTES,
            max_buffer_size=MOST_BYTES + MOST_HEADER_BYTES,
            idle_connection_timeout=SLOWEST,
            body_timeout=SLOWEST,
        )
        server.add_sockets(self._sockets)
        self._ready.set()
        await self._ended.wait()
        server.stop()
        await server.close_all_connections()


def _quiet(handler: RequestHandler) -> None:
    """No log: it would hold the phones' addresses."""


class _Server(HTTPServer):
    """Holds only so many connections open, and only so many of one address."""

    def initialize(self, *args: object, **more: object) -> None:
        super().initialize(*args, **more)  # type: ignore[arg-type]  # as they were handed in
        self._open: Counter[str] = Counter()
        self._from: dict[IOStream, str] = {}

    def handle_stream(self, stream: IOStream, address: tuple[str, int]) -> None:
        if len(self._from) >= MOST_CONNECTIONS or self._open[address[0]] >= MOST_OF_ONE:
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
    """The page, and the answers that come in by its form."""

    SUPPORTED_METHODS = ("GET", "HEAD", "POST")

    def initialize(self, poll: Poll, address: str, buckets: Buckets) -> None:
        self._poll, self._address, self._buckets = poll, address, buckets

    def set_default_headers(self) -> None:
        self.clear_header("Server")
        self.set_header("Content-Security-Policy", voter_page.POLICY)
        self.set_header("X-Frame-Options", "DENY")
        self.set_header("X-Content-Type-Options", "nosniff")
        self.set_header("Referrer-Policy", "same-origin")  # with none at all a browser would send Origin: null
        self.set_header("Cross-Origin-Resource-Policy", "same-origin")
        self.set_header("Cache-Control", "no-store")

    def prepare(self) -> Awaitable[None] | None:
        if not self._buckets.allows(self.request.remote_ip or "", time.monotonic()):
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
            self._show("No question is open. This page looks again by itself.", again=LOOK_AGAIN)
        elif value is None or self.get_query_argument("change", None) is not None:
            self._show("")
        else:
            said = f"{value:g}{current.question.unit} is counted."
            self._show(said, form=False, again=LOOK_AGAIN)

    head = get

    def post(self) -> None:
        if self.request.headers.get("Origin", f"http://{self._address}") != f"http://{self._address}":
            raise HTTPError(403)
        phone = self._phone()
        if not phone:
            self.set_status(400)
            self._show("A cookie lets each phone count once: allow it, open this page again, and answer then.")
            return
        try:
            self._poll.answer(self.get_body_argument("round", ""), phone, self.get_body_argument("guess", ""))
        except Refused as refusal:
            self.set_status(422)
            self._show(str(refusal))
        else:
            self.redirect("/", status=303)

    def write_error(self, status_code: int, **_more: object) -> None:
        self.finish(voter_page.page(said=_SENTENCES.get(status_code, "That cannot be read."), asked=None, again=0))

    def _phone(self) -> str:
        """The phone's cookie; empty where it has none that could be ours."""
        found = self.get_cookie("phone", "") or ""
        return found if _COOKIE.fullmatch(found) else ""

    def _show(self, said: str, *, form: bool = True, again: int = 0) -> None:
        current = self._poll.current()
        asked, token = (current.question, current.token) if current else (None, "")
        self.finish(voter_page.page(said=said, asked=asked, token=token, form=form, again=again))


class _Nothing(_Handler):
    """Every other address."""

    def get(self) -> None:
        raise HTTPError(404)

    head = post = get

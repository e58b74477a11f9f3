"""Refusal of requests under another name, and of WebSocket connections that pages of other sites open.

A page of another site can give its own name to this machine's address (DNS rebinding). Its requests then look as if
they came from a page of this server, under that name. So only the server's own names are served.

Streamlit compares an unknown origin with this machine's addresses. It asks another company's server for the external
address, and waits for the answer while no session is served. Where outgoing traffic is dropped, one such connection
would therefore stop all sessions for 20 s. This middleware refuses it before Streamlit sees it.
"""

from collections.abc import Collection
from urllib.parse import urlsplit

import streamlit as st
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocketClose

from engine.access import roles
from engine.settings import Settings

OPTIONS = ("browser.serverAddress", "server.address")
"""Streamlit's options that name the server."""
MISDIRECTED = 421
"""Status of a request under another name (RFC 9110, section 15.5.20)."""
POLICY_VIOLATION = 1008
"""Code of a WebSocket that is closed for its origin (RFC 6455, section 7.4.1)."""


def is_own(origin: str | None, host: str | None) -> bool:
    """Return whether a page with this origin may connect to this server.

    Args:
        origin: The header ``Origin``; programs other than browsers send none.
        host: The header ``Host``, the address that the browser connects to.
    """
    if origin is None:
        return True
    try:
        address = urlsplit(origin)
        # Behind a proxy that changes Host, operators name the public address.
        return address.netloc == host or address.hostname == st.get_option("browser.serverAddress")
    except ValueError:
        return False


def own_names() -> frozenset[str]:
    """Return the names of this server: those of the machine itself, and of the sign-in's address if users sign in."""
    access = Settings.from_environment().access
    public = {roles.read(access).host} if access else set()
    return frozenset({"localhost", "127.0.0.1", "::1", *map(str, map(st.get_option, OPTIONS)), *public})


def is_named(host: str | None, names: Collection[str]) -> bool:
    """Return whether a header ``Host`` has one of these names."""
    try:
        return urlsplit(f"//{host}").hostname in names if host else False
    except ValueError:
        return False


class OwnOrigin:
    """Middleware that refuses requests under other names, and closes WebSockets of pages from other sites."""

    def __init__(self, app: ASGIApp, names: Collection[str] | None = None) -> None:
        self._app = app
        self._names = own_names() if names is None else names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        # Programs that watch the server ask for its health by any address; the answer is only "ok".
        # Prometheus asks for metrics likewise, and must have the token then.
        named = is_named(headers.get("host"), self._names) or scope["path"].endswith("/_stcore/health")
        named = named or (scope["path"] == "/metrics" and "authorization" in headers)
        if scope["type"] == "websocket" and not (named and is_own(headers.get("origin"), headers.get("host"))):
            await WebSocketClose(POLICY_VIOLATION)(scope, receive, send)
        elif not named:
            text = "This server has another name: open it at its own address."
            await PlainTextResponse(text, MISDIRECTED)(scope, receive, send)
        else:
            await self._app(scope, receive, send)

"""Refusal of WebSocket connections that pages of other sites open.

Streamlit compares an unknown origin with this machine's addresses. It asks another company's server for the external
address, and waits for the answer while no session is served. Where outgoing traffic is dropped, one such connection
would therefore stop all sessions for 20 s. This middleware refuses it before Streamlit sees it.
"""

from urllib.parse import urlsplit

import streamlit as st
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocketClose

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


class OwnOrigin:
    """Middleware that closes WebSockets of pages from other sites."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        if scope["type"] == "websocket":
            headers = Headers(scope=scope)
            if not is_own(headers.get("origin"), headers.get("host")):
                await WebSocketClose(POLICY_VIOLATION)(scope, receive, send)
                return
        await self._app(scope, receive, send)

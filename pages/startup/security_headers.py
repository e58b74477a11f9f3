"""What a browser is told to forbid on every page: to load or send anything from or to another machine, to be shown in
somebody else's page, to take one kind of file for another.

``style-src`` allows what stands in a page, since Streamlit writes its look there as it draws; scripts have to come from
here, or be the ones of Streamlit's first page, which are known by their SHA-256. ``blob:`` is how Streamlit starts the
scripts of our own components, and plotly's parallel axes write the code by which they draw as they start
(``unsafe-eval``): what runs already may write more, what somebody smuggled in does not run.
"""

import base64
import hashlib
import re
from pathlib import Path

import streamlit
from starlette.datastructures import MutableHeaders
from starlette.middleware import Middleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from streamlit.web.server.starlette import starlette_app

_FIRST_PAGE = Path(streamlit.__file__).parent / "static" / "index.html"


def policy(first_page: str) -> str:
    """The content security policy for a first page of this text."""
    scripts = re.findall(r"<script>(.*?)</script>", first_page, re.DOTALL)
    known = [f"'sha256-{base64.b64encode(hashlib.sha256(each.encode()).digest()).decode()}'" for each in scripts]
    return "; ".join(
        (
            "default-src 'self'",
            " ".join(["script-src 'self' blob: 'unsafe-eval'", *known]),
            "style-src 'self' 'unsafe-inline'",
            "img-src 'self' data: blob:",
            "font-src 'self' data:",
            "connect-src 'self'",
            "object-src 'none'",
            "base-uri 'none'",
            "form-action 'self'",
            "frame-ancestors 'self'",
        )
    )


class Guard:
    """Adds the headers to every answer."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._headers = {
            "Content-Security-Policy": policy(_FIRST_PAGE.read_text(encoding="utf-8")),
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "same-origin",
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(self._headers)
            await send(message)

        await self._app(scope, receive, send_guarded)


def install() -> None:
    """Have every server that this process starts from now on guarded."""
    ours = starlette_app.create_streamlit_middleware

    def guarded() -> list[Middleware]:
        return [Middleware(Guard), *ours()]

    starlette_app.create_streamlit_middleware = guarded

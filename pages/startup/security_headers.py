"""Security headers of every response.

The browser must not load from or send to other servers, show the dashboard in another site's frame, or guess a file's
type. ``style-src`` allows inline styles, since Streamlit creates them while it renders. Scripts must come from this
server or be those of Streamlit's first page, which are identified by SHA-256. Streamlit starts the scripts of our
components from ``blob:`` addresses. Plotly's parallel axes generate their drawing code (``unsafe-eval``). So trusted
code can create more code, but an injected script does not run.
"""

import base64
import hashlib
import re
from pathlib import Path

import streamlit
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_FIRST_PAGE = Path(streamlit.__file__).parent / "static" / "index.html"


def policy(first_page: str) -> str:
    """Return the content security policy for a first page with this HTML."""
    scripts = re.findall(r"<script>(.*?)</script>", first_page, re.DOTALL)
    hashes = [f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'" for script in scripts]
    return "; ".join(
        (
            "default-src 'self'",
            " ".join(["script-src 'self' blob: 'unsafe-eval'", *hashes]),
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
    """Middleware that adds the headers to every response."""

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

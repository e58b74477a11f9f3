"""The endpoint ``/metrics`` for Prometheus. Streamlit's ``/_stcore/health`` reports whether the server responds."""

import hmac
from functools import lru_cache
from pathlib import Path
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from engine.errors import InvalidConfig
from engine.file_access import read_secret

LEAST_CHARACTERS = 16
"""Least length of a token."""


@lru_cache(maxsize=1)
def _application() -> Any:
    from engine.service import Application

    return Application.from_environment()


async def _answer(request: Request) -> Response:
    from engine.service import prometheus_metrics  # imported on first use: each import at start delays the first page

    settings = _application().settings
    with_token = "authorization" in request.headers  # then it must be the right one, also on this machine
    allowed = _has_token(request, settings.metrics_token) if with_token else _is_local(request)
    if (settings.access or with_token) and not allowed:
        return Response(
            "Forbidden: metrics name corpora. They can be read on the server itself, or with the token of "
            "EPSILON_METRICS_TOKEN_FILE.",
            403,
        )
    return Response(
        await run_in_threadpool(lambda: prometheus_metrics.text(_application())), media_type="text/plain; version=0.0.4"
    )


def _is_local(request: Request) -> bool:
    """Return whether the request comes from this machine, not through a proxy."""
    forwarded = any(name.startswith("x-forwarded") or name == "forwarded" for name in request.headers)
    return not forwarded and request.client is not None and request.client.host in ("127.0.0.1", "::1")


def _has_token(request: Request, file: Path | None) -> bool:
    """Return whether a request has the operator's token.

    A file that is missing, too short, or readable by other users has none.
    """
    try:
        expected = read_secret("EPSILON_METRICS_TOKEN_FILE", file) if file else ""
    except InvalidConfig:
        return False
    given = request.headers.get("authorization", "").removeprefix("Bearer ")
    return len(expected) >= LEAST_CHARACTERS and hmac.compare_digest(given.encode(), expected.encode())


ROUTE = Route("/metrics", _answer, methods=["GET"])
"""The endpoint, a route of the server."""

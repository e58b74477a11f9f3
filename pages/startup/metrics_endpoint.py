"""The endpoint ``/metrics`` for Prometheus. Streamlit's ``/_stcore/health`` reports whether the server responds."""

from functools import lru_cache
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route


@lru_cache(maxsize=1)
def _application() -> Any:
    from engine.service import Application

    return Application.from_environment()


async def _answer(request: Request) -> Response:
    from engine.service import prometheus_metrics  # imported on first use: each import at start delays the first page

    if _application().settings.access and not _is_local(request):
        return Response("Forbidden: metrics name corpora, so they can only be read on the server itself.", 403)
    return Response(
        await run_in_threadpool(lambda: prometheus_metrics.text(_application())), media_type="text/plain; version=0.0.4"
    )


def _is_local(request: Request) -> bool:
    """Return whether the request comes from this machine, not through a proxy."""
    forwarded = any(name.startswith("x-forwarded") or name == "forwarded" for name in request.headers)
    return not forwarded and request.client is not None and request.client.host in ("127.0.0.1", "::1")


ROUTE = Route("/metrics", _answer, methods=["GET"])
"""The endpoint, a route of the server."""

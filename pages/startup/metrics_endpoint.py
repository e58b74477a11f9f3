"""``/metrics``: how the program is, for a Prometheus that watches it. ``/_stcore/health``, which Streamlit has, says
whether the server answers."""

from functools import lru_cache
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from streamlit.runtime import Runtime
from streamlit.web.server.starlette import starlette_app


@lru_cache(maxsize=1)
def _runs() -> Any:
    from engine.service import Application

    return Application.from_environment()


async def _answer(request: Request) -> Response:
    from engine.service import prometheus_metrics  # not before somebody asks: every import holds up the first page

    if _runs().settings.access and not _from_here(request):
        return Response("Ask on the machine itself: this names corpora.", 403)
    return Response(
        await run_in_threadpool(lambda: prometheus_metrics.text(_runs())), media_type="text/plain; version=0.0.4"
    )


def _from_here(request: Request) -> bool:
    """Whether it was asked on this machine, and not handed on by a proxy."""
    handed_on = any(name.startswith("x-forwarded") or name == "forwarded" for name in request.headers)
    return not handed_on and request.client is not None and request.client.host in ("127.0.0.1", "::1")


def install() -> None:
    """Have every server that this process starts from now on answer there."""
    ours = starlette_app.create_streamlit_routes

    def watched(runtime: Runtime) -> list[BaseRoute]:
        return [Route("/metrics", _answer, methods=["GET"]), *ours(runtime)]

    starlette_app.create_streamlit_routes = watched

"""Loads in the background of a new server what the first visitor of each page would have to wait for.

Many users may arrive at once, for example a class. One interpreter serves them all, so everybody would wait while the
modules of a page are imported for the first of them.
"""

import importlib
import pkgutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial

import pages
from engine.errors import EpsilonError
from pages.shared import session
from pages.shared.script_scheduler import turn

AFTER_SECONDS = 20.0
"""Seconds after the start of the server until the warm-up begins: it takes ten seconds of one core, and must not delay
the first page."""
_SCRIPT = "page"
"""Name of the module of each page that Streamlit runs as a script."""


def start() -> None:
    """Start the warm-up in a thread of its own."""
    threading.Thread(target=_warm_up, daemon=True, name="warm-up").start()


def _warm_up() -> None:
    time.sleep(AFTER_SECONDS)
    with suppress(EpsilonError):  # pages show errors of the store
        for step in steps():
            with turn(poll=True):  # users come first
                step()


def steps() -> Iterator[Callable[[], object]]:
    """Yield the steps: read all published runs, import all modules, and compute what two pages first show."""
    app = session.server_application()
    yield app.queries.overview
    for module in pkgutil.walk_packages(pages.__path__, f"{pages.__name__}."):
        if module.name.rsplit(".", 1)[-1] != _SCRIPT and not module.name.startswith("pages.startup."):
            yield partial(importlib.import_module, module.name)
    from engine.privacy import assumptions
    from engine.service import report_evidence
    from pages.assumptions import controls
    from pages.report import render

    yield partial(assumptions.rows, controls.USUAL)
    if run := app.queries.find(render.USUAL):
        yield partial(report_evidence.evidence, app, run.run_id)

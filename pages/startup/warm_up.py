"""Loads in the background of a new server what the first visitor of each page would have to wait for.

Many users may arrive at once, for example a class. One interpreter serves them all, so everybody would wait while the
modules of a page are imported for the first of them.
"""

import gc
import importlib
import pkgutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial

import pages

AFTER_SECONDS = 20.0
"""Seconds after the start of the server until the warm-up begins: it takes ten to twenty seconds of one core, and must
not delay the first page."""
_SCRIPT = "page"
"""Name of the module of each page that Streamlit runs as a script."""


def start() -> None:
    """Start the warm-up in a thread of its own."""
    threading.Thread(target=_warm_up, daemon=True, name="warm-up").start()


def _warm_up() -> None:
    time.sleep(AFTER_SECONDS)
    # Imported here, so that the server answers a quarter of a second earlier.
    from engine import memory
    from engine.errors import EpsilonError
    from pages.shared.script_scheduler import turn

    for step in steps():
        with turn(poll=True), suppress(EpsilonError):  # users come first, and pages show errors of the store
            step()
    gc.collect()
    gc.freeze()  # objects loaded so far stay, so the garbage collector need not scan them
    memory.return_freed()


def steps() -> Iterator[Callable[[], object]]:
    """Yield the steps: read all published runs, import all modules, and compute what two pages first show."""
    from pages.shared import session

    yield lambda: session.server_application().queries.overview()
    for module in pkgutil.walk_packages(pages.__path__, f"{pages.__name__}."):
        if module.name.rsplit(".", 1)[-1] != _SCRIPT and not module.name.startswith("pages.startup."):
            yield partial(importlib.import_module, module.name)
    yield _show_assumptions
    yield _show_report


def _show_assumptions() -> None:
    from engine.privacy import assumptions
    from pages.assumptions import controls

    assumptions.rows(controls.USUAL)


def _show_report() -> None:
    from engine.service import report_evidence
    from pages.report import render
    from pages.shared import session

    app = session.server_application()
    if run := app.queries.find(render.USUAL):
        report_evidence.evidence(app, run.run_id)

"""Loads in the background of a new server what the first visitor of each page would have to wait for.

Many users may arrive at once, for example a class. One interpreter serves them all, so everybody would wait while the
modules of a page are imported for the first of them.
"""

import gc
import importlib
import logging
import pkgutil
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial

import pages

AFTER_SECONDS = 20.0
"""Seconds after the start of the server until the warm-up begins: it takes ten to twenty seconds of one core, and must
not delay the first page."""
_SCRIPT = "page"
"""Name of the module of each page that Streamlit runs as a script."""
_LOG = logging.getLogger(__name__)


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
        with turn(poll=True):  # users come first
            try:
                step()
            except EpsilonError:
                pass  # pages show it
            except Exception:
                _LOG.exception("A step of the warm-up failed; the page that needs it computes it at its first visit.")
    gc.collect()
    gc.freeze()  # objects loaded so far stay, so the garbage collector need not scan them
    memory.return_freed()


def steps() -> Iterator[Callable[[], object]]:
    """Yield the steps: read all published runs, import all modules, and compute what some pages first show."""
    from pages.shared import session

    yield lambda: session.server_application().queries.overview()
    for module in pkgutil.walk_packages(pages.__path__, f"{pages.__name__}."):
        if module.name.rsplit(".", 1)[-1] != _SCRIPT and not module.name.startswith("pages.startup."):
            yield partial(importlib.import_module, module.name)
    yield _show_assumptions
    yield _show_report
    yield _show_explore
    yield _show_medical
    yield _show_audit
    yield _show_try_it


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


def _show_explore() -> None:
    from engine.config import SimulationConfig
    from pages.shared import session

    config, app = SimulationConfig(), session.server_application()
    app.previews.preview(config)
    app.previews.longest_document(config.corpus)


def _show_medical() -> None:
    from engine.config import JOIN
    from engine.experiments.papers import fedner_2020
    from pages.medical import live
    from pages.shared import session

    app = session.server_application()
    silos = live.first_silos([info.name for info in app.corpora.all() if info.available])
    if len(silos) > 1:
        app.corpora.shared_sentences(JOIN.join(map(fedner_2020.corpus_of, silos)))


def _show_audit() -> None:
    from pages.audit import groups, sentences
    from pages.shared import session

    app = session.server_application()
    for first in groups.groups(app.audits.all())[:1]:
        if first.membership:
            sentences.texts(app, first.config.corpus, first.membership)


def _show_try_it() -> None:
    from pages.shared import session
    from pages.try_it import text_input

    text_input.tag_first_example(session.server_application())  # in a process of its own, which takes seconds to start

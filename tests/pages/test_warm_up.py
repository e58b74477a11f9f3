"""The warm-up of a new server, which must load what the first visit of a page needs."""

from functools import partial

import pytest

from engine.errors import StoreError
from engine.privacy.assumptions import evaluation
from engine.service import Application
from pages.report.render import USUAL
from pages.shared import session
from pages.startup import warm_up
from tests.modules import FILES


@pytest.fixture
def app(with_published, monkeypatch):
    """Return the application of a server with the published runs."""
    app = Application(with_published)
    monkeypatch.setattr(session, "server_application", lambda: app)
    yield app
    app.close()


def test_warm_up_imports_all_modules_but_scripts():
    imported = {step.args[0] for step in warm_up.steps() if isinstance(step, partial)}
    of_pages = {name for name in FILES if name.startswith("pages.") and not name.startswith("pages.startup")}
    scripts = {name for name in of_pages if name.endswith(".page")}
    assert "pages.medical.page" in scripts
    assert of_pages - scripts <= imported
    assert not imported & scripts


def test_first_assumptions_and_report_need_no_further_accounting(app, open_page, with_published):
    evaluation._epsilon.cache_clear()
    *_, assumptions, report = warm_up.steps()
    assumptions()
    before = evaluation._epsilon.cache_info().misses
    assert before > 10
    open_page("assumptions", with_published)
    assert evaluation._epsilon.cache_info().misses == before
    report()
    before = evaluation._epsilon.cache_info().misses
    page = open_page("report", with_published)
    assert page.query_params["run"] == app.queries.find(USUAL).run_id
    assert evaluation._epsilon.cache_info().misses == before


def test_error_of_the_store_does_not_end_the_warm_up(monkeypatch):
    done = []

    def fail():
        raise StoreError("not ready")

    monkeypatch.setattr(warm_up, "AFTER_SECONDS", 0.0)
    monkeypatch.setattr(warm_up, "steps", lambda: iter((fail, lambda: done.append(1))))
    monkeypatch.setattr(warm_up.gc, "freeze", lambda: done.append(2))
    warm_up._warm_up()
    assert done == [1, 2]

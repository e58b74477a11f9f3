"""The warm-up of a new server, which must load what the first visit of a page needs."""

import importlib
from functools import partial

import pytest

from engine.privacy import assumptions
from engine.privacy.assumptions import evaluation
from engine.service import Application
from pages.assumptions import controls
from pages.report.render import USUAL
from pages.shared import session
from pages.startup import warm_up
from tests.modules import FILES


@pytest.fixture
def steps(with_published, monkeypatch):
    """Return the steps of a server with the published runs, and the application."""
    app = Application(with_published)
    monkeypatch.setattr(session, "server_application", lambda: app)
    yield [*warm_up.steps()], app
    app.close()


def test_warm_up_imports_all_modules_but_scripts(steps):
    imported = {step.args[0] for step in steps[0] if getattr(step, "func", None) is importlib.import_module}
    of_pages = {name for name in FILES if name.startswith("pages.") and not name.startswith("pages.startup")}
    scripts = {name for name in of_pages if name.endswith(".page")}
    assert "pages.medical.page" in scripts
    assert of_pages - scripts <= imported
    assert not imported & scripts


def test_first_assumptions_and_report_need_no_further_accounting(steps, open_page, with_published):
    *_, rows, evidence = steps[0]
    rows()
    before = evaluation._epsilon.cache_info().misses
    assumptions.rows(controls.USUAL)
    assert evaluation._epsilon.cache_info().misses == before
    assert isinstance(evidence, partial)
    assert evidence.args == (steps[1], steps[1].queries.find(USUAL).run_id)
    page = open_page("assumptions", with_published)
    assert evaluation._epsilon.cache_info().misses == before
    assert [each.value for each in page.number_input][:2] == [controls.USUAL.examples, controls.USUAL.batch_size]

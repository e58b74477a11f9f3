"""The warm-up of a new server, which must load what the first visit of a page needs."""

from dataclasses import replace
from functools import partial

import pytest
import streamlit as st

from engine.corpus.handle import CorpusHandle
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


@pytest.fixture
def with_real_corpora(with_published, data_dir, monkeypatch):
    """Return settings with the published runs and the real corpora, for the server's application too."""
    settings = replace(with_published, data_dir=data_dir)
    app = Application(settings)
    monkeypatch.setattr(session, "server_application", lambda: app)
    st.cache_data.clear()
    yield settings
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
    warm_up._show_assumptions()
    before = evaluation._epsilon.cache_info().misses
    assert before > 10
    open_page("assumptions", with_published)
    assert evaluation._epsilon.cache_info().misses == before
    warm_up._show_report()
    before = evaluation._epsilon.cache_info().misses
    page = open_page("report", with_published)
    assert page.query_params["run"] == app.queries.find(USUAL).run_id
    assert evaluation._epsilon.cache_info().misses == before


@pytest.fixture
def reads(monkeypatch) -> list[str]:
    """Return the names of the corpora that are read from now on."""
    load, names = CorpusHandle.load, []
    monkeypatch.setattr(CorpusHandle, "load", lambda handle: names.append(handle.name) or load(handle))
    return names


def test_documents_of_the_first_corpus_are_known_before_the_first_visit(app, reads):
    warm_up._show_explore()
    assert reads == ["synthetic"]
    app.previews.longest_document("synthetic")
    assert reads == ["synthetic"]


@pytest.mark.parametrize(("page", "step"), [("medical", warm_up._show_medical), ("audit", warm_up._show_audit)])
def test_first_visit_reads_no_corpus_again(page, step, with_real_corpora, open_page, reads):
    step()
    assert reads
    reads.clear()
    open_page(page, with_real_corpora)
    assert reads == []


def test_all_computations_are_steps():
    steps = {step for step in warm_up.steps() if not isinstance(step, partial)}
    computations = {each for name, each in vars(warm_up).items() if name.startswith("_show_")}
    assert len(computations) == 6
    assert computations < steps


def test_unexpected_error_does_not_end_the_warm_up(monkeypatch, caplog):
    done = []
    monkeypatch.setattr(warm_up, "AFTER_SECONDS", 0.0)
    monkeypatch.setattr(warm_up, "steps", lambda: iter((lambda: dict[str, int]()["missing"], lambda: done.append(1))))
    monkeypatch.setattr(warm_up.gc, "freeze", lambda: None)
    warm_up._warm_up()
    assert done == [1]
    assert "KeyError: 'missing'" in caplog.text


def test_error_of_the_store_does_not_end_the_warm_up(monkeypatch):
    done = []

    def fail():
        raise StoreError("not ready")

    monkeypatch.setattr(warm_up, "AFTER_SECONDS", 0.0)
    monkeypatch.setattr(warm_up, "steps", lambda: iter((fail, lambda: done.append(1))))
    monkeypatch.setattr(warm_up.gc, "freeze", lambda: done.append(2))
    warm_up._warm_up()
    assert done == [1, 2]

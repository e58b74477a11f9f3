"""A new server reads the published runs at the first page that needs them, and says so."""

import pytest
import streamlit as st

from engine.service import Application
from engine.store import published
from tests.engine.factories import SMALL
from tests.pages.test_every_page import PAGES

WITHOUT_RUNS = {"account", "assumptions", "budget", "claim", "glossary", "home", "learn", "speed"}
READING = "Reading the published runs …"


@pytest.fixture
def spinners(monkeypatch) -> list[str]:
    """Return the texts of all spinners on the pages of a new server."""
    texts, spinner = [], st.spinner
    monkeypatch.setattr(published, "_listings", {})
    monkeypatch.setattr(st, "spinner", lambda text, **more: texts.append(text) or spinner(text, **more))
    return texts


@pytest.mark.parametrize("page", PAGES)
def test_only_pages_with_runs_wait_for_them(page, open_page, open_as, with_published, spinners):
    if page == "account":
        open_as("ada", page)
    else:
        open_page(page, with_published)
    assert spinners.count(READING) == (page not in WITHOUT_RUNS)
    assert bool(published._listings) == (page not in WITHOUT_RUNS)


def test_second_visit_shows_no_spinner(open_page, with_published, spinners):
    open_page("runs", with_published)
    open_page("explore", with_published)
    assert spinners.count(READING) == 1


def test_assumptions_of_a_run_wait_for_it(open_page, with_published, spinners):
    page = open_page("assumptions", with_published, run="0" * 16)
    assert page.error
    assert spinners.count(READING) == 1


def test_runs_count_as_read_once_a_query_has_read_them(with_published, monkeypatch):
    monkeypatch.setattr(published, "_listings", {})
    app = Application(with_published)
    assert not app.queries.has_read_published
    app.queries.find(SMALL)
    assert app.queries.has_read_published
    app.close()

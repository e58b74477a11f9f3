"""What tests of pages share: the app without a browser."""

import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from benchmarks.many_runs import opened_with
from engine.config import SimulationConfig, run_id
from engine.service import Application
from engine.settings import REPOSITORY, Settings
from engine.store import published
from pages.shared import session
from tests.engine.access.test_roles import text
from tests.engine.factories import check

st_navigation = st.navigation
_CHECK = check()


@pytest.fixture(autouse=True)
def main_stays(monkeypatch):
    """Streamlit puts a module of its own there, with which processes that are spawned later would begin."""
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])


@pytest.fixture
def older(trained_settings, tmp_path):
    """A home where the default run is published, as engine 5 left it, and nothing else."""
    known = Application(replace(trained_settings, published=REPOSITORY / "cached_results"))
    run = next(each for each in known.queries.published() if each.config == SimulationConfig())
    known.close()
    made = replace(run.provenance, engine_version="5")
    old = {name: getattr(_CHECK, name) for name in ("layers", "least_visits", "shape_distance", "looks")}
    records = tuple(replace(each, noise_check=replace(each.noise_check, **old)) for each in run.records)
    identity = run_id(run.config, made.corpus_checksum, "5")
    published.write(replace(run, run_id=identity, provenance=made, records=records), tmp_path / "published")
    return replace(trained_settings, published=tmp_path / "published")


@pytest.fixture
def with_published(settings: Settings) -> Settings:
    """``settings`` with the results that the repository publishes."""
    return replace(settings, published=REPOSITORY / "cached_results")


@pytest.fixture
def offered() -> list[str]:
    """Folders of the pages that the navigation offered at the last opening; one that has two addresses comes twice."""
    return []


@pytest.fixture
def open_page(settings, monkeypatch, offered):
    """Opens a page by its name, with a home of its own or with other settings; ``fields`` stand in the address."""

    def open_at(page: str = "explore", here: Settings = settings, **fields: str) -> AppTest:
        def navigation(pages: Mapping[str, Any], **more: Any) -> Any:
            offered[:] = [each._page.parent.name for group in pages.values() for each in group]
            return opened_with(st_navigation, page, pages, **more)

        monkeypatch.setattr(Settings, "from_environment", classmethod(lambda cls: here))
        st.cache_resource.clear()
        monkeypatch.setattr(st, "navigation", navigation)
        test = AppTest.from_file(str(REPOSITORY / "app.py"), default_timeout=600)
        for name, value in fields.items():
            test.query_params[name] = value
        test.run()
        assert not test.exception
        return test

    monkeypatch.setattr(session, "_warm_up_in_background", lambda opened: None)
    yield open_at
    st.cache_resource.clear()


@pytest.fixture
def shared(settings: Settings, tmp_path: Path) -> Settings:
    """A dashboard that people sign in to: ada administers it, rita and rudi run, everybody else looks."""
    file = tmp_path / "access.toml"
    roles = 'admin = ["ada@example.org"]\nrunner = ["rita@example.org", "rudi@example.org"]\nviewer = ["*"]'
    file.write_text(text(roles, "[limits]\nruns = 3"))
    file.chmod(0o600)
    return replace(settings, access=file)


@pytest.fixture
def open_as(open_page, shared: Settings, monkeypatch: pytest.MonkeyPatch) -> Callable[..., AppTest]:
    """Opens a page for somebody who has signed in just now."""

    def open_at(name: str, page: str, **claims: object) -> AppTest:
        said = {"is_logged_in": True, "iat": time.time(), "email": f"{name}@example.org", "email_verified": True}
        monkeypatch.setattr(session, "claims", lambda: said | claims)
        return open_page(page, shared)

    return open_at

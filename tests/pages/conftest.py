"""Fixtures of page tests, which run the app without a browser."""

import functools
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import streamlit as st
from streamlit.components.v2 import manifest_scanner
from streamlit.testing.v1 import AppTest, local_script_runner

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


@pytest.fixture(scope="session", autouse=True)
def fast_app_tests():
    """Search the installed packages for components once, and wait for a script without polling it.

    AppTest searches in each test, and asks a thousand times a second whether the script has ended. Each question makes
    the script wait.
    """
    wait = local_script_runner.require_widgets_deltas

    def join_first(runner: local_script_runner.LocalScriptRunner, timeout: float) -> None:
        script = runner._script_thread
        assert script is not None
        script.join(timeout)
        wait(runner, 0.1)

    with pytest.MonkeyPatch.context() as patch:
        scan = manifest_scanner.scan_component_manifests
        patch.setattr(manifest_scanner, "scan_component_manifests", functools.cache(scan))
        patch.setattr(local_script_runner, "require_widgets_deltas", join_first)
        yield


@pytest.fixture(autouse=True)
def restore_main_module(monkeypatch):
    """Restore ``__main__``, which Streamlit replaces; spawned processes would import its module."""
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])


@pytest.fixture
def engine_5_settings(trained_settings, tmp_path):
    """Return settings where the default run is published as computed by engine 5, and nothing else."""
    app = Application(replace(trained_settings, published=REPOSITORY / "cached_results"))
    run = next(run for run in app.queries.published() if run.config == SimulationConfig())
    app.close()
    provenance = replace(run.provenance, engine_version="5")
    old = {name: getattr(_CHECK, name) for name in ("layers", "least_visits", "shape_distance", "looks")}
    records = tuple(replace(record, noise_check=replace(record.noise_check, **old)) for record in run.records)
    identity = run_id(run.config, provenance.corpus_checksum, "5")
    published.write(replace(run, run_id=identity, provenance=provenance, records=records), tmp_path / "published")
    return replace(trained_settings, published=tmp_path / "published")


@pytest.fixture
def navigation_folders() -> list[str]:
    """Return the folders of all pages in the last navigation; a page with two addresses is there twice."""
    return []


@pytest.fixture
def open_page(settings, monkeypatch, navigation_folders):
    """Return a function that opens a page by its name, with these or other settings and with fields of the address."""

    def open_at(page: str = "explore", settings: Settings = settings, **fields: str) -> AppTest:
        def navigation(pages: Mapping[str, Any], **more: Any) -> Any:
            navigation_folders[:] = [entry._page.parent.name for group in pages.values() for entry in group]
            return opened_with(st_navigation, page, pages, **more)

        monkeypatch.setattr(Settings, "from_environment", classmethod(lambda cls: settings))
        st.cache_resource.clear()
        monkeypatch.setattr(st, "navigation", navigation)
        test = AppTest.from_file(str(REPOSITORY / "app.py"), default_timeout=600)
        for name, value in fields.items():
            test.query_params[name] = value
        test.run()
        assert not test.exception
        return test

    monkeypatch.setattr(session, "_warm_up_in_background", lambda opened: None)
    monkeypatch.setattr(type(st.context), "cookies", {})  # those of AppTest seem to have every name
    yield open_at
    st.cache_resource.clear()


@pytest.fixture
def shared_settings(settings: Settings, tmp_path: Path) -> Settings:
    """Return settings with sign-in: ada is an admin, rita and rudi are runners, other users are viewers."""
    file = tmp_path / "access.toml"
    roles = 'admin = ["ada@example.org"]\nrunner = ["rita@example.org", "rudi@example.org"]\nviewer = ["*"]'
    file.write_text(text(roles, "[limits]\nruns = 3"))
    file.chmod(0o600)
    return replace(settings, access=file)


@pytest.fixture
def open_as(open_page, shared_settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Callable[..., AppTest]:
    """Return a function that opens a page for a user who has just signed in."""

    def open_at(name: str, page: str, **claims: object) -> AppTest:
        standard_claims = {
            "is_logged_in": True,
            "iat": time.time(),
            "email": f"{name}@example.org",
            "email_verified": True,
        }
        monkeypatch.setattr(session, "claims", lambda: standard_claims | claims)
        return open_page(page, shared_settings)

    return open_at

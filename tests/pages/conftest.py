"""What tests of pages share: the app without a browser."""

import functools
import sys
from dataclasses import replace

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from benchmarks.many_runs import opened_with
from engine.config import SimulationConfig, run_id
from engine.runs import Runs
from engine.settings import REPOSITORY, Settings
from engine.store import published
from pages.shared import door
from tests.engine.runs_for_tests import check

st_navigation = st.navigation
_CHECK = check()


@pytest.fixture(autouse=True)
def main_stays(monkeypatch):
    """Streamlit puts a module of its own there, with which processes that are spawned later would begin."""
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])


@pytest.fixture
def older(trained_settings, tmp_path):
    """A home where the default run is published, as engine 5 left it, and nothing else."""
    known = Runs(replace(trained_settings, published=REPOSITORY / "cached_results"))
    run = next(each for each in known.published() if each.config == SimulationConfig())
    known.close()
    made = replace(run.provenance, engine_version="5")
    old = {name: getattr(_CHECK, name) for name in ("layers", "least_visits", "shape_distance", "looks")}
    records = tuple(replace(each, noise_check=replace(each.noise_check, **old)) for each in run.records)
    identity = run_id(run.config, made.corpus_checksum, "5")
    published.write(replace(run, run_id=identity, provenance=made, records=records), tmp_path / "published")
    return replace(trained_settings, published=tmp_path / "published")


@pytest.fixture
def open_page(settings, monkeypatch):
    """Opens a page by its name, with a home of its own or with other settings; ``fields`` stand in the address."""

    def open_at(page: str = "explore", here: Settings = settings, **fields: str) -> AppTest:
        monkeypatch.setattr(Settings, "from_environment", classmethod(lambda cls: here))
        st.cache_resource.clear()
        monkeypatch.setattr(st, "navigation", functools.partial(opened_with, st_navigation, page))
        test = AppTest.from_file(str(REPOSITORY / "app.py"), default_timeout=600)
        for name, value in fields.items():
            test.query_params[name] = value
        test.run()
        assert not test.exception
        return test

    monkeypatch.setattr(door, "_behind_the_scenes", lambda opened: None)
    yield open_at
    st.cache_resource.clear()

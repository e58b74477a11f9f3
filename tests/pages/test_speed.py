"""The Speed page, run without a browser."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from engine.settings import Settings
from pages.shared import door

APP = str(Path(__file__).resolve().parents[2] / "app.py")


@pytest.fixture
def page(settings, monkeypatch):
    """Opens the page with a folder of published results."""

    def open_with(published: Path) -> AppTest:
        here = replace(settings, published=published)
        monkeypatch.setattr(Settings, "from_environment", classmethod(lambda cls: here))
        st.cache_resource.clear()
        test = AppTest.from_file(APP, default_timeout=60).switch_page("pages/speed.py").run()
        assert not test.exception
        return test

    monkeypatch.setattr(door, "_behind_the_scenes", lambda opened: None)
    yield open_with
    st.cache_resource.clear()


def said(elements) -> str:
    return "\n".join(element.value for element in elements).replace("\\", "")


def test_what_was_measured_is_shown_with_its_command(page):
    test = page(Settings.from_environment().published)
    assert "A private training step costs" in said(test.markdown)
    assert len(test.metric) == 4
    for name in ("step", "whole_run", "growth", "workers"):
        assert f"python -m benchmarks.{name} --save" in said(test.caption)
    assert not test.info
    assert not test.warning


def test_what_was_not_measured_says_how_to(page, tmp_path):
    test = page(tmp_path)
    assert "run `python -m benchmarks.step --save`" in said(test.info)
    assert len(test.info) == 4


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"created": 1}', "[" * 100_000])
def test_a_broken_file_counts_as_not_measured(page, tmp_path, content):
    (tmp_path / "speed").mkdir()
    (tmp_path / "speed" / "step.json").write_text(content)
    assert len(page(tmp_path).info) == 4


def test_a_file_without_its_values_is_said(page, tmp_path):
    about = {"created": "2026-11-21", "machine": "m", "command": "c", "engine_version": "3"}
    (tmp_path / "speed").mkdir()
    (tmp_path / "speed" / "step.json").write_text(json.dumps(about | {"keras_ms": 3}))
    assert "cannot be shown (KeyError" in said(page(tmp_path).warning)

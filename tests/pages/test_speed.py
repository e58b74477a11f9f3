"""Page Performance, without a browser."""

import json
from dataclasses import replace

import pytest

from engine.settings import Settings
from engine.store import benchmark_results

NAMES = ("step", "whole_run", "growth", "workers", "fedner_step", "fedner_table", "secure_sum")
MODULES = {"growth": "gradient_scaling", "secure_sum": "secure_aggregation"}
"""Benchmarks that are stored under another name than that of their module."""


@pytest.fixture
def page(open_page, settings):
    """Return a function that opens the page with a folder of published results."""
    return lambda published: open_page("speed", replace(settings, published=published))


def texts(elements) -> str:
    return "\n".join(element.value for element in elements).replace("\\", "")


def test_measurements_are_shown_with_their_command(page):
    test = page(Settings.from_environment().published)
    assert "a private training step of Epsilon Explorer takes" in texts(test.markdown)
    assert len(test.metric) == 4
    for name in NAMES:
        module = MODULES.get(name, name)
        assert (Settings.from_environment().published.parent / "benchmarks" / f"{module}.py").is_file()
        assert f"python -m benchmarks.{module} --save" in texts(test.caption)
    assert not test.info
    assert not test.warning


def test_each_section_names_its_processor_before_its_figures(page):
    test = page(Settings.from_environment().published)
    known = benchmark_results.read_all(Settings.from_environment().published)
    parts = [element.value.replace("\\", "") for element in test.main if element.type in ("markdown", "caption")]
    text = "\n".join(parts)
    headings = {
        "### On": "step",
        "#### Complete run": "whole_run",
        "#### Scaling of a step": "growth",
        "#### Parallel runs": "workers",
        "#### Training step of": "fedner_step",
        "#### FedNER's Table 2": "fedner_table",
    }
    for heading, name in headings.items():
        begin = text.index(heading)
        assert known[name].machine in text[begin : begin + 200], heading


def test_missing_measurements_name_their_command(page, tmp_path):
    test = page(tmp_path)
    assert "Run `python -m benchmarks.step --save`" in texts(test.info)
    assert len(test.info) == len(NAMES)


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"created": 1}', "[" * 100_000])
def test_broken_file_counts_as_not_measured(page, tmp_path, content):
    (tmp_path / "speed").mkdir()
    (tmp_path / "speed" / "step.json").write_text(content)
    assert len(page(tmp_path).info) == len(NAMES)


def test_file_without_its_values_shows_a_warning(page, tmp_path):
    about = {"created": "2026-11-21", "machine": "m", "command": "c", "engine_version": "3"}
    (tmp_path / "speed").mkdir()
    (tmp_path / "speed" / "step.json").write_text(json.dumps(about | {"keras_ms": 3}))
    assert "cannot be shown (KeyError" in texts(page(tmp_path).warning)

"""The tables of docs/results.md and of the README: each stands between its marks."""

import sys

import pytest

from benchmarks import results_table
from engine.config import SimulationConfig
from engine.experiments.papers import fedner_2020
from engine.settings import REPOSITORY


def test_a_table_goes_between_its_marks_and_nothing_else_is_touched():
    text = "before\n<!-- speed:begin -->\nold\n<!-- speed:end -->\nafter\n"
    found = results_table.written(text, {"speed": "new", "paper": "elsewhere"})
    assert found == "before\n<!-- speed:begin -->\nnew\n<!-- speed:end -->\nafter\n"
    assert results_table.written(found, {"speed": "new"}) == found


def test_each_table_has_one_place():
    texts = [(REPOSITORY / name).read_text() for name in results_table.FILES]
    for name in results_table.TABLES:
        for mark in results_table.MARKS:
            assert sum(text.count(mark.format(name)) for text in texts) == 1, mark.format(name)


def test_only_the_table_asked_for_is_made_and_written(tmp_path, monkeypatch):
    made = {"speed": lambda: "quick", "paper": lambda: pytest.fail("not asked for")}
    monkeypatch.setattr(results_table, "TABLES", made)
    file = tmp_path / "some.md"
    file.write_text("<!-- speed:begin -->\n<!-- speed:end -->\n<!-- paper:begin -->\nstays\n<!-- paper:end -->\n")
    monkeypatch.setattr(sys, "argv", ["results_table", "--only", "speed", "--write", str(file)])
    results_table.main()
    assert file.read_text() == (
        "<!-- speed:begin -->\nquick\n<!-- speed:end -->\n<!-- paper:begin -->\nstays\n<!-- paper:end -->\n"
    )


def test_a_run_of_another_papers_tagger_is_no_row_of_the_sliders_table():
    """LM-NER reads no plain word vectors, which is what the slider's runs have."""
    assert not results_table._on_the_slider(fedner_2020.federated())
    assert not results_table._on_the_slider(fedner_2020.setting("ade@0", "cnn-crf"))
    assert results_table._on_the_slider(SimulationConfig())

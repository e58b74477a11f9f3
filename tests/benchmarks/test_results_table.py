"""The tables of docs/results.md and of the README, each between its markers."""

import sys

import pytest

from benchmarks import results_table
from engine.config import SimulationConfig
from engine.experiments.papers import fedner_2020
from engine.settings import REPOSITORY


def test_written_replaces_only_the_text_between_markers():
    text = "before\n<!-- speed:begin -->\nold\n<!-- speed:end -->\nafter\n"
    result = results_table.written(text, {"speed": "new", "paper": "elsewhere"})
    assert result == "before\n<!-- speed:begin -->\nnew\n<!-- speed:end -->\nafter\n"
    assert results_table.written(result, {"speed": "new"}) == result


def test_each_table_has_exactly_one_pair_of_markers():
    texts = [(REPOSITORY / name).read_text() for name in results_table.FILES]
    for name in results_table.TABLES:
        for mark in results_table.MARKS:
            assert sum(text.count(mark.format(name)) for text in texts) == 1, mark.format(name)


def test_only_computes_and_writes_only_the_given_table(tmp_path, monkeypatch):
    made = {"speed": lambda: "quick", "paper": lambda: pytest.fail("not asked for")}
    monkeypatch.setattr(results_table, "TABLES", made)
    file = tmp_path / "some.md"
    file.write_text("<!-- speed:begin -->\n<!-- speed:end -->\n<!-- paper:begin -->\nstays\n<!-- paper:end -->\n")
    monkeypatch.setattr(sys, "argv", ["results_table", "--only", "speed", "--write", str(file)])
    results_table.main()
    assert file.read_text() == (
        "<!-- speed:begin -->\nquick\n<!-- speed:end -->\n<!-- paper:begin -->\nstays\n<!-- paper:end -->\n"
    )


def test_slider_table_excludes_runs_of_other_papers():
    """Exclude LM-NER, which uses no plain word vectors, unlike the runs of the slider."""
    assert not results_table._on_the_slider(fedner_2020.federated())
    assert not results_table._on_the_slider(fedner_2020.setting("ade@0", "cnn-crf"))
    assert results_table._on_the_slider(SimulationConfig())

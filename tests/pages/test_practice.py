"""Page Recommended settings: its text follows from the runs."""

from dataclasses import replace

import pytest

from engine.experiments import recommended_settings
from engine.experiments.seed_aggregates import over_seeds, with_seeds
from pages.practice import ablation
from tests.engine.experiments.papers.test_jana_biemann_2021 import run_of
from tests.pages.reading import figures

MINILM, LAST = recommended_settings.WITH_MINILM, len(recommended_settings.STEPS) - 1
"""Indices of the recommended settings with MiniLM and of the recommended settings."""


def steps(first: int, last: int, minilm: int | None = 5) -> list[ablation.Step]:
    """Return all steps, of which the first, one and the last have runs with so many correct entities."""
    made = []
    for number, setting in enumerate(recommended_settings.STEPS):
        right = {0: first, MINILM: minilm, LAST: last}.get(number)
        measured = {}
        for epsilon in recommended_settings.EPSILONS:
            config = recommended_settings.recipe_step(number, "conll2003", 14_041, epsilon)
            known = {} if right is None else {c: run_of(c, right + c.seed) for c in with_seeds(config, 2)}
            measured[epsilon] = over_seeds(config, known.get)
        made.append(ablation.Step(setting, measured))
    return made


def test_answer_compares_the_first_and_the_last_step():
    text = ablation.answer(steps(2, 8))
    assert figures(text)[:3] == ["1", "0.17", "0.57"]
    assert text.index("paper settings") < text.index("0.17") < text.index("recommended") < text.index("0.57")
    assert "0.57, and 0.37 with a small language model." in text
    assert "small" not in ablation.answer(steps(2, 8, None))
    nothing = [
        replace(step, measured={e: replace(m, entity=None) for e, m in step.measured.items()}) for step in steps(2, 8)
    ]
    assert "No run of it is finished yet" in ablation.answer(nothing)


def test_rows_have_the_gain_over_the_step_before():
    rows = ablation.rows(steps(2, 8), 1.0)
    assert [row["added setting"] for row in rows] == [step.name for step in recommended_settings.STEPS]
    assert rows[0]["F1"] == pytest.approx(2.5 / 15)
    assert rows[0]["gain"] is None
    assert rows[1]["F1"] is None
    assert rows[LAST]["gain"] is None  # the step before has no runs
    assert rows[0]["σ"] == 0.89
    assert rows[0]["seeds"] == "2"


def test_chart_has_a_line_for_each_epsilon():
    figure = ablation.picture(steps(2, 8), key="k")
    assert [trace.name for trace in figure.data] == ["ε = 1", "ε = 3", "ε = 8"]
    measured = (0, MINILM, LAST)
    assert list(figure.data[0].x) == [recommended_settings.STEPS[number].name for number in measured]
    assert list(figure.layout.xaxis.categoryarray) == [step.name for step in recommended_settings.STEPS]


def test_page_offers_missing_runs(open_page, with_published):
    test = open_page("practice")
    assert any(button.key == "run-ladder" for button in test.button)
    test = open_page("practice", with_published)
    assert len(test.dataframe[0].value) == len(recommended_settings.STEPS)

"""Page Planner: tables and names from made-up runs, and the page with and without published runs."""

import pytest

from engine.config import SimulationConfig
from engine.experiments.planner import curve
from engine.experiments.planner.ranking import answer
from engine.experiments.planner.recommendation import Recommendation
from engine.experiments.planner.targets import Measure, Target, Threshold
from pages.planner import chart, rows
from tests.engine.experiments.test_planner import evidence, made
from tests.pages.reading import figures


def plan(found, **fields) -> Recommendation:
    target = Target(corpus="synthetic", **fields)
    runs = evidence(found, target)
    lines = tuple((family, curve.fit(family.points(target.main))) for family in curve.families(runs.settings))
    return Recommendation(target, runs, answer(target, runs), lines, None, ())


RUNS = [
    made(value + 0.01 * seed, epsilon=epsilon, seed=seed)
    for epsilon, value in ((1.0, 0.4), (4.0, 0.8))
    for seed in range(2)
]
F1 = (Threshold(Measure(), 0.6),)


def test_rows_have_score_epsilon_and_link():
    (row,) = rows.settings(plan(RUNS, thresholds=F1).answer.best)
    assert (row["ε"], row["adjacency"]) == ("4", "add or remove one")
    assert row["reached"] == "significant, 2 of 2 runs"
    assert row["F1"].startswith("0.805 (")
    assert row["run"].startswith("./explore?")
    assert "reached" not in rows.settings(plan(RUNS, epsilon=9.0).answer.best)[0]


def test_csv_has_every_compared_setting():
    lines = rows.csv(plan(RUNS, thresholds=F1)).splitlines()
    assert len(lines) == 3
    assert lines[0].startswith("epsilon,reached,runs_that_reach_it,seeds,seconds,f1,f1_sd,f1_low,f1_high,runs,command")
    assert lines[0].endswith(",neighbouring")
    assert lines[1].endswith(",add or remove one")
    assert lines[1].startswith("4.0,surely,2,2,")


def test_names_have_the_fields_that_differ():
    def config(**fields) -> SimulationConfig:
        return SimulationConfig.from_flat(fields)

    assert rows.names([config()]) == ["BiLSTM-TDDL"]
    three = [config(), config(tagger="bilstm-crf"), config(tagger="bilstm-crf", clients=5)]
    assert rows.names(three) == [
        "BiLSTM-TDDL · clients 1",
        "BiLSTM-CRF · clients 1",
        "BiLSTM-CRF · clients 5",
    ]
    alike = rows.names([config(epochs=3.0), config(epochs=3.0, learning_rate=0.5), config(tagger="bilstm-crf")])
    assert alike == ["BiLSTM-TDDL · learning rate 0.15", "BiLSTM-TDDL · learning rate 0.5", "BiLSTM-CRF"]


def test_chart_has_settings_fit_band_and_target():
    found = plan(RUNS, thresholds=F1, epsilon=3.0)
    drawn = curve.highest(found.lines, chart.MOST)
    figure = chart.score_chart(found, drawn, key="k")
    settings, low, high, line = figure.data
    assert len(settings.x) == 2
    assert settings.customdata[0].startswith("./explore?")
    assert list(line.y) == pytest.approx([0.405, 0.805])
    assert all(a < fitted < b for a, fitted, b in zip(low.y, line.y, high.y, strict=True))
    assert [shape.y0 for shape in figure.layout.shapes if shape.y0 == shape.y1 and shape.y0] == [0.6]
    assert high.fill == "tonexty"
    assert (low.line.shape, high.line.shape) == ("hv", "vh")


def test_page_without_runs_says_where_to_start_one(open_page):
    assert "No run is finished yet" in open_page("planner").markdown[0].value


def test_page_plans_with_published_runs(open_page, with_published):
    page = open_page("planner", with_published)
    assert figures(page.markdown[0].value)[:2] == ["0.8", "0.1"]
    assert "95 % CI over seeds" in page.markdown[0].value
    assert page.number_input(key="f1").value == 0.8
    assert page.dataframe[0].value["reached"].str.startswith("significant").all()
    page.number_input(key="f1").set_value(0.99).run()
    assert not page.exception
    assert page.markdown[0].value.startswith("### None")
    assert figures(page.markdown[0].value)[0] == "457"
    page.number_input(key="f1").set_value(None).run()
    assert not page.exception
    assert not figures(page.markdown[0].value)
    assert "ε" in page.markdown[0].value
    page.number_input(key="epsilon").set_value(1.0).run()
    assert not page.exception
    assert "ε ≤ 1" in page.markdown[0].value
    assert figures(page.markdown[0].value)[:2] == ["1", "0.872"]


def test_link_restores_the_requirements(open_page, with_published):
    fields = {"types": "PER", "recall-PER": "0.9", "epsilon": "2", "f1": "0.5", "held": "5 clients"}
    page = open_page("planner", with_published, **fields)
    assert "recall of PER ≥ 0.9 can be reached at ε ≤ 2" in page.markdown[0].value
    assert "another number of clients" in " ".join(each.value for each in page.markdown)

"""Page Pareto frontier: the frontier of made-up runs, and the page with the published runs."""

import math
from dataclasses import replace

import pytest

from engine.config import SimulationConfig, with_noise
from engine.experiments.papers import jana_biemann_2021 as tables
from engine.experiments.token_f1 import published_metric
from engine.records import Run
from engine.service import Overview
from pages.frontier import chart
from pages.frontier import points as frontier
from tests.engine.experiments.papers.test_jana_biemann_2021 import run_of
from tests.pages.reading import figures


def overview(config: SimulationConfig, correct: int, epsilon: float) -> Overview:
    run = run_of(config, correct, epsilon / 3)  # the third record has three times the first one's
    return Overview(replace(run, run_id=config.canonical_json()), run.records[-1], "")


def config(**fields) -> SimulationConfig:
    return SimulationConfig.from_flat(fields)


OVERVIEWS = [
    overview(config(noise_multiplier=4.0), 3, 0.5),
    overview(config(noise_multiplier=4.0, seed=1), 5, 0.6),
    overview(config(noise_multiplier=2.0), 3, 1.0),  # dominated: larger ε, no higher F1
    overview(config(noise_multiplier=1.0), 8, 2.0),
    overview(config(noise_multiplier=1.0, sampling="shuffle"), 10, 0.1),
    overview(config(noise_multiplier=1.0, clients=3, mechanism="local"), 10, 0.1),
    overview(config(noise_multiplier=0.0), 9, math.inf),
    overview(config(noise_multiplier=0.0, tagger="bilstm-crf"), 10, math.inf),
    overview(config(noise_multiplier=1.0, corpus="conll2003"), 10, 0.1),
]


def test_frontier_has_the_pareto_optimal_settings():
    settings = frontier.settings(OVERVIEWS, "synthetic", "entity", frontier.ALL)
    best = frontier.best(settings)
    assert [each.config.privacy.noise_multiplier for each in best] == [4.0, 1.0]
    first = best[0]
    assert first.epsilon == pytest.approx(0.6)
    assert first.f1.number == 2
    assert first.f1.mean == pytest.approx((3 / 15 + 5 / 15) / 2)
    assert first.f1.sd == pytest.approx((2 / 15) / math.sqrt(2))


def test_ceiling_is_the_non_private_twin():
    settings = frontier.settings(OVERVIEWS, "synthetic", "entity", frontier.ALL)
    best = frontier.best(settings)
    top = frontier.ceiling(settings, best)
    assert top is not None
    assert top.config == with_noise(best[-1].config, 0.0)
    other = frontier.ceiling([each for each in settings if each.config != top.config], best)
    assert other is not None
    assert other.config.tagger.name == "bilstm-crf"
    assert frontier.ceiling([], []) is None
    assert figures(frontier.answer(best, top))[:4] == ["0.53", "2", "0.27", "0.6"]
    assert "No private run" in frontier.answer([], top)


def test_f1_of_follows_metric_and_entity_type():
    test = OVERVIEWS[0].last_record.test
    assert frontier.f1_of(test, "entity", "PER") == test.strict["PER"].ratios.f1
    assert frontier.f1_of(test, "entity", "DATE") == 0.0
    assert frontier.f1_of(test, "published", "PER") == published_metric(test).f1


def test_points_link_to_their_setting():
    settings = frontier.settings(OVERVIEWS, "synthetic", "entity", frontier.ALL)
    best = frontier.best(settings)
    figure = chart.picture(settings, best, None, [(0.76, 0.9, "TDDL, σ = 1")], 0.0, key="k")
    every, line, printed = figure.data
    assert len(every.x) == 5
    assert max(every.x) > figure.layout.xaxis.tickvals[-2]  # no privacy has a position of its own
    assert "noise_multiplier=1" in line.customdata[1]
    assert line.customdata[1].startswith("./explore?")
    assert printed.x[0] == pytest.approx(math.log10(0.76))


def test_reported_rows_have_the_recomputed_epsilon():
    cells = [cell for cell in tables.cells() if cell.table in ("table1", "table5")]

    def find(config: SimulationConfig) -> Run | None:
        epsilon = 0.5 if config.privacy.private else math.inf
        return run_of(config, 5, epsilon) if config.seed == 0 else None

    reported = frontier.reported([tables.measure(cell, find) for cell in cells])
    assert len(reported) == 5
    assert reported[0] == (1.5, 0.834, "2 clients")


def test_page_without_runs_says_where_to_start_one(open_page):
    assert "No run is finished yet" in open_page("frontier").markdown[0].value


def test_published_runs_have_a_frontier(open_page, with_published):
    test = open_page("frontier", with_published)
    assert "Highest measured F1:" in test.markdown[0].value
    frame = test.dataframe[0].value
    assert frame["F1"].iloc[:-1].is_monotonic_increasing
    test.selectbox[1].set_value("PER").run()
    assert not test.exception
    assert test.dataframe[0].value["F1"].tolist() != frame["F1"].tolist()


def test_federated_settings_have_frontiers_of_their_own():
    overviews = [
        *OVERVIEWS,
        overview(config(noise_multiplier=1.0, clients=5), 4, 2.0),
        overview(config(noise_multiplier=2.0, clients=5), 2, 1.0),
        overview(config(noise_multiplier=1.0, clients=20), 3, 3.0),
    ]
    settings = frontier.settings(overviews, "synthetic", "entity", frontier.ALL)
    figure = chart.picture(settings, frontier.best(settings), None, [], 0.0, key="k")
    lines = {trace.name: list(trace.y) for trace in figure.data}
    assert lines["5 clients"] == pytest.approx([2 / 15 * 1, 4 / 15]) or len(lines["5 clients"]) == 2
    assert len(lines["20 clients"]) == 1
    settings = frontier.settings(OVERVIEWS, "synthetic", "entity", frontier.ALL)
    figure = chart.picture(settings, frontier.best(settings), None, [], 0.0, key="k")
    assert "5 clients" not in {trace.name for trace in figure.data}

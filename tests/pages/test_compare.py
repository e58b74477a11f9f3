"""Page Compare: tables, curves, the Pareto front and parallel axes."""

import itertools
import math
from dataclasses import replace

import pytest

from engine.config import SimulationConfig
from engine.records import PrivacySpent, Run
from engine.service import Overview
from pages.compare import every_run, parallel
from pages.compare import groups as compare
from pages.compare.overlay import overlay
from pages.shared import group_by_config
from tests.engine.experiments.papers.test_jana_biemann_2021 import run_of
from tests.engine.factories import check


def group(correct: tuple[int, ...], epsilon: float = 1.0, **fields: object) -> compare.Group:
    config = SimulationConfig.from_flat(fields)
    runs = [run_of(replace(config, seed=seed), c, epsilon) for seed, c in enumerate(correct)]
    return compare.Group(config, tuple(runs))


def overview(run: Run) -> Overview:
    return Overview(run, run.records[-1], "")


def test_configurations_group_runs_by_all_but_the_seed():
    first, second = group((5, 6)), group((7,), clients=5)
    by_config = group_by_config.configurations([overview(run) for run in (*first.runs, *second.runs)])
    assert {config.federation.clients: len(ids) for config, ids in by_config.items()} == {1: 2, 5: 1}


def test_run_with_failed_noise_check_is_excluded():
    (run,) = group((5,)).runs
    last = replace(run.records[-1], noise_check=check("The noise is not there."))
    assert group_by_config.configurations([Overview(run, last, "")]) == {}


def test_rows_have_only_fields_that_differ():
    first, second = compare.rows([group((5, 10)), group((5,), clients=5)])
    assert first["clients"] == "1"
    assert second["clients"] == "5"
    assert "epochs" not in first
    assert first["F1"] == pytest.approx(0.5)
    assert first["± sd"] == pytest.approx((1 / 3) / math.sqrt(2))
    assert second["± sd"] is None


def test_epsilon_of_a_group_is_the_largest_of_its_seeds():
    low_epsilon, high_epsilon = group((5,), 0.1), group((5,), 1.0)
    for runs in ((*low_epsilon.runs, *high_epsilon.runs), (*high_epsilon.runs, *low_epsilon.runs)):
        assert replace(low_epsilon, runs=runs).epsilon == high_epsilon.epsilon > low_epsilon.epsilon


def test_curve_is_the_mean_over_seeds():
    found = compare.curve(group((5, 6)), "step")
    assert [step.x for step in found] == [1.0, 2.0, 3.0]
    assert [step.f1.sd for step in found] == [0.0, 0.0, 0.0]
    assert [step.f1.number for step in found] == [2, 2, 2]


def test_pareto_optimal_excludes_dominated_groups():
    low_epsilon, high_epsilon, worse = group((5,), 0.1), group((9,), 2.0), group((4,), 1.0)
    assert compare.pareto_optimal([high_epsilon, worse, low_epsilon]) == [low_epsilon, high_epsilon]


@pytest.mark.parametrize("along", compare.ALONG)
def test_overlay_has_a_line_for_each_group(along):
    figure = overlay([group((5, 6)), group((5,), clients=5)], along, key="k")
    assert len(figure.data) == 2
    assert len(figure.data[0].x) == 3
    assert figure.data[0].line.dash != figure.data[1].line.dash


def test_epsilon_axis_has_a_range_for_infinity():
    without_noise = group((5,), noise_multiplier=0.0)
    records = [
        replace(each, privacy=PrivacySpent(epsilon=math.inf, delta=1e-5)) for each in without_noise.runs[0].records
    ]
    without_noise = replace(without_noise, runs=(replace(without_noise.runs[0], records=tuple(records)),))
    figure = overlay([group((5, 6)), without_noise], "epsilon", key="k")
    infinity = figure.layout.xaxis.tickvals[figure.layout.xaxis.ticktext.index("∞")]
    private, non_private = (list(trace.x) for trace in figure.data)
    assert max(private) < min(non_private)
    assert non_private[0] < infinity < non_private[-1] < figure.layout.xaxis.range[1]


def test_page_without_runs_explains_what_to_do(open_page):
    assert "Nothing to compare yet" in open_page("compare").markdown[0].value


def test_published_runs_are_compared(open_page, with_published):
    test = open_page("compare", with_published)
    frame = test.dataframe[0].value
    assert len(frame) == 4
    assert set(frame["model"]) == {"BiLSTM-TDDL", "BiLSTM-CRF"}
    assert (frame["F1"] > 0.3).all()
    test.selectbox[0].set_value("seconds").run()
    assert not test.exception
    test.multiselect(key="compared").set_value([]).run()
    assert "Choose configurations" in "\n".join(caption.value for caption in test.caption)


def test_link_has_the_compared_configurations(open_page, with_published):
    test = open_page("compare", with_published)
    assert "runs" not in test.query_params
    selected = [name for name in test.multiselect(key="compared").options if "CoNLL" not in name][:2]
    test.multiselect(key="compared").set_value(selected).run()
    link = test.query_params["runs"]
    assert len(link.split(",")) == 2
    reopened = open_page("compare", with_published, runs=f"{link},0123456789abcdef")
    assert set(reopened.multiselect(key="compared").value) == set(selected)
    assert open_page("compare", with_published, runs="../x").multiselect(key="compared").value  # the default selection


def test_unknown_configurations_in_the_session_are_dropped(open_page, with_published):
    test = open_page("compare", with_published)
    known = "BiLSTM-CRF, σ = 1 · CoNLL-2003 English news"
    test.session_state["compared"] = [known, "nothing like it"]
    test.run()
    assert test.multiselect(key="compared").value == [known]
    assert not test.exception
    assert len(test.dataframe[0].value) == 1


def four_runs() -> list[Overview]:
    """Return four runs with ε 0.3, 3, 30 and ∞ and F1 2/15, 4/15, 6/15 and 8/15."""
    noises = ((4.0, 2, 0.1), (2.0, 4, 1.0), (1.0, 6, 10.0), (0.0, 8, math.inf))
    taggers = ("bilstm-tddl", "bilstm-tddl", "linear-crf", "linear-crf")
    return [
        overview(run_of(SimulationConfig.from_flat({"tagger": tagger, "noise_multiplier": sigma}), correct, epsilon))
        for tagger, (sigma, correct, epsilon) in zip(taggers, noises, strict=True)
    ]


def axis(name: str) -> parallel.Axis:
    return next(axis for axis in parallel.axes(four_runs()) if axis.name == name)


class TestAllRuns:
    def test_axes_are_the_fields_that_differ(self):
        assert [axis.name for axis in parallel.axes(four_runs())] == ["model", "σ", "ε", "F1"]
        assert dict(axis("model").ticks) == {0.0: "BiLSTM-TDDL", 1.0: "Linear, CRF"}
        assert axis("σ").positions == (3.0, 2.0, 1.0, 0.0)

    def test_epsilon_axis_has_decades_and_infinity(self):
        epsilon = axis("ε")
        labels = [text for _, text in epsilon.ticks if text]
        assert labels[-1] == "∞"
        assert {"1", "10"} <= set(labels)
        assert epsilon.positions[:3] == pytest.approx([math.log10(each) for each in (0.3, 3, 30)])
        assert (epsilon.positions[3], "∞") in epsilon.ticks
        figure = parallel.picture(parallel.axes(four_runs()), key="k")
        drawn = next(each for each in figure.data[0].dimensions if each.label == "ε")
        assert [text for text in drawn.ticktext if text.strip("\u200b")] == labels
        assert len(set(drawn.ticktext)) == len(drawn.tickvals)  # Plotly would shift the labels after duplicate ones
        assert drawn.range[1] > max(epsilon.positions)

    @pytest.mark.parametrize(
        ("marks", "kept"),
        [
            ({}, [0, 1, 2, 3]),
            ({"F1": [[0.2, 0.5]]}, [1, 2]),
            ({"F1": [[0.2, 0.5]], "model": [[0.5, 1.5]]}, [2]),
            ({"F1": [[0.0, 0.2], [0.5, 1.0]]}, [0, 3]),
            ({"F1": [[0.9, 1.0]]}, []),
            ({"no such axis": [[0.0, 0.0]]}, [0, 1, 2, 3]),
        ],
    )
    def test_between_keeps_runs_inside_all_brushes(self, marks, kept):
        assert parallel.between(parallel.axes(four_runs()), marks) == kept

    def test_rows_are_sorted_by_f1_and_link_to_explore(self):
        rows = parallel.rows(parallel.finished(four_runs()))
        assert [row["ε"] for row in rows] == ["∞", "30", "3", "0.3"]
        assert rows[0]["model"] == "Linear, CRF"
        assert "tagger=linear-crf" in rows[0]["run"]

    def test_axis_with_many_levels_has_few_labels(self):
        runs = [run_of(SimulationConfig.from_flat({"noise_multiplier": sigma / 4}), 5) for sigma in range(30)]
        sigma = next(each for each in parallel.axes([overview(run) for run in runs]) if each.name == "σ")
        assert len(set(sigma.positions)) == 30
        assert 4 <= sum(bool(text) for _, text in sigma.ticks) <= 9

    def test_smooth_axes_have_fine_brush_steps(self):
        for name in ("ε", "F1"):
            places = [place for place, _ in axis(name).ticks]
            steps = [after - before for before, after in itertools.pairwise(places)]
            assert max(steps) <= (axis(name).high - axis(name).low) / 50

    def test_brushes_filter_the_table(self, open_page, with_published, monkeypatch):
        marks = {"F1": [[0.8, 1.0]]}
        monkeypatch.setattr(every_run, "show", lambda *_, **more: marks)
        test = open_page("compare", with_published)
        table = test.dataframe[1].value
        assert 0 < len(table) < 549
        assert (table["F1"] >= 0.8).all()
        marks["F1"] = [[0.99, 1.0]]
        test.run()
        assert len(test.dataframe) == 1
        assert "No run is within all selected ranges" in test.info[0].value
        next(button for button in test.button if button.label == "Clear ranges").click().run()
        assert not test.exception

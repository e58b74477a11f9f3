"""The Compare page and what it draws, without a browser."""

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


def test_runs_that_differ_in_their_seed_are_one_setting():
    first, second = group((5, 6)), group((7,), clients=5)
    known = group_by_config.configurations([overview(run) for run in (*first.runs, *second.runs)])
    assert {config.federation.clients: len(ids) for config, ids in known.items()} == {1: 2, 5: 1}


def test_a_run_whose_check_failed_is_not_compared():
    (run,) = group((5,)).runs
    last = replace(run.records[-1], noise_check=check("The noise is not there."))
    assert group_by_config.configurations([Overview(run, last, "")]) == {}


def test_rows_hold_only_what_differs():
    first, second = compare.rows([group((5, 10)), group((5,), clients=5)])
    assert first["clients"] == "1"
    assert second["clients"] == "5"
    assert "epochs" not in first
    assert first["F1"] == pytest.approx(0.5)
    assert first["± sd"] == pytest.approx((1 / 3) / math.sqrt(2))
    assert second["± sd"] is None


def test_epsilon_of_a_group_is_the_largest_of_its_seeds():
    cheap, dear = group((5,), 0.1), group((5,), 1.0)
    for runs in ((*cheap.runs, *dear.runs), (*dear.runs, *cheap.runs)):
        assert replace(cheap, runs=runs).epsilon == dear.epsilon > cheap.epsilon


def test_a_curve_is_the_mean_of_its_seeds():
    found = compare.curve(group((5, 6)), "step")
    assert [step.x for step in found] == [1.0, 2.0, 3.0]
    assert [step.f1.sd for step in found] == [0.0, 0.0, 0.0]
    assert [step.f1.number for step in found] == [2, 2, 2]


def test_the_frontier_is_what_nobody_beats():
    cheap, dear, worse = group((5,), 0.1), group((9,), 2.0), group((4,), 1.0)
    assert compare.pareto_optimal([dear, worse, cheap]) == [cheap, dear]


@pytest.mark.parametrize("along", compare.ALONG)
def test_every_axis_can_be_drawn(along):
    figure = overlay([group((5, 6)), group((5,), clients=5)], along, key="k")
    assert len(figure.data) == 2
    assert len(figure.data[0].x) == 3
    assert figure.data[0].line.dash != figure.data[1].line.dash


def test_runs_without_privacy_have_a_place_on_the_axis_of_epsilon():
    nothing = group((5,), noise_multiplier=0.0)
    records = [replace(each, privacy=PrivacySpent(epsilon=math.inf, delta=1e-5)) for each in nothing.runs[0].records]
    nothing = replace(nothing, runs=(replace(nothing.runs[0], records=tuple(records)),))
    figure = overlay([group((5, 6)), nothing], "epsilon", key="k")
    infinity = figure.layout.xaxis.tickvals[figure.layout.xaxis.ticktext.index("∞")]
    private, open_one = (list(trace.x) for trace in figure.data)
    assert max(private) < min(open_one)
    assert open_one[0] < infinity < open_one[-1] < figure.layout.xaxis.range[1]


def test_nothing_to_compare_says_what_to_do(open_page):
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


def test_what_is_compared_has_a_link(open_page, with_published):
    test = open_page("compare", with_published)
    assert "runs" not in test.query_params
    wanted = [name for name in test.multiselect(key="compared").options if "CoNLL" not in name][:2]
    test.multiselect(key="compared").set_value(wanted).run()
    (link,) = test.query_params["runs"]
    assert len(link.split(",")) == 2
    again = open_page("compare", with_published, runs=f"{link},0123456789abcdef")
    assert set(again.multiselect(key="compared").value) == set(wanted)
    assert open_page("compare", with_published, runs="../x").multiselect(key="compared").value  # the usual ones


def test_what_was_chosen_elsewhere_is_compared_if_it_is_known(open_page, with_published):
    test = open_page("compare", with_published)
    wanted = "BiLSTM-CRF, σ = 1 · CoNLL-2003 English news"
    test.session_state["compared"] = [wanted, "nothing like it"]
    test.run()
    assert test.multiselect(key="compared").value == [wanted]
    assert not test.exception
    assert len(test.dataframe[0].value) == 1


def some_runs() -> list[Overview]:
    """Four runs: ε 0.3, 3, 30 and ∞; F1 2/15, 4/15, 6/15 and 8/15."""
    noises = ((4.0, 2, 0.1), (2.0, 4, 1.0), (1.0, 6, 10.0), (0.0, 8, math.inf))
    taggers = ("bilstm-tddl", "bilstm-tddl", "linear-crf", "linear-crf")
    return [
        overview(run_of(SimulationConfig.from_flat({"tagger": tagger, "noise_multiplier": sigma}), correct, epsilon))
        for tagger, (sigma, correct, epsilon) in zip(taggers, noises, strict=True)
    ]


def axis(name: str) -> parallel.Axis:
    return next(each for each in parallel.axes(some_runs()) if each.name == name)


class TestAllRuns:
    def test_the_axes_are_those_on_which_runs_differ(self):
        assert [each.name for each in parallel.axes(some_runs())] == ["model", "σ", "ε", "F1"]
        assert dict(axis("model").ticks) == {0.0: "BiLSTM-TDDL", 1.0: "Linear, CRF"}
        assert axis("σ").positions == (3.0, 2.0, 1.0, 0.0)

    def test_epsilon_has_decades_and_infinity_above_them(self):
        epsilon = axis("ε")
        labels = [text for _, text in epsilon.ticks if text]
        assert labels[-1] == "∞"
        assert {"1", "10"} <= set(labels)
        assert epsilon.positions[:3] == pytest.approx([math.log10(each) for each in (0.3, 3, 30)])
        assert (epsilon.positions[3], "∞") in epsilon.ticks
        figure = parallel.picture(parallel.axes(some_runs()), key="k")
        drawn = next(each for each in figure.data[0].dimensions if each.label == "ε")
        assert [text for text in drawn.ticktext if text.strip("\u200b")] == labels
        assert len(set(drawn.ticktext)) == len(drawn.tickvals)  # equal ones would shift the labels that follow
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
    def test_a_run_is_kept_that_goes_through_all_marks(self, marks, kept):
        assert parallel.between(parallel.axes(some_runs()), marks) == kept

    def test_rows_are_the_best_first_and_lead_to_explore(self):
        rows = parallel.rows(parallel.finished(some_runs()))
        assert [row["ε"] for row in rows] == ["∞", "30", "3", "0.3"]
        assert rows[0]["model"] == "Linear, CRF"
        assert "tagger=linear-crf" in rows[0]["run"]

    def test_many_levels_have_few_labels(self):
        runs = [run_of(SimulationConfig.from_flat({"noise_multiplier": sigma / 4}), 5) for sigma in range(30)]
        sigma = next(each for each in parallel.axes([overview(run) for run in runs]) if each.name == "σ")
        assert len(set(sigma.positions)) == 30
        assert 4 <= sum(bool(text) for _, text in sigma.ticks) <= 9

    def test_a_mark_may_end_nearly_anywhere_on_a_smooth_axis(self):
        for name in ("ε", "F1"):
            places = [place for place, _ in axis(name).ticks]
            steps = [after - before for before, after in itertools.pairwise(places)]
            assert max(steps) <= (axis(name).high - axis(name).low) / 50

    def test_marks_choose_the_rows_of_the_table(self, open_page, with_published, monkeypatch):
        marks = {"F1": [[0.8, 1.0]]}
        monkeypatch.setattr(every_run, "show", lambda *_, **more: marks)
        test = open_page("compare", with_published)
        table = test.dataframe[1].value
        assert 0 < len(table) < 549
        assert (table["F1"] >= 0.8).all()
        marks["F1"] = [[0.99, 1.0]]
        test.run()
        assert len(test.dataframe) == 1
        assert "No runs match these filters" in test.info[0].value
        next(button for button in test.button if button.label == "Clear filters").click().run()
        assert not test.exception

"""The Compare page and what it draws, without a browser."""

import math
from dataclasses import replace

import pytest

from engine.config import SimulationConfig
from engine.records import Run
from engine.runs import Overview
from engine.settings import REPOSITORY
from pages.shared import compare
from tests.engine.experiments.test_paper import run_of
from tests.engine.runs_for_tests import check


def group(correct: tuple[int, ...], epsilon: float = 1.0, **fields: object) -> compare.Group:
    config = SimulationConfig.from_flat(fields)
    runs = [run_of(replace(config, seed=seed), c, epsilon) for seed, c in enumerate(correct)]
    return compare.Group(config, tuple(runs))


def overview(run: Run) -> Overview:
    return Overview(run, run.records[-1], "")


def test_runs_that_differ_in_their_seed_are_one_setting():
    first, second = group((5, 6)), group((7,), clients=5)
    known = compare.configurations([overview(run) for run in (*first.runs, *second.runs)])
    assert {config.federation.clients: len(ids) for config, ids in known.items()} == {1: 2, 5: 1}


def test_a_run_whose_check_failed_is_not_compared():
    (run,) = group((5,)).runs
    last = replace(run.records[-1], noise_check=check("The noise is not there."))
    assert compare.configurations([Overview(run, last, "")]) == {}


def test_rows_hold_only_what_differs():
    first, second = compare.rows([group((5, 10)), group((5,), clients=5)])
    assert first["clients"] == "1"
    assert second["clients"] == "5"
    assert "epochs" not in first
    assert first["F1"] == pytest.approx(0.5)
    assert first["± sd"] == pytest.approx((1 / 3) / math.sqrt(2))
    assert second["± sd"] is None


def test_a_label_names_what_is_not_the_default():
    config = SimulationConfig.from_flat({"tagger": "bilstm-crf", "noise_multiplier": 0, "clients": 5, "epochs": 3})
    assert compare.label(config) == "CRF σ 0 · synthetic · epochs 3 · clients 5"
    clipped = SimulationConfig.from_flat({"noise_multiplier": 0, "clip_norm": 1.5})
    assert compare.label(clipped) == "TDDL σ 0 · synthetic · clip norm 1.5"


def test_a_curve_is_the_mean_of_its_seeds():
    found = compare.curve(group((5, 6)), "step")
    assert found.x == [1.0, 2.0, 3.0]
    assert found.sd == [0.0, 0.0, 0.0]


def test_the_frontier_is_what_nobody_beats():
    cheap, dear, worse = group((5,), 0.1), group((9,), 2.0), group((4,), 1.0)
    assert compare.frontier([dear, worse, cheap]) == [cheap, dear]


@pytest.mark.parametrize("along", compare.ALONG)
def test_every_axis_can_be_drawn(along):
    figure = compare.overlay([group((5, 6)), group((5,), clients=5)], along, key="k")
    assert len(figure.data) == 2
    assert len(figure.data[0].x) == 3


def test_nothing_to_compare_says_what_to_do(open_page):
    assert "Nothing to compare yet" in open_page("compare").markdown[0].value


def test_published_runs_are_compared(open_page, settings):
    test = open_page("compare", replace(settings, published=REPOSITORY / "cached_results"))
    frame = test.dataframe[0].value
    assert len(frame) == 4
    assert "tagger" in frame.columns
    assert (frame["F1"] > 0.3).all()
    test.selectbox[0].set_value("seconds").run()
    assert not test.exception
    test.multiselect(key="compared").set_value([]).run()
    assert "Choose settings" in "\n".join(caption.value for caption in test.caption)


def test_what_was_chosen_elsewhere_is_compared_if_it_is_known(open_page, settings):
    test = open_page("compare", replace(settings, published=REPOSITORY / "cached_results"))
    test.session_state["compared"] = ["CRF σ 1 · conll2003", "nothing like it"]
    test.run()
    assert test.multiselect(key="compared").value == ["CRF σ 1 · conll2003"]
    assert not test.exception
    assert len(test.dataframe[0].value) == 1


def test_every_tagger_with_a_chain_counts_as_one():
    taggers = ("bilstm-tddl", "linear-crf", "mlp-softmax", "bilstm-crf")
    runs = [overview(run_of(SimulationConfig.from_flat({"tagger": name}), 5)) for name in taggers]
    columns = {each.label: each["values"] for each in compare.parallel(runs, key="k").data[0].dimensions}
    assert list(columns["CRF"]) == [0, 1, 0, 1]

"""Page Training diagnostics: its text follows from the runs, and a link opens any run."""

from dataclasses import replace

import pytest

from engine.config import SimulationConfig
from engine.experiments import diagnosis
from engine.experiments.seed_aggregates import with_seeds
from engine.records import FederatedRound, Run
from engine.service import Application
from pages.diagnose import charts as diagnose_charts
from pages.diagnose import findings as diagnose
from pages.diagnose import tabs
from pages.diagnose.findings import Tried
from pages.shared import titles
from tests.engine.experiments.papers.test_jana_biemann_2021 import run_of
from tests.pages.reading import open_tab


def texts(elements) -> str:
    return "\n".join(element.value for element in elements).replace("\\", "")


def tried(correct: dict[tuple[str, str], int], variants: list[diagnosis.Variant]) -> list[Tried]:
    """Return variants whose runs have so many correct entities, one more with an odd seed."""
    made = []
    for each in variants:
        right = correct.get((each.group, each.name))
        known = {} if right is None else {
            config: noisy(run_of(config, right + config.seed % 2)) for config in with_seeds(each.config, 4)
        }  # fmt: skip
        made.append(Tried(each, diagnosis.measure(each, known.get)))
    return made


def noisy(run: Run) -> Run:
    ratio = 100.0 if run.config.privacy.private else None
    changed = tuple(
        replace(record, noise_to_signal=ratio, layer_norms={"LSTM": 0.7, "CRF": 0.2}) for record in run.records
    )
    return replace(run, records=changed)


def test_crf_answer_follows_from_f1():
    correct_by_variant = {
        ("CRF", "no clipping, no noise"): 8,
        ("CRF", "σ = 1"): 6,
        ("TDDL", "no clipping, no noise"): 8,
        ("TDDL", "σ = 1"): 4,
    }
    text = "\n".join(diagnose.about_crf(tried(correct_by_variant, diagnosis.crf())))
    assert "The CRF loses less F1 than the dense layer." in text
    correct_by_variant["TDDL", "σ = 1"] = 7
    fixes = {("CRF", "loss summed over tokens"): 9, ("CRF", "3 epochs"): 6, ("CRF", "batch 512"): 2,
             ("CRF", "clipping, no noise"): 8}  # fmt: skip
    text = "\n".join(diagnose.about_crf(tried(correct_by_variant | fixes, diagnosis.crf())))
    assert "The CRF loses more F1 than the dense layer." in text
    assert "higher F1 with loss summed over tokens" in text
    assert "no significant difference with 3 epochs (+0.000)" in text
    assert "lower F1 with batch 512" in text
    assert "100 times that of" in text


def test_answer_without_runs_names_missing_runs():
    assert diagnose.about_crf(tried({}, diagnosis.crf())) == [
        "The runs that answer this question are still missing. Start them below."
    ]
    assert "still missing" in diagnose.about_phases(tried({}, diagnosis.phases()), {})[0]


@pytest.mark.parametrize(("ends", "answer"), [((2, 5, 8), "does not collapse"), ((2, 8, 3), "falls after 67 % of")])
def test_phases_answer_follows_from_f1(ends, answer):
    variant = next(each for each in diagnosis.phases() if each.name == "σ = 1")
    by_phase = {"σ = 1": [diagnosis.measure(variant, lambda config, n=n: run_of(config, n)) for n in ends]}
    text = "\n".join(diagnose.about_phases(tried({("phases", "σ = 1"): ends[-1]}, diagnosis.phases()), by_phase))
    assert answer in text


def test_counterfactual_runs_have_no_epsilon():
    rows = diagnose.rows(tried({("CRF", "clipping, no noise"): 5, ("CRF", "σ = 1"): 5}, diagnosis.crf()))
    by_kind = {(row["model"], row["setting"]): row for row in rows}
    assert by_kind["CRF", "clipping, no noise"]["ε"] == "∞"
    assert by_kind["CRF", "σ = 1"]["ε"] == "3"
    assert by_kind["CRF", "σ = 1"]["clipped"] == "25\u00a0%"
    assert by_kind["CRF", "loss summed over tokens"]["F1"] is None


def test_verdict_names_a_fall_of_f1_and_the_clipped_share():
    run = noisy(run_of(SimulationConfig(), 5))
    fallen = replace(
        run,
        records=(*run.records[:-1], replace(run.records[-1], scores=run_of(SimulationConfig(), 0).records[-1].test)),
    )
    assert "has fallen by" in diagnose.verdict(fallen)
    assert "has fallen by" not in diagnose.verdict(run)
    assert (
        "25\u00a0% of the gradients are clipped to the norm 1.5. Most gradients have a smaller norm"
        in diagnose.verdict(run)
    )


def test_charts_exist_only_for_recorded_values():
    alone = noisy(run_of(SimulationConfig(), 5))
    charts_by_title = diagnose_charts.all_charts(alone, key="k")
    assert list(charts_by_title) == [
        "Clipped gradients",
        "Noise-to-signal ratio",
        "Gradient norm by layer",
        "F1 by entity type",
    ]
    layers = charts_by_title["Gradient norm by layer"]
    assert [trace.name for trace in layers.data] == ["all weights", "LSTM", "CRF", "clip norm 1.5"]
    assert layers.data[-1].mode == "lines"
    assert list(layers.data[0].y) == [0.5] * 3
    last = FederatedRound(
        round=2, rounds=2, clients=(0, 1), failed=(), drift=3.0, update_norms=(1.0, 2.0), bytes_down=1, bytes_up=1
    )
    several = replace(alone, records=tuple(replace(record, federation=last) for record in alone.records))
    drift = diagnose_charts.all_charts(several, key="k")["Drift between clients"]
    assert [trace.y[0] for trace in drift.data] == [3.0, 1.5]
    open_run = run_of(SimulationConfig.from_flat({"noise_multiplier": 0.0}), 5)
    assert list(diagnose_charts.all_charts(open_run, key="k")) == ["Gradient norm by layer", "F1 by entity type"]


def test_variants_have_error_bars_and_counterfactuals_hollow_markers():
    correct_by_variant = {("CRF", "clipping, no noise"): 5, ("CRF", "σ = 1"): 5, ("TDDL", "σ = 1"): 3}
    figure = diagnose_charts.variants(tried(correct_by_variant, diagnosis.crf()), key="k")
    crf, dense = figure.data
    assert list(crf.y) == ["clipping, no noise", "σ = 1"]
    assert list(crf.marker.symbol) == ["circle-open", "circle"]
    assert crf.error_x.array[0] > 0
    assert list(dense.marker.symbol) == ["square"]
    assert len(figure.layout.shapes) == 2


def test_page_without_runs_offers_to_start_them(open_page):
    test = open_page("diagnose")
    assert "The runs that answer this question are still missing" in texts(test.markdown)
    labels = [button.label for button in test.button]
    assert any("90" in label for label in labels)
    open_tab(test, "question", "Run details")
    assert "No run is finished yet" in texts(test.caption)
    assert "still missing" not in texts(test.markdown)


def test_published_runs_answer_both_questions(open_page, with_published):
    test = open_page("diagnose", with_published)
    assert "The CRF loses less F1 than the dense layer." in texts(test.markdown)
    (table,) = test.dataframe
    assert table.value["F1"].notna().sum() >= 6
    open_tab(test, "question", "Phases under DP")
    assert "F1 does not collapse here." in texts(test.markdown)
    (table,) = test.dataframe
    assert table.value["F1"].notna().sum() >= 6


def test_choices_in_closed_tabs_are_kept(open_page, with_published):
    test = open_page("diagnose", with_published)
    open_tab(test, "question", "Phases under DP")
    test.session_state[tabs.METRIC] = "published"
    open_tab(test, "question", "Run details")
    setting, seed = test.selectbox[1:]
    seed.select(seed.options[-1]).run()
    chosen = test.session_state["one_seed"]
    assert str(chosen) == seed.options[-1] != seed.options[0]
    open_tab(test, "question", "Phases under DP")
    assert test.session_state[tabs.METRIC] == "published"
    assert "The paper's scores" not in texts(test.caption)
    open_tab(test, "question", "Run details")
    assert test.session_state["one_seed"] == chosen
    assert test.selectbox[1].value == setting.value


def test_link_opens_its_run(open_page, with_published):
    app = Application(with_published)
    linked = next(
        run for run in app.queries.published() if run.config.federation.clients == 15 and run.config.seed == 3
    )
    app.close()
    test = open_page("diagnose", with_published, run=linked.run_id)
    setting, seed = (box.value for box in test.selectbox[1:])
    assert setting == replace(linked.config, seed=0)
    assert titles.setting(setting) in test.selectbox[1].options
    assert seed == 3


def test_link_to_a_missing_run_shows_an_error(open_page):
    assert "feedfeedfeedfeed" in texts(open_page("diagnose", run="feedfeedfeedfeed").error)

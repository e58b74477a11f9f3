"""Links, charts and texts of several pages, without opening a page."""

import dataclasses
import math
import re
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.config import (
    NOISE_SOURCES,
    OPTIMISERS,
    SCHEMES,
    FederationConfig,
    PrivacyConfig,
    SimulationConfig,
    TaggerConfig,
    TrainingConfig,
)
from engine.config.mechanism_registry import ZERO_OUT
from engine.embeddings.contamination import Overlap, apply_contamination
from engine.records import Counts, EntityScores, LayerNoise, PrivacySpent, Run, RunState, RunStatus
from engine.reports.noise_check import check_lines
from engine.service import Estimate, Preview
from pages.explore import charts, curves, guarantee, messages
from pages.shared import address, submitting
from pages.shared import charts as charts_shared
from pages.shared import messages as shared_messages
from pages.speed import chart as speed
from tests.engine.factories import SMALL, check, provenance, record
from tests.pages.reading import figures

CORPORA = ("synthetic", "conll2003")


class TestAddress:
    @given(
        st.builds(
            SimulationConfig,
            corpus=st.sampled_from(CORPORA),
            data_fraction=st.floats(0.001, 1),
            tagger=st.builds(TaggerConfig, hidden_size=st.integers(1, 1024), scheme=st.sampled_from(SCHEMES)),
            training=st.builds(
                TrainingConfig,
                optimiser=st.sampled_from(OPTIMISERS),
                learning_rate=st.floats(1e-6, 100),
                batch_size=st.integers(1, 1000),
                epochs=st.floats(0.1, 100),
            ),
            privacy=st.one_of(
                st.builds(
                    PrivacyConfig,
                    noise_multiplier=st.floats(0.01, 100),
                    clip_norm=st.floats(0.01, 100),
                    noise_source=st.sampled_from(NOISE_SOURCES),
                ),
                st.builds(PrivacyConfig, noise_multiplier=st.just(0), clip_norm=st.sampled_from([None, 2.0])),
            ),
            seed=st.integers(0, 2**32 - 1),
        )
    )
    def test_read_inverts_write(self, config):
        result, problems = address.read(address.write(config), CORPORA)
        assert problems == []
        assert address.write(result) == address.write(config)
        assert result.data_fraction == pytest.approx(config.data_fraction, rel=1e-11)

    def test_link_keeps_the_tag_scheme_of_each_silo(self):
        fields = {"corpus": "synthetic + conll2003", "scheme": "bio2,bioes"}
        result, problems = address.read(fields, CORPORA)
        assert problems == []
        assert result.schemes == ("bio2", "bioes")
        assert address.write(result).items() >= fields.items()

    def test_link_without_a_partition_means_equal_sizes_as_in_earlier_versions(self):
        fields = address.write(SimulationConfig()) | {"clients": "5"}
        assert address.read(fields, CORPORA)[0].federation.partition == "random"

    def test_independent_pieces_of_one_client_stay_in_the_link(self):
        config = SimulationConfig.from_flat({"rounds": 3, "schedule": "incremental", "partition": "independent"})
        assert address.read(address.write(config), CORPORA) == (config, [])

    def test_public_weights_are_read_after_the_inputs_on_which_they_depend(self):
        fields = {"tagger": "linear-crf", "features": "layer-names", "window": 1, "pretrained": True}
        config = SimulationConfig.from_flat(fields | {"language_model": "all-mpnet-base-v2"})
        assert address.read(address.write(config), CORPORA) == (config, [])
        without, (problem,) = address.read({"tagger": "linear-crf", "pretrained": "yes"}, CORPORA)
        assert not without.tagger.pretrained
        assert "public weights exist only for" in problem

    def test_default_link_has_four_fields(self):
        assert address.write(SimulationConfig()) == {
            "tagger": "bilstm-tddl",
            "corpus": "synthetic",
            "data_fraction": "1",
            "noise_multiplier": "1",
        }

    @pytest.mark.parametrize(
        ("fields", "word"),
        [
            ({"noise_multiplier": "-1"}, "noise_multiplier=-1.0"),
            ({"noise_multiplier": "nan"}, "noise_multiplier=nan"),
            ({"noise_multiplier": "lots"}, "noise_multiplier='lots'"),
            ({"clip_norm": "none"}, "clip_norm=None"),
            ({"clip_norm": "0"}, "clip_norm=0.0"),
            ({"data_fraction": "1.5"}, "data_fraction=1.5"),
            ({"corpus": "/etc/passwd"}, "corpus='/etc/passwd'"),
            ({"corpus": "../../secret"}, "not in the catalogue"),
            ({"tagger": "<script>alert(1)</script>"}, "tagger="),
            ({"surprise": "1"}, "unknown field 'surprise'"),
            ({"seed": "9" * 5000}, "seed="),
            ({"x" * 5000: "1"}, "unknown field"),
            ({"delta": "2"}, "delta=2.0"),
            ({"clients": "0"}, "clients=0"),
            ({"participants": "7"}, "participants=7"),
            ({"mechanism": "local"}, "clients=1"),
            ({"batch_size": "1e3"}, "batch_size='1e3'"),
            ({"scheme": "iob1"}, "scheme='iob1'"),
            ({"scheme": "bio2,bioes"}, "scheme='bio2,bioes'"),
        ],
    )
    def test_invalid_field_is_dropped_with_a_problem(self, fields, word):
        result, (problem,) = address.read(fields | {"epochs": "3"}, CORPORA)
        assert word in problem
        assert len(problem) < 400
        assert result == SimulationConfig(training=TrainingConfig(epochs=3))

    @given(st.dictionaries(st.sampled_from([*address.FIELDS, "other"]), st.text(max_size=20)))
    def test_read_accepts_any_fields(self, fields):
        config, problems = address.read(fields, CORPORA)
        assert isinstance(config, SimulationConfig)
        assert len(problems) <= len(fields)

    def test_plain_escapes_markup(self):
        shown = address.plain("![x](http://evil) <b> `a` $x$ :red[y]")
        for sign in "![]()<>`$:":
            assert f"\\{sign}" in shown or sign not in shown

    @pytest.mark.parametrize(
        ("text", "shown"),
        [
            ("https://a.b", "https\\:\u2060//a.b"),
            ("www.a.b", "www\u2060.a.b"),
            ("a@b.c", "a\u2060@b.c"),
            (":smile: :material/home:", "\\:\u2060smile\\: \\:\u2060material/home\\:"),
            ("a -- b --c", "a \u2060\\-\\- b \\-\\-c"),
            ("    a\n\n1. b", "a 1. b"),
            ("1. b", "1\\. b"),
            ("\u202ea\x9b", "\\[U\\+202E\\]a\\[U\\+009B\\]"),
        ],
    )
    def test_plain_prevents_what_no_backslash_escapes(self, text, shown):
        assert address.plain(text) == shown


def test_chart_texts_are_literal():
    assert charts_shared.literal("<a href='x'>%{y}&lt;\u202e") == "&lt;a href='x'&gt;&#37;{y}&amp;lt;[U+202E]"


def run_of(state: RunState, records=(), **status) -> Run:
    return Run(run_id="a", config=SMALL, status=RunStatus(run_id="a", state=state, **status), records=tuple(records))


SPENT = PrivacySpent(epsilon=0.734, delta=1e-5, rdp_epsilon=1.03)


@pytest.mark.parametrize(
    ("estimate", "text"),
    [
        (Estimate(40, 10, 123), "about 40 s (10 s to 2 min)"),
        (Estimate(40, 38, 42), "about 40 s"),
        (Estimate(400, 400, 400, "a Xeon, 64 cores"), "about 7 min on another machine (a Xeon, 64 cores)"),
    ],
)
def test_estimate_text(estimate, text):
    assert messages.estimate(estimate) == text


PREVIEW = Preview(privacy=SPENT, tier="strong", train_sentences=9, steps=9, warnings=(), estimate=None)


def scored(correct: int, predicted: int, gold: int) -> EntityScores:
    counts = {"PER": Counts(correct, predicted, gold)}
    return EntityScores(strict=counts, relaxed=counts, token={})


class TestMessages:
    def test_answer_has_epsilon_scores_and_interval(self):
        final = dataclasses.replace(record(2), privacy=SPENT, test=scored(64, 90, 100))
        text = messages.answer(run_of(RunState.DONE, [final]), PREVIEW, scored(82, 100, 100))
        assert figures(text) == ["0.734", "1e-5", "64 %", "71 %", "0.67", "95 %", "0.57", "0.76", "0.82"]
        assert re.findall("ε|δ|F1", text) == ["ε", "δ", "F1", "F1"]

    def test_answer_notes_few_entities(self):
        final = dataclasses.replace(record(2), privacy=SPENT, test=scored(36, 36, 36))
        text = messages.answer(run_of(RunState.DONE, [final]), PREVIEW, None)
        assert figures(text.partition("F1")[2]) == ["1.00", "95 %", "0.90", "1.00", "36"]

    def test_answer_without_correct_entity(self):
        final = dataclasses.replace(record(2), privacy=SPENT, test=scored(0, 0, 100))
        text = messages.answer(run_of(RunState.DONE, [final]), PREVIEW, None)
        assert figures(text) == ["0.734", "1e-5", "0"]
        assert "no correct entity" in text

    @pytest.mark.parametrize(
        ("run", "numbers", "term"),
        [
            (None, ["0.734", "1e-5"], "ε = 0.734 (δ = 1e-5)"),
            (run_of(RunState.QUEUED, queue_place=1), ["1"], "Queued"),
            (run_of(RunState.QUEUED, queue_place=3), ["3"], "Queued"),
            (run_of(RunState.RUNNING, stage="reading the corpus"), [], "Reading the corpus …"),
            (run_of(RunState.FAILED, error="It broke."), [], "failed. It broke."),
        ],
    )
    def test_every_state_has_a_text(self, run, numbers, term):
        text = messages.answer(run, PREVIEW, None)
        assert figures(text) == numbers
        assert term in text.replace("\u00a0", " ")

    def test_cancelled_run_has_its_progress(self):
        text = messages.answer(run_of(RunState.CANCELLED, progress=0.37), PREVIEW, None)
        assert figures(text)[0] == "37 %"
        assert text.startswith("Stopped")

    def test_answer_notes_contamination(self):
        result = Overlap((10, 4, 8), (2, 0, 6), (0, 0, 0))
        preview = dataclasses.replace(PREVIEW, overlap=result)
        nothing = apply_contamination(SPENT, result)
        final = dataclasses.replace(record(2), privacy=nothing, test=scored(64, 90, 100))
        text = messages.answer(run_of(RunState.DONE, [final]), preview, None)
        assert text.startswith("Not private")
        assert figures(text)[0] == "64 %"
        assert "6 of 8 test sentences (75.0%)" in text
        assert "Wikigold" in text
        assert guarantee.paragraphs(nothing, SimulationConfig()) == [result.privacy_text]
        assert "2 of 10 training sentences (20.0%)" in guarantee.paragraphs(nothing, SimulationConfig())[0]
        assert messages.assumptions(nothing, SimulationConfig()).startswith("Not private")

    def test_guarantee_has_the_attackers_odds(self):
        first = guarantee.paragraphs(PrivacySpent(epsilon=math.log(3), delta=1e-5, rdp_epsilon=1.5), SMALL)[0]
        assert "at most 75.0\u00a0%" in first
        assert "no privacy guarantee" in guarantee.paragraphs(PrivacySpent(epsilon=math.inf, delta=1e-5), SMALL)[0]

    @pytest.mark.parametrize(
        ("epsilon", "text"),
        [
            (1.0, "**ε = 1**; an attacker is right at most 73.2 % of the time."),
            (10.466, "**ε = 10.5**; an attacker is right at most 99.998 % of the time."),
            (53.7, "**ε = 53.7**, a weak guarantee: an attacker can be right 100 % of the time."),
            (2232.03, "**ε = 2,232**, a weak guarantee: an attacker can be right 100 % of the time."),
        ],
    )
    def test_odds_have_significant_digits(self, epsilon, text):
        assert guarantee.odds(epsilon).replace("\u00a0", " ") == text

    def test_shuffled_batches_have_the_valid_epsilon(self):
        spent = dataclasses.replace(SPENT, accountant="exact", epsilon=12.3, poisson_epsilon=0.7)
        text, _, poisson, _ = guarantee.paragraphs(spent, SMALL)
        assert "ε\u00a0=\u00a012.3" in text
        assert figures(poisson) == ["0.7"]
        assert "not valid" in poisson

    @pytest.mark.parametrize(("seconds", "text"), [(0.2, "1 s"), (41, "41 s"), (200, "3 min"), (9000, "2.5 h")])
    def test_duration_text(self, seconds, text):
        assert messages.duration(seconds) == text


def test_missing_excludes_current_finished_and_active_runs():
    configs = [dataclasses.replace(SMALL, seed=seed) for seed in range(7)]
    states = (RunState.DONE, RunState.QUEUED, RunState.RUNNING, RunState.FAILED, RunState.CANCELLED)
    known = {config: run_of(state) for config, state in zip(configs, states, strict=False)}
    known[configs[5]] = dataclasses.replace(run_of(RunState.DONE), outdated=True)

    class Known:
        class queries:  # noqa: N801
            @staticmethod
            def find_all(configs):
                return {config: known.get(config) for config in configs}

    assert submitting.missing(Known(), configs) == [configs[3], configs[4], configs[5], configs[6]]


CLOSE = dataclasses.replace(
    check(),
    layers=(LayerNoise("LSTM forwards", 0.999, 0.0042),),
    least_visits=34,
    shape_distance=0.00021,
    along=0.31,
    along_spread=1.01,
    looks=6,
    looks_counted=4,
    largest_gap=0.00012,
)
"""A noise check with all measurements of the current engine."""


def row(table_text: str, title: str) -> list[str]:
    """Return the cells of the table row whose title has these words, including the title."""
    (line,) = (
        line for line in table_text.replace("\u00a0", " ").splitlines() if title in line and line.startswith("|")
    )
    return [cell.strip() for cell in line.strip("|").split("|")]


def cells(table_text: str, title: str) -> list[str]:
    """Return the cells of that row without its title."""
    return row(table_text, title)[1:]


class TestNoiseCheck:
    def test_answer_starts_with_a_failed_check(self):
        last = record(2, faults=("The noise on the weights has 0.0 % of what was planned.",))
        run = run_of(RunState.DONE, [record(0), record(1), last])
        text = messages.answer(run, PREVIEW, None)
        assert text.startswith("Not private")
        assert "noise check failed" in text
        assert "ε" not in text
        running = run_of(RunState.RUNNING, [record(0), record(1, faults=("It is off.",))])
        assert "not private" in messages.answer(running, PREVIEW, None)

    def test_label_and_table_of_a_check(self):
        assert messages.check_label(check()) == ":green[Noise check passed]"
        assert messages.check_label(check("It is off.")) == ":red[Noise check failed]"
        table_text = "\n".join(messages.check_paragraphs(check("It is off.")))
        assert cells(table_text, "each weight, σ · C") == ["1.4998", "1.5 ± 0.005"]
        assert cells(table_text, "gradient norm of 80 sentences") == ["1.5", "at most 1.5"]
        assert "- It is off." in table_text

    def test_compared_draws_are_listed_with_their_limits(self):
        compared = dataclasses.replace(CLOSE, draws_compared=5000, sampling_compared=900)
        text = "\n".join(messages.check_paragraphs(compared))
        assert "| 5,000, all equal | all equal |" in text
        assert "| 900, all equal | all equal |" in text
        assert "five standard deviations" in text
        assert "beyond four standard deviations" not in text
        assert "in every sample" not in text
        assert "training settings" in text
        of_clients = dataclasses.replace(compared, unit="client")
        assert "training settings" not in "\n".join(messages.check_paragraphs(of_clients))
        assert "beyond four standard deviations" in "\n".join(messages.check_paragraphs(CLOSE))

    def test_check_lists_each_layer(self):
        table_text = "\n".join(messages.check_paragraphs(CLOSE)).replace("\u00a0", " ")
        assert cells(table_text, "LSTM forwards") == ["99.90 %", "100 % ± 0.42 %"]
        assert cells(table_text, "Steps at which each weight was measured") == ["at least 34", "–"]
        assert cells(table_text, "normal distribution") == ["0.021 %", "near 0"]
        assert cells(table_text, "÷ σ · C") == ["+0.31 ± 1.01", "0 ± 1"]
        assert cells(table_text, "largest difference") == ["0.00012 clip norms", "0"]
        assert figures(row(table_text, "largest difference")[0]) == ["6", "4"]
        assert "one in a million" in table_text
        assert "clipping at 6 of 55 steps" in table_text
        assert "engine 5" not in table_text
        lines = "\n".join(check_lines(CLOSE))
        assert lines.startswith("Noise check passed, 55 steps measured")
        assert "Limits of the check:" in lines

    def test_sums_hidden_by_rounding_are_not_called_equal(self):
        table_text = "\n".join(messages.check_paragraphs(dataclasses.replace(CLOSE, looks_counted=0, largest_gap=0.0)))
        assert cells(table_text, "largest difference")[0] == "hidden by rounding"
        assert figures(row(table_text, "largest difference")[0]) == ["6", "0"]

    def test_check_of_engine_5_states_its_limits(self):
        for text in ("\n".join(messages.check_paragraphs(check())), "\n".join(check_lines(check()))):
            assert "not on all weights" in text
            assert "batches above 64 sentences" in text
            assert "one in a million" not in text

    def test_client_level_check_states_its_limits(self):
        table_text = "\n".join(messages.check_paragraphs(dataclasses.replace(CLOSE, unit="client", looks=0)))
        assert "clips each update as received" in table_text
        assert "clipping at" not in table_text

    def test_check_states_undetectable_faults(self):
        lines = "\n".join(check_lines(CLOSE))
        assert "does not detect noise truncated beyond four standard deviations" in lines
        assert (
            "In a run of few steps that each sample most of the sentences, the check cannot detect a sentence that is "
            "in every sample" in lines
        )
        assert "adds between 0.01 and 1 % of the noise variance" in lines
        assert "in every sample" not in "\n".join(check_lines(dataclasses.replace(CLOSE, batch_std_planned=None)))
        assert "In a run of few rounds that each sample most of the clients" in "\n".join(
            check_lines(dataclasses.replace(CLOSE, unit="client"))
        )

    def test_noise_hidden_by_rounding_has_not_passed_on_the_command_line(self):
        hidden = dataclasses.replace(CLOSE, noise_std=None, layers=())
        text = check_lines(hidden)[0]
        assert text.startswith("Noise check not possible")
        assert "rounding" in text
        assert figures(text) == ["55"]

    def test_noise_hidden_by_rounding_is_not_measurable(self):
        hidden = check(noise_std=None)
        assert messages.check_label(hidden) == "Noise not measurable"
        assert "only clipping and sampling were measured" in "\n".join(messages.check_paragraphs(hidden))

    def test_withheld_values_are_not_shown_and_the_result_is(self):
        table_text = "\n".join(messages.check_paragraphs(CLOSE.without_private_values()))
        for name in ("Noise on each weight", "Mean number of sentences in a step"):
            assert cells(table_text, name)[0] == "withheld"
        assert not any(title in table_text for title in ("LSTM forwards", "normal distribution", "largest difference"))
        assert "one in a million" in table_text
        assert messages.check_label(CLOSE.without_private_values()) == ":green[Noise check passed]"
        hidden = dataclasses.replace(CLOSE, noise_std=None).without_private_values()
        assert messages.check_label(hidden) == "Noise not measurable"
        assert not hidden.passed
        assert cells("\n".join(messages.check_paragraphs(hidden)), "Noise on each")[0] == "hidden by rounding"

    def test_failed_run_is_drawn_at_infinite_epsilon(self):
        nothing = dataclasses.replace(record(2).privacy, epsilon=math.inf)
        last = dataclasses.replace(record(2, faults=("It is off.",)), privacy=nothing)
        assert [point.epsilon for point in curves.path([record(0), record(1), last])] == [math.inf] * 3


class TestSpeed:
    STEP: ClassVar = {"keras_ms": 40.0, "ours_private_ms": 8.0, "tensorflow_privacy_ms": 640.0}

    def test_answer_has_both_ratios(self):
        text = speed.step_answer(self.STEP, "Some Processor")
        assert {"0.20", "80"} <= set(figures(text))
        assert "Keras" in text

    def test_texts_name_the_processor(self):
        rows = [{"floor_ms": 3.0, "ms": 5.0}]
        assert "Some Processor" in speed.step_answer(self.STEP, "Some Processor")
        assert "60 to 60 %" in speed.floor_sentence(rows, 192.4, "Some Processor")
        assert "192 GFLOP/s on Some Processor" in speed.floor_sentence(rows, 192.4, "Some Processor")

    def test_bars_are_measured_values_in_ascending_order(self):
        assert [bar.value for bar in speed.step_bars(self.STEP)] == [8.0, 40.0, 640.0]
        assert speed.step_rows(self.STEP)[1]["÷ ours, private"] == 5.0

    def test_charts_have_their_values(self):
        points = [(32, 12.0), (4096, 11.0)]
        assert list(speed.growth(points, title="sentences", key="k").data[0].y) == [12.0, 11.0]
        assert speed.bars(speed.step_bars(self.STEP), unit="ms", key="k").data[0].x[0] == 8.0


class TestUtilityChart:
    LIVE = tuple(record(number, of=9) for number in range(4))

    def chart(self, records, finished=(), planned=5.0, **options):
        points = curves.path(records), curves.finish(records), curves.tradeoff(finished)
        return charts.utility_by_epsilon(*points, planned=planned, key="k", **{"running": True} | options)

    def trace(self, figure, name):
        return next(trace for trace in figure.data if trace.name == name)

    def test_current_run_is_on_a_logarithmic_axis(self):
        figure = self.chart(self.LIVE)
        f1 = self.trace(figure, "F1, this run")
        assert list(f1.x) == pytest.approx([math.log10(0.5 * (number + 1)) for number in range(4)])
        assert list(f1.y) == pytest.approx([6 / 11] * 4)
        assert figure.layout.uirevision == "k"

    def test_infinite_epsilon_is_right_of_finite_values(self):
        without = [dataclasses.replace(each, privacy=PrivacySpent(epsilon=math.inf, delta=1e-5)) for each in self.LIVE]
        figure = self.chart(without, planned=math.inf)
        places = list(self.trace(figure, "F1, this run").x)
        tick = figure.layout.xaxis.tickvals[list(figure.layout.xaxis.ticktext).index("∞")]
        finite = [
            x for x, text in zip(figure.layout.xaxis.tickvals, figure.layout.xaxis.ticktext, strict=True) if text != "∞"
        ]
        assert places == sorted(places)
        assert min(places) > max(finite)
        assert max(places) < figure.layout.xaxis.range[1]
        assert tick > max(finite)

    def test_axis_range_is_constant_during_a_run(self):
        ranges = {tuple(self.chart(self.LIVE[:count]).layout.xaxis.range) for count in range(5)}
        assert len(ranges) == 1

    def test_hover_text_has_all_values(self):
        text = self.trace(self.chart(self.LIVE), "F1, this run").text[0]
        scores = ("precision 0.6", "recall 0.5", "F1 0.545")
        for part in ("ε = 0.5", *scores, "step 1 of 9", "loss 1.5", "clipped gradients 25%"):
            assert part in text

    def test_metrics_differ_in_symbol_and_dash(self):
        figure = self.chart(self.LIVE)
        traces = [self.trace(figure, f"{name}, this run") for name in ("Precision", "Recall", "F1")]
        assert len({trace.marker.symbol for trace in traces}) == 3
        assert len({trace.line.dash for trace in traces}) == 3
        assert len({trace.line.color for trace in traces}) == 3

    def test_finished_runs_have_a_trace(self):
        done = dataclasses.replace(
            run_of(RunState.DONE, [record(number) for number in range(3)]), provenance=provenance()
        )
        figure = self.chart(self.LIVE, [done])
        behind = self.trace(figure, "F1, finished")
        assert list(behind.x) == pytest.approx([math.log10(1.5)])
        assert "your run 2026-11-21" in behind.text[0]

    def test_final_result_replaces_the_target(self):
        records = [record(number) for number in range(3)]
        assert any("final ε" in note.text for note in self.chart(self.LIVE).layout.annotations)
        assert not any("final ε" in note.text for note in self.chart(records, running=False).layout.annotations)
        star = self.trace(self.chart(records, running=False), "F1, this run, test set")
        assert star.marker.symbol == "star"

    def test_entity_types_have_the_non_private_f1(self):
        types = curves.by_type(scored(3, 5, 6), scored(6, 6, 6))
        figure = charts.f1_by_type(types, private=True, key="k")
        assert list(figure.data[0].x) == pytest.approx([6 / 11])
        assert list(figure.data[1].x) == [1.0]
        assert len(charts.f1_by_type(types, private=False, key="k").data) == 1


def test_rows_have_all_records_and_the_test_scores():
    rows = curves.rows([record(number) for number in range(3)])
    assert [row["part"] for row in rows] == ["validation"] * 3 + ["test"]
    assert rows[-1]["f1"] == pytest.approx(8 / 11)


ZEROED = dataclasses.replace(SPENT, neighbouring=ZERO_OUT)
ROUNDS = FederationConfig(rounds=2, schedule="incremental")


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (dataclasses.replace(SMALL, data_fraction=0.5), "share of the data"),
        (dataclasses.replace(SMALL, federation=FederationConfig(clients=3)), "to clients by their positions"),
        (dataclasses.replace(SMALL, federation=FederationConfig(clients=3, partition="document")), "whole documents"),
        (dataclasses.replace(SMALL, federation=ROUNDS), "to phases"),
        (SimulationConfig(), "The program split the corpus"),
    ],
)
def test_zero_out_adjacency_states_what_one_more_sentence_may_move(config, expected):
    text = " ".join(guarantee.paragraphs(ZEROED, config))
    assert expected in text
    assert "added or removed" not in text + guarantee.worst_person(ZEROED, config)
    assert "replace" in guarantee.worst_person(ZEROED, config)
    assert "added or removed" in guarantee.worst_person(SPENT, config)
    assert ("several" in guarantee.worst_person(SPENT, config)) == (config.federation.clients > 1)


@pytest.mark.parametrize(("participants", "expected"), [(None, "no sampling"), (2, "Poisson sampling of clients")])
def test_sampling_of_dp_fedavg_is_that_of_clients(participants, expected):
    federation = FederationConfig(clients=3, participants=participants)
    config = dataclasses.replace(SMALL, federation=federation, privacy=PrivacyConfig(mechanism="dp-fedavg"))
    line = messages.assumptions(SPENT, config)
    assert expected in line
    assert line.count("sampling") == 1


@pytest.mark.parametrize(
    ("neighbouring", "accountant", "expected"),
    [
        ("add or remove one", "pld", "whether one more client took part"),
        ("replace all that one client has", "exact", "which of two sets of sentences one client has"),
    ],
)
def test_client_level_guarantee_differs_from_sentence_level(neighbouring, accountant, expected):
    spent = PrivacySpent(
        epsilon=2.0,
        delta=1e-5,
        unit="one client, with all its sentences",
        neighbouring=neighbouring,
        accountant=accountant,
        rdp_epsilon=2.5,
    )
    text = " ".join(guarantee.paragraphs(spent, SMALL))
    assert expected in text
    assert "every other training sentence" not in text
    assert ("Rényi" in text) == (accountant == "pld")


@pytest.mark.parametrize(
    ("state", "seconds", "stated"),
    [(RunState.RUNNING, 29.0, False), (RunState.RUNNING, 31.0, True), (RunState.QUEUED, 500.0, False)],
)
@pytest.mark.repeats(area="dashboard")
def test_silence_of_a_worker_is_stated_after_half_a_minute(state, seconds, stated):
    text = shared_messages.silence(RunStatus(run_id="a", state=state), seconds)
    assert ("no sign of life for" in text) is stated
    assert ("another worker continues the run" in text) is stated

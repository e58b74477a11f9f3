"""FedNER's cells stand for the right runs, and what is said of them is worked out right."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from engine.config import NOTHING, SimulationConfig
from engine.experiments import shared_parameters
from engine.experiments.papers import fedner_2020, fedner_2020_scores
from engine.experiments.statistics import paired_difference
from engine.federated.accounting import privacy_spent
from engine.federated.plan import federated_plan
from engine.records import Counts, EntityScores, PlatformRecord, Run, RunState, RunStatus, SidedCounts
from engine.reports.paper_tables import fedner_fields
from engine.seeds import Secrets
from engine.taggers import splits_of
from tests.engine.factories import record, scores

CELLS = fedner_2020.cells()


def cells(table: str, **setting) -> list[fedner_2020.Cell]:
    return [cell for cell in CELLS if cell.table == table and cell.setting == setting]


def cells_of(table: str) -> list[fedner_2020.Cell]:
    return [cell for cell in CELLS if cell.table == table]


def run(config: SimulationConfig, right: dict[str, int]) -> Run:
    """A finished run that found so many of 10 names on each platform."""
    tests = {name: named(number) for name, number in right.items()}
    last = record(2)
    if config.platforms:
        each = [PlatformRecord(name=name, privacy=last.privacy, scores=scores(), test=tests[name]) for name in tests]
        last = replace(last, test=EntityScores.together(tests), platforms=tuple(each))
    else:
        last = replace(last, test=next(iter(tests.values())))
    status = RunStatus(run_id=f"{config.seed:016x}", state=RunState.DONE)
    return Run(run_id=status.run_id, config=config, status=status, records=(last,))


def named(right: int) -> EntityScores:
    counts = {"X": Counts(right, 10, 10)}
    overlaps = {"X": SidedCounts(right, 10, 10, 10)}
    return EntityScores(strict=counts, relaxed=counts, token={}, many_to_many=overlaps)


def test_table_2_has_what_was_printed_and_where_a_corpus_is_another_nothing() -> None:
    printed = {
        cell.method: cell.published for cell in cells("table2", trained=fedner_2020.ALONE) if cell.platform == "ade"
    }
    assert printed["cnn-crf"]["strict_f1"] == 0.6146
    assert printed["lm-ner"]["relaxed_f1"] == 0.8744
    (together,) = (cell for cell in cells("table2") if cell.platform == "ade")
    assert together.published["strict_f1"] == 0.8257
    assert all(cell.published is None for cell in CELLS if cell.platform != "ade")
    assert sum(cell.table == "table2" for cell in CELLS) == 3 * (len(fedner_2020.BASELINES) + 4)


def test_share_printed_counts_the_reported_rows() -> None:
    seconds = {fedner_2020.what(cell): 1.0 for cell in cells_of("table2")} | {"LM-NER, alone": 3.0}
    printed = {fedner_2020.what(cell) for cell in cells_of("table2") if cell.published is not None}
    assert len(seconds) == 10
    assert len(printed) == 9  # alone, in both meanings, is compared with the same row
    assert fedner_2020.share_printed(seconds) == (7 + 3) / (9 + 3)


def test_settings_are_the_printed_ones() -> None:
    config = fedner_2020.federated()
    assert (config.training.batch_size, config.training.learning_rate, config.training.optimiser) == (64, 0.001, "adam")
    assert (config.tagger.hidden_size, config.tagger.dropout) == (200, 0.2)
    assert config.federation.shared == "characters,convolution"  # all below the LSTM, section 3.2
    assert config.platforms == ("ade@0", "psytar@0", "bc5cdr")
    assert not config.privacy.private


@pytest.mark.parametrize("method", fedner_2020.BASELINES)
def test_each_method_shares_a_part_that_it_has_and_keeps_its_scores(method) -> None:
    parts = fedner_2020.paper_split(method).split(",")
    assert set(parts) < set(splits_of(method))
    assert "scores" not in parts


def test_a_seed_splits_the_corpora_too() -> None:
    config = fedner_2020.with_seed(fedner_2020.federated(), 3)
    assert (config.seed, config.corpus) == (3, "ade@3 + psytar@3 + bc5cdr")
    assert fedner_2020.with_seed(config, 0) == fedner_2020.federated()


def test_alone_with_as_many_updates_has_the_steps_of_the_federation_and_shares_nothing() -> None:
    for cell in cells("table2", trained=fedner_2020.ALONE_AS_OFTEN):
        alone, together = cell.config, fedner_2020.federated()
        assert alone.federation.shared == NOTHING
        assert replace(alone, federation=together.federation) == together


def test_platforms_that_part_have_the_steps_of_those_that_do_not() -> None:
    for table in ("table2", "figure3"):
        for cell in cells(table, trained=fedner_2020.PARTED):
            together = fedner_2020.federated(share=cell.setting.get("share", 1.0))
            assert cell.config.federation.together == fedner_2020.TOGETHER
            assert replace(cell.config, federation=together.federation) == together


def test_who_parts_live_parts_where_something_is_shared() -> None:
    parting = fedner_2020.live(["ade", "psytar"], fedner_2020.SMALL, "hidden", fedner_2020.SENTENCE, parting=True)
    assert parting.federation.together == fedner_2020.TOGETHER
    assert fedner_2020.without_the_others(parting).federation.together == 1
    assert (
        fedner_2020.live(
            ["ade", "psytar"], fedner_2020.SMALL, NOTHING, fedner_2020.NOBODY, parting=True
        ).federation.together
        == 1
    )


def test_with_fewer_sentences_no_run_is_cut_short() -> None:
    steps = {share: share * epochs for share, epochs in fedner_2020.EPOCHS.items()}
    assert min(steps.values()) >= 0.5 * steps[1.0]


def test_all_runs_are_asked_for_once_the_first_seeds_first() -> None:
    wanted = fedner_2020.wanted()
    assert len(wanted) == len(set(wanted)) == 255
    assert [config.seed for config in wanted] == sorted(config.seed for config in wanted)
    assert {config.seed for config in fedner_2020.wanted(tables=["table2"])} == set(range(5))
    assert set(fedner_2020.wanted(tables=["figure6"])) < set(wanted)


def test_what_is_shared_goes_from_nothing_to_all() -> None:
    parts = [() if shared == NOTHING else tuple(shared.split(",")) for shared in fedner_2020.SPLITS]
    assert parts == [splits_of(fedner_2020.TAGGER)[:number] for number in range(len(parts))]
    assert parts[-1] == splits_of(fedner_2020.TAGGER)


def test_private_rows_spend_what_they_say() -> None:
    """On as many sentences as the three corpora train on, of which a seed moves a handful."""
    sizes = (3_383, 4_472, 4_540)
    platforms = np.split(np.arange(sum(sizes)), np.cumsum(sizes)[:-1])
    noised = [cell for cell in CELLS if cell.table == "private" and cell.setting["protects"] != fedner_2020.NOBODY]
    told = {(cell.config, cell.setting["epsilon"]) for cell in noised}
    assert {epsilon for _, epsilon in told} == set(fedner_2020.EPSILONS)
    for noise in {(c.privacy.mechanism, epsilon): c for c, epsilon in told}.items():
        (_, epsilon), config = noise
        plan = federated_plan(
            config, sum(sizes), lambda: pytest.fail("not needed"), lambda: Secrets.seeded(0, "run"), platforms=platforms
        )
        assert 0.97 * epsilon < privacy_spent(plan, plan.steps, len(plan.rounds)).epsilon <= epsilon


def test_who_sends_nothing_needs_no_noise_and_is_what_protected_platforms_are_held_against() -> None:
    found = {}
    for seed in range(2):
        config = fedner_2020.with_seed(
            fedner_2020.private(fedner_2020.SMALL, "hidden", fedner_2020.PLATFORM, 8.0), seed
        )
        assert config.training.averaging == 0  # own parts and shared weights of other rounds would not fit
        assert config.federation.rounds * config.training.epochs == pytest.approx(20)
        found[config] = run(config, dict.fromkeys(config.platforms, 3 + seed))
    assert not fedner_2020_scores.gains([fedner_2020_scores.measure(cell, found.get) for cell in cells_of("private")])
    for seed in range(2):
        silent = fedner_2020.with_seed(
            fedner_2020.live(list(fedner_2020.PLATFORMS), fedner_2020.SMALL, NOTHING, fedner_2020.NOBODY), seed
        )
        assert not silent.privacy.private
        found[silent] = run(silent, dict.fromkeys(silent.platforms, 5))
    gains = fedner_2020_scores.gains([fedner_2020_scores.measure(cell, found.get) for cell in cells_of("private")])
    assert [gain.mean for _, _, gain in gains] == pytest.approx([-0.15] * 3)
    (said,) = {fedner_2020.what(alone.cell) for _, alone, _ in gains}
    assert all(part in said for part in ("MLP, CRF", "no noise", "alone", "as many updates"))


def test_noise_that_protects_whole_platforms_is_as_long_as_the_page_says() -> None:
    config = fedner_2020.private(fedner_2020.SMALL, "hidden", fedner_2020.PLATFORM, 8.0)
    weights = shared_parameters.sent(shared_parameters.parts(config, [("A",)] * 3))
    assert weights == 77_312
    assert round(config.privacy.noise_multiplier * weights**0.5) == 748


def test_names_are_masked_with_and_without_the_others() -> None:
    by_share = {(cell.setting["masked"], cell.setting["trained"]): cell for cell in CELLS if cell.table == "figure5"}
    assert set(by_share) == {
        (m, way) for m in fedner_2020.MASKED for way in (fedner_2020.ALONE_AS_OFTEN, fedner_2020.FEDERATED)
    }
    for (share, way), cell in by_share.items():
        assert cell.config.federation.masked == share
        assert (cell.config.federation.shared == NOTHING) == (way == fedner_2020.ALONE_AS_OFTEN)
    assert by_share[0.0, fedner_2020.FEDERATED].config == fedner_2020.federated()


def test_a_platforms_own_scores_are_taken() -> None:
    config = fedner_2020.federated()
    found = run(config, {"ade@0": 5, "psytar@0": 2, "bc5cdr": 9})
    row = fedner_2020_scores.measure(
        next(iter(cells("figure4", shared="characters,convolution"))), lambda asked: found, 1
    )
    assert row.strict.f1.mean == 0.5
    by_platform = {cell.platform: fedner_2020_scores.on_platform(found, cell.platform).f1 for cell in CELLS}
    assert by_platform == {"ade": 0.5, "psytar": 0.2, "bc5cdr": 0.9}
    assert fedner_fields(row)["measured"]["strict_f1_mean"] == 0.5


def test_gains_are_paired_by_seed() -> None:
    found = {}
    for seed, (together, as_often, alone) in enumerate([(8, 7, 6), (6, 5, 5), (9, 8, 5)]):
        config = fedner_2020.with_seed(fedner_2020.federated(), seed)
        names = config.platforms
        found[config] = run(config, dict.fromkeys(names, together))
        nothing = fedner_2020.with_seed(fedner_2020.federated(shared=NOTHING), seed)
        found[nothing] = run(nothing, dict.fromkeys(names, as_often))
        for name in names:
            own = fedner_2020.with_seed(fedner_2020.setting(fedner_2020.corpus_of(name.partition("@")[0])), seed)
            found[own] = run(own, {name: alone})
    rows = [fedner_2020_scores.measure(cell, found.get) for cell in CELLS if cell.table == "table2"]
    gains = fedner_2020_scores.gains(rows)
    assert len(gains) == 6
    for within, by_itself, gain in gains:
        assert within.cell.method == fedner_2020.FEDERATED
        assert gain.number == 3
        differences = (
            [0.1, 0.1, 0.1] if by_itself.cell.setting["trained"] == fedner_2020.ALONE_AS_OFTEN else [0.2, 0.1, 0.4]
        )
        assert gain.mean == pytest.approx(sum(differences) / 3)
    assert gains[0][2].significant is False  # 0.2, 0.1, 0.4: the interval holds 0


def test_an_interval_is_students() -> None:
    values = [0.01, 0.03, -0.01, 0.02, 0.015]
    found = paired_difference(values)
    expected = stats.t.interval(0.95, 4, loc=found.mean, scale=stats.sem(values))
    assert found.interval == pytest.approx(expected)
    assert paired_difference([0.01, 0.011, 0.012]).significant

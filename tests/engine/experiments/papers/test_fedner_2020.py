"""The cells of FedNER's tables: configurations, scores, paired differences and ε."""

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
    """Return a finished run with a number of right entities, of 10, for each client."""
    tests = {name: scores_of(number) for name, number in right.items()}
    last = record(2)
    if config.platforms:
        each = [PlatformRecord(name=name, privacy=last.privacy, scores=scores(), test=tests[name]) for name in tests]
        last = replace(last, test=EntityScores.together(tests), platforms=tuple(each))
    else:
        last = replace(last, test=next(iter(tests.values())))
    status = RunStatus(run_id=f"{config.seed:016x}", state=RunState.DONE)
    return Run(run_id=status.run_id, config=config, status=status, records=(last,))


def scores_of(right: int) -> EntityScores:
    counts = {"X": Counts(right, 10, 10)}
    overlaps = {"X": SidedCounts(right, 10, 10, 10)}
    return EntityScores(strict=counts, relaxed=counts, token={}, many_to_many=overlaps)


def test_table_2_has_reported_values_for_ade_only() -> None:
    reported = {
        cell.method: cell.published for cell in cells("table2", trained=fedner_2020.ALONE) if cell.platform == "ade"
    }
    assert reported["cnn-crf"]["strict_f1"] == 0.6146
    assert reported["lm-ner"]["relaxed_f1"] == 0.8744
    (together,) = (cell for cell in cells("table2") if cell.platform == "ade")
    assert together.published["strict_f1"] == 0.8257
    assert all(cell.published is None for cell in CELLS if cell.setting.get("trained") == fedner_2020.ALONE_AS_OFTEN)
    assert all(cell.published is None for cell in CELLS if cell.platform != "ade")
    assert sum(cell.table == "table2" for cell in CELLS) == 3 * (len(fedner_2020.BASELINES) + 4)


def test_share_printed_is_the_time_share_of_reported_rows() -> None:
    seconds = {fedner_2020.what(cell): 1.0 for cell in cells_of("table2")} | {"LM-NER, alone": 3.0}
    reported = {fedner_2020.what(cell) for cell in cells_of("table2") if cell.published is not None}
    assert len(seconds) == 10
    assert len(reported) == 8
    assert fedner_2020.share_printed(seconds) == (7 + 3) / (9 + 3)


def test_federated_has_the_paper_settings() -> None:
    config = fedner_2020.federated()
    assert (config.training.batch_size, config.training.learning_rate, config.training.optimiser) == (64, 0.001, "adam")
    assert (config.tagger.hidden_size, config.tagger.dropout) == (200, 0.2)
    assert config.federation.shared == "characters,convolution"  # all below the LSTM, section 3.2
    assert config.platforms == ("ade@0", "psytar@0", "bc5cdr")
    assert not config.privacy.private


@pytest.mark.parametrize("method", fedner_2020.BASELINES)
def test_paper_split_shares_parts_of_the_tagger_without_scores(method) -> None:
    parts = fedner_2020.paper_split(method).split(",")
    assert set(parts) < set(splits_of(method))
    assert "scores" not in parts


def test_with_seed_sets_the_split_of_the_corpora() -> None:
    config = fedner_2020.with_seed(fedner_2020.federated(), 3)
    assert (config.seed, config.corpus) == (3, "ade@3 + psytar@3 + bc5cdr")
    assert fedner_2020.with_seed(config, 0) == fedner_2020.federated()


def test_alone_as_often_differs_from_the_federation_in_sharing_only() -> None:
    for cell in cells("table2", trained=fedner_2020.ALONE_AS_OFTEN):
        alone, together = cell.config, fedner_2020.federated()
        assert alone.federation.shared == NOTHING
        assert replace(alone, federation=together.federation) == together


def test_parted_clients_differ_in_the_joint_fraction_only() -> None:
    for table in ("table2", "figure3"):
        for cell in cells(table, trained=fedner_2020.PARTED):
            together = fedner_2020.federated(share=cell.setting.get("share", 1.0))
            assert cell.config.federation.together == fedner_2020.TOGETHER
            assert replace(cell.config, federation=together.federation) == together


def test_live_parting_needs_shared_layers() -> None:
    parting = fedner_2020.live(["ade", "psytar"], fedner_2020.SMALL, "hidden", fedner_2020.SENTENCE, parting=True)
    assert parting.federation.together == fedner_2020.TOGETHER
    assert fedner_2020.without_the_others(parting).federation.together == 1
    assert (
        fedner_2020.live(
            ["ade", "psytar"], fedner_2020.SMALL, NOTHING, fedner_2020.UNPROTECTED, parting=True
        ).federation.together
        == 1
    )


def test_smaller_shares_train_at_least_half_as_many_steps() -> None:
    steps = {share: share * epochs for share, epochs in fedner_2020.EPOCHS.items()}
    assert min(steps.values()) >= 0.5 * steps[1.0]


def test_wanted_lists_runs_once_in_order_of_seeds() -> None:
    configs = fedner_2020.wanted()
    assert len(configs) == len(set(configs)) == 255
    assert [config.seed for config in configs] == sorted(config.seed for config in configs)
    assert {config.seed for config in fedner_2020.wanted(tables=["table2"])} == set(range(5))
    assert set(fedner_2020.wanted(tables=["figure6"])) < set(configs)


def test_splits_range_from_nothing_to_all_parts() -> None:
    parts = [() if shared == NOTHING else tuple(shared.split(",")) for shared in fedner_2020.SPLITS]
    assert parts == [splits_of(fedner_2020.TAGGER)[:number] for number in range(len(parts))]
    assert parts[-1] == splits_of(fedner_2020.TAGGER)


def test_private_rows_spend_their_epsilon() -> None:
    """With the numbers of training sentences of the three corpora, which a seed hardly changes."""
    sizes = (3_383, 4_472, 4_540)
    platforms = np.split(np.arange(sum(sizes)), np.cumsum(sizes)[:-1])
    with_noise = [
        cell for cell in CELLS if cell.table == "private" and cell.setting["protects"] != fedner_2020.UNPROTECTED
    ]
    targets = {(cell.config, cell.setting["epsilon"]) for cell in with_noise}
    assert {epsilon for _, epsilon in targets} == set(fedner_2020.EPSILONS)
    for noise in {(c.privacy.mechanism, epsilon): c for c, epsilon in targets}.items():
        (_, epsilon), config = noise
        plan = federated_plan(
            config, sum(sizes), lambda: pytest.fail("not needed"), lambda: Secrets.seeded(0, "run"), platforms=platforms
        )
        assert 0.97 * epsilon < privacy_spent(plan, plan.steps, len(plan.rounds)).epsilon <= epsilon


def test_gains_of_private_rows_use_runs_without_sharing_as_baseline() -> None:
    results = {}
    for seed in range(2):
        config = fedner_2020.with_seed(
            fedner_2020.private(fedner_2020.SMALL, "hidden", fedner_2020.PLATFORM, 8.0), seed
        )
        assert config.training.averaging == 0  # the private head would not fit shared weights of other rounds
        assert config.federation.rounds * config.training.epochs == pytest.approx(20)
        results[config] = run(config, dict.fromkeys(config.platforms, 3 + seed))
    assert not fedner_2020_scores.gains([fedner_2020_scores.measure(cell, results.get) for cell in cells_of("private")])
    for seed in range(2):
        silent = fedner_2020.with_seed(
            fedner_2020.live(list(fedner_2020.PLATFORMS), fedner_2020.SMALL, NOTHING, fedner_2020.UNPROTECTED), seed
        )
        assert not silent.privacy.private
        results[silent] = run(silent, dict.fromkeys(silent.platforms, 5))
    gains = fedner_2020_scores.gains([fedner_2020_scores.measure(cell, results.get) for cell in cells_of("private")])
    assert [gain.mean for _, _, gain in gains] == pytest.approx([-0.15] * 3)
    (description,) = {fedner_2020.what(alone.cell) for _, alone, _ in gains}
    assert all(part in description for part in ("MLP, CRF", "no noise", "alone", "as many updates"))


def test_client_level_noise_has_the_norm_shown_on_the_page() -> None:
    config = fedner_2020.private(fedner_2020.SMALL, "hidden", fedner_2020.PLATFORM, 8.0)
    weights = shared_parameters.sent(shared_parameters.parts(config, [("A",)] * 3))
    assert weights == 77_312
    assert round(config.privacy.noise_multiplier * weights**0.5) == 748


def test_figure_5_masks_with_and_without_federation() -> None:
    by_share = {(cell.setting["masked"], cell.setting["trained"]): cell for cell in CELLS if cell.table == "figure5"}
    assert set(by_share) == {
        (m, method) for m in fedner_2020.MASKED for method in (fedner_2020.ALONE_AS_OFTEN, fedner_2020.FEDERATED)
    }
    for (share, method), cell in by_share.items():
        assert cell.config.federation.masked == share
        assert (cell.config.federation.shared == NOTHING) == (method == fedner_2020.ALONE_AS_OFTEN)
    assert by_share[0.0, fedner_2020.FEDERATED].config == fedner_2020.federated()


def test_measure_uses_the_scores_of_the_cells_client() -> None:
    config = fedner_2020.federated()
    finished = run(config, {"ade@0": 5, "psytar@0": 2, "bc5cdr": 9})
    row = fedner_2020_scores.measure(
        next(iter(cells("figure4", shared="characters,convolution"))), lambda config: finished, 1
    )
    assert row.strict.f1.mean == 0.5
    by_platform = {cell.platform: fedner_2020_scores.on_platform(finished, cell.platform).f1 for cell in CELLS}
    assert by_platform == {"ade": 0.5, "psytar": 0.2, "bc5cdr": 0.9}
    assert fedner_fields(row)["measured"]["strict_f1_mean"] == 0.5


def test_gains_are_paired_by_seed() -> None:
    results = {}
    for seed, (together, as_often, alone) in enumerate([(8, 7, 6), (6, 5, 5), (9, 8, 5)]):
        config = fedner_2020.with_seed(fedner_2020.federated(), seed)
        names = config.platforms
        results[config] = run(config, dict.fromkeys(names, together))
        nothing = fedner_2020.with_seed(fedner_2020.federated(shared=NOTHING), seed)
        results[nothing] = run(nothing, dict.fromkeys(names, as_often))
        for name in names:
            own = fedner_2020.with_seed(fedner_2020.setting(fedner_2020.corpus_of(name.partition("@")[0])), seed)
            results[own] = run(own, {name: alone})
    rows = [fedner_2020_scores.measure(cell, results.get) for cell in CELLS if cell.table == "table2"]
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


def test_paired_difference_has_a_students_t_interval() -> None:
    values = [0.01, 0.03, -0.01, 0.02, 0.015]
    difference = paired_difference(values)
    expected = stats.t.interval(0.95, 4, loc=difference.mean, scale=stats.sem(values))
    assert difference.interval == pytest.approx(expected)
    assert paired_difference([0.01, 0.011, 0.012]).significant

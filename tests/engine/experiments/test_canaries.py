"""Canaries in a real training, and attacks that distinguish a broken run from a correct one."""

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest

from benchmarks.audit_broken import CANARIES, SETTING, half_the_noise, no_clipping, no_noise
from engine.config import SimulationConfig
from engine.embeddings.contamination import Overlap
from engine.embeddings.encoding import subset
from engine.errors import InvalidConfig
from engine.experiments import canaries, canary_sentences
from engine.experiments.canaries import CanaryBackend, Directions, SentenceBackend
from engine.privacy.accounting import gaussian_epsilon
from engine.privacy.audit import applicability, calibration, multi_run
from engine.privacy.plan import PrivacyPlan
from engine.seeds import Secrets
from engine.simulation.setup import prepare
from engine.training.dpsgd import DPSGD
from tests.engine.privacy.runs_to_sabotage import central

SECRETS = Secrets.seeded(0, "canaries")


def test_directions_are_orthonormal() -> None:
    found = Directions(7, 100, SECRETS)
    each = np.zeros((7, 100))
    for number, vector in enumerate(each):
        found.add(np.eye(7)[number], vector)
    np.testing.assert_allclose(each @ each.T, np.eye(7), atol=1e-12)
    np.testing.assert_allclose([found.project(vector) for vector in each], np.eye(7), atol=1e-12)


def test_members_are_drawn_with_probability_half_per_run() -> None:
    members = Directions(10_000, 10_000, SECRETS).members
    assert abs(members.mean() - 0.5) < 0.025
    assert not np.array_equal(members, Directions(10_000, 10_000, Secrets.seeded(1, "canaries")).members)


@pytest.mark.parametrize("number", [0, 101])
def test_directions_refuses_more_canaries_than_weights(number: int) -> None:
    with pytest.raises(InvalidConfig, match=rf"canaries={number},.* 1 to 100\b"):
        Directions(number, 100, SECRETS)


def test_canary_backend_keeps_sentences_and_clips_canaries() -> None:
    run = central("linear-1024")
    directions = Directions(50, run.weights.size, SECRETS)
    inside, out = np.flatnonzero(directions.members)[:2], np.flatnonzero(~directions.members)[:1]
    plain, own = run.clipped_sum(np.arange(30))
    backend = run.backend = CanaryBackend(run.backend, directions, 4000 - 50, 1.0, 3)
    numbers = np.concatenate([np.arange(30), 3950 + inside, 3950 + out])
    total, found = run.clipped_sum(numbers)
    amounts = np.zeros(50)
    amounts[inside] = run.plan.clip_norm
    np.testing.assert_array_equal(backend.added, amounts)
    directions.add(amounts, plain)
    np.testing.assert_allclose(total, plain, atol=1e-6)
    assert sorted(found.norms) == pytest.approx(sorted([*own.norms, 1.0, 1.0, 0.0]), rel=1e-6)


def measured(
    wrong: Callable[[DPSGD], None] = lambda learner: None,
    number: int = CANARIES,
    kind: str = "directions",
    **changes: object,
):
    return canaries.measure(SimulationConfig.from_flat(SETTING | changes), SETTINGS[0], number, kind=kind, wrong=wrong)


SETTINGS: list = []


@pytest.fixture(autouse=True)
def use_settings(trained_settings) -> None:
    SETTINGS[:] = [trained_settings]


@pytest.mark.repeats
@pytest.mark.parametrize("seed", [0, 1])
def test_a_correct_run_is_not_contradicted_and_has_a_positive_bound(seed: int) -> None:
    found = measured(seed=seed)
    assert not found.contradicted
    assert not found.check_failed
    assert 0 < found.bound_of_steps <= found.claimed
    assert found.bound_of_trials <= found.claimed
    assert found.bound <= found.claimed
    assert found.made == found.canaries == CANARIES
    plan = PrivacyPlan.from_config(SimulationConfig.from_flat(SETTING), found.examples)
    simulated = multi_run.correct(*calibration.dp_sgd_steps(plan, CANARIES, np.random.default_rng(seed)))
    right, made = found.trials
    assert made == simulated[1]
    assert abs(right - simulated[0]) < 4 * np.sqrt(made / 2), "the calibration has the training's power"


@pytest.mark.repeats
@pytest.mark.parametrize("wrong", [half_the_noise, no_noise, no_clipping])
def test_a_broken_run_is_contradicted(wrong: Callable[[DPSGD], None]) -> None:
    found = measured(wrong)
    assert found.contradicted
    assert found.bound_of_trials > 1.1 * found.claimed
    assert found.check_failed, "the noise check finds it too"


@pytest.mark.repeats
def test_attack_without_noise_guesses_correctly() -> None:
    found = measured(number=300, noise_multiplier=0.0, clip_norm=None)
    assert found.claimed == np.inf
    assert found.bound > 2
    assert found.right > 0.9 * found.made, "all except canaries that no step sampled"
    assert found.check_failed is None
    assert not found.contradicted


def test_sentences_that_the_features_were_fitted_on_have_no_claim(monkeypatch) -> None:
    overlap = Overlap(sentences=(4_400, 0, 0), shared=(1, 0, 0))
    monkeypatch.setattr("engine.embeddings.contamination.overlap", lambda *_: overlap)
    assert measured(number=20, epochs=0.1).claimed == np.inf


def test_shuffled_batches_have_no_poisson_sampling_bound() -> None:
    """A Gaussian mechanism of sensitivity √(5E)·C over E epochs (Balle and Wang 2018), not sampled steps."""
    found = measured(number=100, sampling="shuffle", epochs=2.0)
    sigma = SimulationConfig.from_flat(SETTING).privacy.noise_multiplier
    assert found.claimed == pytest.approx(gaussian_epsilon(10**0.5 / sigma, found.delta))
    assert (found.bound_of_steps, found.bound_of_trials) == (0.0, None)
    assert not found.contradicted


@pytest.mark.parametrize(
    ("changes", "words"), [({"clients": 3}, "clients=3"), ({"clipping": "per-layer"}, "clipping='per-layer'")]
)
def test_unsupported_configurations_are_refused(changes: dict[str, object], words: str) -> None:
    with pytest.raises(InvalidConfig, match=words):
        measured(**changes)


@pytest.mark.repeats
def test_a_run_with_canaries_is_not_stored(trained_settings) -> None:
    measured(number=50)
    assert not (trained_settings.home / "runs.sqlite").exists()
    assert not (trained_settings.home / "models").exists()


def test_generated_sentences_reorder_one_sentence_and_have_two_entities(trained_settings) -> None:
    (side,) = prepare(SimulationConfig(), trained_settings).sides
    train, tags = side.encoded.train, side.encoded.tags
    made, places = canary_sentences.generate_sentences(train, 40, tags, np.random.default_rng(0))
    np.testing.assert_array_equal(train.rows[places], made.rows)
    known = {tuple(sorted(train.rows[a:b])) for a, b in pairwise(train.offsets.tolist())}
    assert all(tuple(sorted(made.rows[a:b])) in known for a, b in pairwise(made.offsets.tolist()))
    names = [[tags[tag] for tag in made.tags[a:b] if tags[tag] != "O"] for a, b in pairwise(made.offsets.tolist())]
    assert all(len(each) == 2 and all(tag.startswith("B-") for tag in each) for each in names)
    both = canary_sentences.concatenate(train, made)
    assert len(both) == len(train) + 40
    np.testing.assert_array_equal(both.rows[both.offsets[-2] :], made.rows[made.offsets[-2] :])
    with pytest.raises(InvalidConfig, match="sentences=1"):
        canary_sentences.generate_sentences(
            subset(train, np.array([train.lengths.argmin()])), 3, ("O",), np.random.default_rng(0)
        )


def test_excluded_sentences_have_no_gradient() -> None:
    run = central("linear-1024")
    members = np.array([True, False] * 25)
    included = np.concatenate([np.arange(30), 3950 + np.flatnonzero(members)])
    expected, own = run.clipped_sum(included)
    run.backend = SentenceBackend(run.backend, members, 3950, 3)
    total, found = run.clipped_sum(np.concatenate([included, 3950 + np.flatnonzero(~members)]))
    np.testing.assert_allclose(total, expected, atol=1e-5)
    assert sorted(found.norms) == pytest.approx(sorted([*own.norms, *[0.0] * 25]), rel=1e-5)
    nothing, _ = run.clipped_sum(3950 + np.flatnonzero(~members))
    assert not nothing.any()


@pytest.mark.repeats
def test_black_box_bound_rises_with_less_noise() -> None:
    """A tagger learns generated sentences without noise, and hardly with noise."""
    options = {"number": 600, "epochs": 12.0, "kind": "sentences"}
    free = measured(noise_multiplier=0.0, clip_norm=None, **options)
    noisy = measured(**options)
    assert free.right > 0.65 * free.made
    assert free.bound > 1
    assert free.bound_of_trials is None
    assert noisy.right < 0.6 * noisy.made
    assert noisy.best <= noisy.claimed
    assert not noisy.check_failed


@pytest.mark.parametrize("kind", ["directions", "sentences"])
@pytest.mark.repeats
def test_canaries_support_taggers_with_several_layers(kind: str) -> None:
    """There are so many canaries that some steps sample canaries only."""
    small = {"tagger": "bilstm-tddl", "hidden_size": 4, "window": 0, "data_fraction": 0.01, "batch_size": 4}
    assert measured(number=300, kind=kind, **small).canaries == 300


def test_default_number_of_white_box_canaries_is_in_the_thousands() -> None:
    """It is limited by the sentences, whose sampling probability canaries lower, and by the weights."""
    assert applicability.white_box_canaries(14_041, 40_000) == 7020
    assert applicability.white_box_canaries(10**6, 40_000) == 8000
    assert applicability.white_box_canaries(300, 40_000) == 1000
    assert applicability.white_box_canaries(14_041, 500) == 500


def test_unknown_kind_is_refused() -> None:
    with pytest.raises(InvalidConfig, match="kind='words'"):
        measured(kind="words")

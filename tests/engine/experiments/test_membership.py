"""Membership inference on real trainings: it succeeds without noise and fails with it."""

from dataclasses import replace

import numpy as np
import pytest

from engine.config import JOIN, SimulationConfig
from engine.embeddings.contamination import Overlap
from engine.embeddings.encoding import subset
from engine.errors import InvalidConfig
from engine.experiments import membership
from engine.privacy.audit.membership import allowed, area, bayes, phi_of
from engine.records import RATES, SHOWN, PrivacySpent
from engine.simulation.setup import prepare
from engine.training.dpsgd import losses
from engine.training.model import Model

FLAT = {
    "corpus": "synthetic",
    "tagger": "linear-crf",
    "noise_multiplier": 0.0,
    "clip_norm": None,
    "batch_size": 200,
    "epochs": 15.0,
    "optimiser": "adam",
    "learning_rate": 0.05,
    "data_fraction": 0.2,
}


def config(**changes: object) -> SimulationConfig:
    return SimulationConfig.from_flat(FLAT | changes)


TRAINED: list[membership.Known] = []


@pytest.fixture
def trained(trained_settings) -> membership.Known:
    """Return six models without noise, trained once."""
    if not TRAINED:
        TRAINED.append(membership.train(config(), trained_settings, 5))
    return TRAINED[0]


@pytest.mark.repeats
def test_each_model_is_trained_on_its_own_random_half(trained):
    each = trained.inside.sum(1)
    assert (each == each[0]).all()
    assert each[0] == pytest.approx(0.1 * trained.phi.shape[1], abs=1)
    assert len({row.tobytes() for row in trained.inside}) == len(trained.phi) == 6
    assert np.isinf(trained.claimed)
    assert set().union(*trained.types) == {"DATE", "LOC", "ORG", "PER"}


@pytest.mark.repeats
def test_claimed_epsilon_is_the_maximum_over_models(trained_settings, monkeypatch):
    """Clients of one half may have fewer sentences than those of another."""
    epsilons = iter([1.0, 3.0, 2.0, 2.0])
    monkeypatch.setattr(membership, "privacy_spent", lambda *_: PrivacySpent(epsilon=next(epsilons), delta=1e-5))
    assert membership.train(config(epochs=1.0), trained_settings, 3).claimed == 3.0


def test_sentences_that_the_features_were_fitted_on_have_no_claim(trained_settings, monkeypatch):
    overlap = Overlap(sentences=(4_400, 0, 0), shared=(1, 0, 0))
    monkeypatch.setattr("engine.embeddings.contamination.overlap", lambda *_: overlap)
    private = config(epochs=0.1, noise_multiplier=1.0, clip_norm=0.1)
    assert membership.train(private, trained_settings, 3).claimed == np.inf


@pytest.mark.repeats
def test_membership_inference_succeeds_without_noise(trained):
    result = membership.infer(trained)
    assert result.models == 6
    assert result.references == 5
    assert result.strongest.area == max(curve.area for curve in result.curves) > 0.55
    for curve in result.curves:
        assert len(curve.caught) == len(RATES)
        assert curve.caught[-1] == 1.0
        assert (np.diff(curve.caught) >= 0).all()
        for (mean, low, high), rate in zip(curve.shown, SHOWN, strict=True):
            assert 0 <= low <= mean <= high <= 1
            assert mean >= 0.5 * rate
    assert set(result.by_type) == {"DATE", "LOC", "ORG", "PER"}
    assert result.by_client == {"1": pytest.approx(result.strongest.area)}
    worst = result.at_risk[0][0]
    inside = trained.inside[:, worst]
    assert trained.phi[inside, worst].mean() > trained.phi[~inside, worst].mean()
    assert [apart for _, apart in result.at_risk] == sorted((apart for _, apart in result.at_risk), reverse=True)


@pytest.mark.repeats
def test_membership_inference_fails_with_noise(trained, trained_settings):
    private = membership.train(config(noise_multiplier=6.0, clip_norm=0.1), trained_settings, 5)
    assert private.claimed < 2
    result = membership.infer(private)
    assert result.strongest.area < membership.infer(trained).strongest.area - 0.03
    rates = np.array(RATES)
    noise = 4 * np.sqrt(rates * (1 - rates) / (result.models * trained.inside[0].sum())) + 1e-3
    assert (np.array(result.strongest.caught) <= allowed(rates, private.claimed, private.delta) + noise).all()


@pytest.mark.repeats
def test_train_records_the_client_of_each_sentence(trained_settings):
    result = membership.train(config(clients=3, rounds=2, epochs=2.0), trained_settings, 3)
    assert set(result.client[0]) == {-1, 0, 1, 2}
    assert set(membership.infer(result).by_client) == {"1", "2", "3"}


@pytest.mark.repeats
def test_a_saved_model_is_attacked_with_shadow_models_without_the_sentence(trained_settings):
    """The model is trained on all training sentences, each shadow model on half of all sentences."""
    whole = config(data_fraction=1.0, epochs=4.0)
    prepared = prepare(whole, trained_settings)
    (side,) = prepared.sides
    for _ in prepared.run.train(0, 0):
        pass
    model = Model(
        run_id=prepared.run_id,
        config=whole,
        weights=prepared.run.average.weights.copy(),
        tags=side.encoded.tags,
        dimensions=side.encoded.vectors.shape[1],
        copied=side.encoded.copied,
        engine_version=prepared.engine_version,
        epsilon=float("inf"),
        delta=1e-5,
    )
    result = membership.of_model(model, trained_settings, 3)
    assert result.models == 1
    total = len(side.encoded.train) + len(side.encoded.validation)
    assert 0.9 * total < result.sentences < total, "sentences that all four shadow models were trained on are left out"
    assert result.strongest.area > 0.5
    assert all(number < len(side.encoded.train) for number, _ in result.at_risk), "only members are at risk"


def test_scores_belong_to_the_target_model(trained):
    """With the membership of another model, the attack is worse."""
    right = area(bayes(trained.phi, trained.inside, 0), trained.inside[0])
    wrong = area(bayes(trained.phi, trained.inside, 0), trained.inside[1])
    assert right > wrong + 0.03


def test_losses_do_not_depend_on_the_batch(trained_settings):
    prepared = prepare(config(), trained_settings)
    (side,) = prepared.sides
    holding, weights = side.holding, prepared.run.weights
    result = losses(holding.backend, weights, holding.split, holding.table)
    few = np.array([7, 3, 11])
    alone = losses(holding.backend, weights, subset(holding.split, few), holding.table)
    np.testing.assert_allclose(result[few], alone, rtol=1e-5)
    assert np.isfinite(phi_of(result)).all()


@pytest.mark.parametrize("number", [2, 257])
def test_references_out_of_range_are_refused(number, trained_settings):
    with pytest.raises(InvalidConfig, match=rf"references={number},.* 3 to 256\b"):
        membership.train(config(), trained_settings, number)


def test_silos_are_refused(trained_settings):
    both = replace(config(), corpus=JOIN.join(("ade@0", "psytar@0")))
    with pytest.raises(InvalidConfig, match="platforms=2"):
        membership.train(both, trained_settings)

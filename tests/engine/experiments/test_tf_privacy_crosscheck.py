"""TensorFlow Privacy's own optimiser agrees with ours."""

from dataclasses import replace

import numpy as np
import pytest

from engine.config import PrivacyConfig, SimulationConfig, TaggerConfig, TrainingConfig
from engine.errors import InvalidConfig
from engine.experiments.tf_privacy_crosscheck import AGREEMENT, TensorFlowPrivacy, second_opinions
from engine.taggers import build
from engine.training.batches import Batch
from engine.training.compiled.backend import CompiledBackend
from tests.engine.factories import SMALL


@pytest.mark.contract
@pytest.mark.repeats(after=1)
@pytest.mark.parametrize(("tagger", "loss"), [("bilstm-tddl", "mean"), ("bilstm-crf", "sum")])
def test_clipped_means_agree_and_the_noise_has_the_same_scale(trained_settings, tagger: str, loss: str) -> None:
    config = replace(
        SMALL,
        tagger=TaggerConfig(name=tagger, hidden_size=16),
        training=TrainingConfig(batch_size=4, epochs=2.0, loss=loss),
        privacy=PrivacyConfig(noise_multiplier=1.3, clip_norm=0.7),
    )
    opinions = list(second_opinions(config, trained_settings, 1))
    assert len(opinions) == 1
    for opinion in opinions:
        assert opinion.difference < AGREEMENT
        assert opinion.our_noise == pytest.approx(0.91, abs=opinion.tolerance)
        assert opinion.their_noise == pytest.approx(0.91, abs=opinion.tolerance)
        assert opinion.agrees


@pytest.mark.repeats
def test_a_wrong_clip_norm_is_detected() -> None:
    tagger = build(TaggerConfig(hidden_size=6), 5, 3)
    random = np.random.default_rng(0)
    weights, lengths = 3 * tagger.initial_weights(random), np.array([6, 4, 1])
    words = random.standard_normal((11, 5)).astype(np.float32)
    batch = Batch(np.arange(3), words, np.arange(11), random.integers(0, 3, 11).astype(np.int32), lengths)
    theirs = TensorFlowPrivacy(tagger, mean=True).update(weights, batch, 0.2, 0.0)
    same, other = (CompiledBackend(tagger).clipped_gradient(weights, batch, clip).total / 3 for clip in (0.2, 0.22))
    assert np.linalg.norm(same - theirs) < AGREEMENT * np.linalg.norm(theirs)
    assert np.linalg.norm(other - theirs) > 100 * AGREEMENT * np.linalg.norm(theirs)


def test_unsupported_runs_are_refused(trained_settings) -> None:
    config = SimulationConfig(privacy=PrivacyConfig(noise_multiplier=0.0))
    with pytest.raises(InvalidConfig, match="noise_multiplier=0"):
        next(second_opinions(config, trained_settings, 1))
    with pytest.raises(InvalidConfig, match=r"tagger='mlp-crf',.* bilstm-tddl, bilstm-crf"):
        next(second_opinions(SimulationConfig.from_flat({"tagger": "mlp-crf"}), trained_settings, 1))
    by_layer = replace(SMALL, privacy=PrivacyConfig(clipping="per-layer"))
    with pytest.raises(InvalidConfig, match=r"clipping='per-layer', mechanism='dp-sgd',.* joint"):
        next(second_opinions(by_layer, trained_settings, 1))
    of_clients = SimulationConfig.from_flat({"clients": 5, "mechanism": "dp-fedavg"})
    with pytest.raises(InvalidConfig, match="clipping='joint', mechanism='dp-fedavg', expected"):
        next(second_opinions(of_clients, trained_settings, 1))
    with pytest.raises(InvalidConfig, match="steps=0"):
        next(second_opinions(SMALL, trained_settings, 0))

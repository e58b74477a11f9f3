"""Privacy plans derived from configurations, in limit cases."""

import math
from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest

from engine.config import FederationConfig, PrivacyConfig, SimulationConfig, TrainingConfig
from engine.errors import InvalidConfig
from engine.privacy.mechanisms import add_gaussian_noise, poisson_sample, shuffled_batch
from engine.privacy.plan import PrivacyPlan, tier
from engine.seeds import Secrets, Seeds


def planned(examples: int, batch_size: int = 8, epochs: float = 2, **privacy: object) -> PrivacyPlan:
    config = SimulationConfig(
        training=TrainingConfig(batch_size=batch_size, epochs=epochs),
        privacy=PrivacyConfig(**privacy),
    )
    return PrivacyPlan.from_config(config, examples)


def test_plan_follows_from_config() -> None:
    chosen = {"noise_multiplier": 1.3, "clip_norm": 0.5, "delta": 1e-6, "clipping": "per-layer"}
    plan = planned(100, noise_source="system", **chosen)
    assert plan == PrivacyPlan(
        examples=100,
        batch_size=8,
        steps=25,
        noise_multiplier=1.3,
        clip_norm=0.5,
        delta=1e-6,
        sampling="poisson",
        by_layer=True,
        noise_source="system",
    )
    assert not planned(100).by_layer
    assert plan.sampling_probability == 0.08
    assert plan.noise_std == 1.3 * 0.5


class TestSeveralClients:
    @staticmethod
    def chosen(mechanism: str, clients: int = 5, participants: int | None = None) -> SimulationConfig:
        return SimulationConfig(
            training=TrainingConfig(batch_size=8, epochs=2),
            privacy=PrivacyConfig(mechanism=mechanism, noise_multiplier=1.3, delta=1e-6, noise_source="system"),
            federation=FederationConfig(clients=clients, participants=participants, rounds=7),
        )

    def test_batch_size_of_piece_is_at_most_its_size(self) -> None:
        config = self.chosen("dp-sgd")
        assert PrivacyPlan.of_piece(config, 8, 40) == PrivacyPlan.from_config(config, 8)
        less = PrivacyPlan.of_piece(config, 7, 40)
        assert less == replace(PrivacyPlan.from_config(config, 8), examples=7, batch_size=7)
        assert less.sampling_probability == 1
        assert PrivacyPlan.of_piece(self.chosen("dp-sgd", clients=2), 7, 40).batch_size == 7

    @pytest.mark.parametrize(("examples", "batch"), [(10, 2), (14, 3), (1, 1), (40, 8)])
    def test_fedsgd_piece_has_share_of_batch_and_one_step_per_round(self, examples: int, batch: int) -> None:
        config = self.chosen("dp-sgd")
        config = replace(config, federation=replace(config.federation, schedule="gradients", rounds=1))
        expected = replace(PrivacyPlan.from_config(config, 40), examples=examples, batch_size=batch, steps=1)
        assert PrivacyPlan.of_piece(config, examples, 40) == expected

    def test_single_client_needs_a_full_batch(self) -> None:
        alone = self.chosen("dp-sgd", clients=1)
        assert PrivacyPlan.of_piece(alone, 8, 40).batch_size == 8
        with pytest.raises(InvalidConfig, match=r"batch_size=8,.* at most the 7\b"):
            PrivacyPlan.of_piece(alone, 7, 40)

    @pytest.mark.parametrize("mechanism", ["dp-fedavg", "local"])
    def test_client_level_training_has_no_noise_per_step(self, mechanism: str) -> None:
        config = self.chosen(mechanism)
        plain = replace(PrivacyPlan.from_config(config, 100), noise_multiplier=0.0, clip_norm=None)
        assert PrivacyPlan.of_piece(config, 100, 40) == plain

    @pytest.mark.parametrize(
        ("mechanism", "participants", "visits", "batch_size", "steps", "sampling"),
        [
            ("dp-fedavg", None, 35, 5, 7, "poisson"),
            ("dp-fedavg", 2, 13, 2, 7, "poisson"),
            ("local", None, 35, 5, 35, "all"),
            ("local", 2, 14, 2, 14, "all"),
            ("local", 2, 0, 2, 1, "all"),
        ],
    )
    def test_plan_of_client_level_mechanisms(
        self, mechanism, participants, visits, batch_size, steps, sampling
    ) -> None:
        assert PrivacyPlan.of_clients(self.chosen(mechanism, participants=participants), visits) == PrivacyPlan(
            examples=5,
            batch_size=batch_size,
            steps=steps,
            noise_multiplier=1.3,
            clip_norm=1.5,
            delta=1e-6,
            sampling=sampling,
            noise_source="system",
        )


@pytest.mark.parametrize(
    ("examples", "epochs", "sampling", "steps"),
    [
        (100, 2, "poisson", 25),  # 12.5 an epoch
        (100, 2, "shuffle", 26),  # 13 an epoch, the last of which is short
        (96, 2, "shuffle", 24),
        (96, 1.2, "poisson", 14),
        (96, 0.01, "poisson", 1),
        (8, 3, "poisson", 3),
    ],
)
def test_number_of_steps(examples: int, epochs: float, sampling: str, steps: int) -> None:
    assert planned(examples, epochs=epochs, sampling=sampling).steps == steps


def test_shard_has_at_least_one_sentence_and_one_batch() -> None:
    assert planned(1, batch_size=1).examples == 1
    assert planned(8).batch_size == 8
    with pytest.raises(InvalidConfig, match=r"examples=0,.* at least one\b"):
        planned(0, batch_size=1)
    with pytest.raises(InvalidConfig, match=r"batch_size=8,.* at most the 7\b"):
        planned(7)


def test_plan_is_keyword_only_frozen_and_not_per_layer() -> None:
    plan = PrivacyPlan(
        examples=9, batch_size=3, steps=4, noise_multiplier=1.0, clip_norm=0.5, delta=1e-5, sampling="poisson"
    )
    assert not plan.by_layer
    assert plan.noise_source == "seeded"
    with pytest.raises(FrozenInstanceError):
        plan.steps = 5
    with pytest.raises(TypeError):
        PrivacyPlan(9, 3, 4, 1.0, 0.5, 1e-5, "poisson")


def test_plan_without_noise_is_not_private() -> None:
    plan = planned(100, noise_multiplier=0.0)
    assert not plan.private
    assert plan.noise_std == 0.0
    assert planned(100, noise_multiplier=0.1).private
    assert replace(planned(100), clip_norm=None).noise_std == 0.0


def test_steps_per_epoch_counts_a_short_batch() -> None:
    assert [planned(examples).steps_per_epoch for examples in (96, 97, 103, 104)] == [12, 13, 13, 13]


def test_warnings_of_delta_and_shuffling() -> None:
    assert planned(100, delta=0.0099).warnings() == ()
    (delta,) = planned(100, delta=0.01).warnings()
    assert all(part in delta for part in ("delta=0.01 ", "not below 1/n = 0.01 ", " 100 training sentences"))
    (delta,) = planned(14_041, delta=1e-4).warnings()
    assert all(part in delta for part in ("delta=0.0001 ", "not below 1/n = 7.1e-05 ", " 14,041 "))
    (shuffled,) = planned(100, delta=1e-5, sampling="shuffle").warnings()
    assert shuffled.startswith("sampling='shuffle'")
    assert len(planned(100, delta=0.5, sampling="shuffle").warnings()) == 2
    assert planned(100, delta=0.5, sampling="shuffle", noise_multiplier=0.0).warnings() == ()


def test_tier_limits() -> None:
    tiers = {0.5: "strong", 1.0: "strong", 1.01: "reasonable", 10.0: "reasonable", 10.1: "weak", math.inf: "none"}
    assert {epsilon: tier(epsilon) for epsilon in tiers} == tiers


class Known:
    """A stream with known draws."""

    def random(self, size: int) -> np.ndarray:
        return np.array([0.3, 0.29, 0.31, 0.0, 0.99])[:size]

    def permutation(self, size: int) -> np.ndarray:
        return np.arange(size)


def test_poisson_sample_takes_draws_below_probability() -> None:
    assert poisson_sample(Known(), 5, 0.3).tolist() == [1, 3]
    assert poisson_sample(Known(), 5, 1.0).tolist() == [0, 1, 2, 3, 4]
    assert poisson_sample(Known(), 5, 0.0).tolist() == []


@pytest.mark.parametrize("streams", [Seeds(3), Secrets.seeded(3, "run")])
def test_shuffled_batches_are_consecutive_slices(streams: Seeds | Secrets) -> None:
    first, second = (streams.stream("shuffle", epoch=epoch).permutation(10) for epoch in (0, 1))
    batches = [shuffled_batch(streams, 10, 4, step).tolist() for step in range(6)]
    expected = [order[start : start + 4].tolist() for order in (first, second) for start in (0, 4, 8)]
    assert batches == expected
    assert shuffled_batch(streams, 8, 4, 2).tolist() == streams.stream("shuffle", epoch=1).permutation(8)[:4].tolist()


def test_noise_has_its_deviation_and_depends_on_key() -> None:
    stream = Secrets.seeded(1, "run").stream("noise", step=4)
    once, again, other = (np.full(20_000, 5, dtype=np.float32) for _ in range(3))
    add_gaussian_noise(once, stream, 0.65)
    add_gaussian_noise(again, stream, 0.65)
    add_gaussian_noise(other, Secrets.seeded(1, "run").stream("noise", step=5), 0.65)
    assert np.array_equal(once, again)
    assert abs(np.corrcoef(once, other)[0, 1]) < 0.03
    assert once.mean() == pytest.approx(5, abs=0.02)
    assert once.std() == pytest.approx(0.65, rel=0.02)

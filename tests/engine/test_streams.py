"""Random streams of runs with one seed: shared ones for comparison, and separate noise and samples, whose reuse would
cancel the noise."""

import dataclasses
import itertools

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from scipy import stats

from engine import config as configs
from engine import corpus
from engine.config import PrivacyConfig, SimulationConfig, TaggerConfig, TrainingConfig, run_key
from engine.federated.partition import chosen_sentences
from engine.federated.plan import plan_of, seeded_secrets
from engine.privacy.mechanisms import add_gaussian_noise
from engine.seeds import KeyStream, Secrets, Seeds
from engine.settings import Settings
from engine.simulation.run import simulate
from engine.simulation.setup import prepare
from engine.training.checkpoint import Checkpoint

LINEAR = SimulationConfig(
    data_fraction=0.05,
    tagger=TaggerConfig(name="linear-softmax"),
    training=TrainingConfig(batch_size=8, epochs=1),
    privacy=PrivacyConfig(noise_multiplier=2.39),
)
"""220 sentences of the embedded corpus, 28 steps."""
FALSE_ALARM_RATE = 1e-6
"""Probability that a correct generator fails one of these tests."""


def changed(config: SimulationConfig = LINEAR, **values: object) -> SimulationConfig:
    return SimulationConfig.from_flat(config.flat() | values)


VARIED = [
    LINEAR,
    *(changed(noise_multiplier=sigma) for sigma in (1.0, 2.4, 5.93)),
    changed(clip_norm=0.7),
    changed(delta=1e-6),
    changed(epochs=2.0),
    changed(batch_size=9),
    changed(learning_rate=0.1),
    changed(optimiser="adam"),
    changed(loss="sum"),
    changed(averaging=0.5),
    changed(clipping="per-layer"),
    changed(data_fraction=0.051),
    changed(window=1),
    changed(well_formed=True),
    changed(scheme="bioes"),
    changed(rounds=2),
    changed(clients=2),
    changed(clients=2, weighting="equal"),
    changed(seed=1),
]


class TestNoiseCancellationAttack:
    """Two runs of seed 0 at σ = 2.39 and 5.93 with noise σC·z of one z: one linear equation gives the clipped sum of
    the first step, or the clients' clipped updates."""

    @staticmethod
    def moved(config: SimulationConfig, settings: Settings) -> np.ndarray:
        """Return the clipped sum plus noise, computed from the weights after the first step or round."""
        fresh = prepare(config, settings).run
        kept: list[Checkpoint] = []
        next(simulate(config, settings, on_checkpoint=kept.append))
        change = kept[0].arrays["weights"].astype(np.float64) - fresh.weights
        if config.federation.clients > 1:
            return change * config.federation.clients
        return -change * config.training.batch_size / config.training.learning_rate

    @classmethod
    def solved(cls, config: SimulationConfig, settings: Settings) -> np.ndarray:
        first, second = 2.39, 5.93
        one, other = (cls.moved(changed(config, noise_multiplier=sigma), settings) for sigma in (first, second))
        return (second * one - first * other) / (second - first)

    @staticmethod
    def truth(config: SimulationConfig, settings: Settings) -> np.ndarray:
        """Return the sum without noise, of the run at the smaller σ."""
        if config.federation.clients > 1:  # clients train identically; with negligible noise the sum remains
            config = changed(config, noise_multiplier=1e-6)
        run = prepare(config, settings).run
        if config.federation.clients > 1:
            before = run.weights.astype(np.float64)
            for _ in run.train():
                pass
            return (run.weights - before) * config.federation.clients
        learner = run.learner(run.plan.rounds[0][0])
        return learner.clipped_sum(learner.sample(0))[0].astype(np.float64)

    @pytest.mark.parametrize("mechanism", ["dp-sgd", "dp-fedavg", "local"])
    @pytest.mark.parametrize("shared", [True, False])
    def test_linear_equation_reveals_the_sum_only_with_shared_keys(
        self, trained_settings, monkeypatch, mechanism, shared
    ):
        config = LINEAR
        if mechanism != "dp-sgd":
            config = changed(mechanism=mechanism, clients=4, data_fraction=0.02)
        if shared:
            monkeypatch.setattr(
                "engine.federated.plan.seeded_secrets", lambda config, settings: Secrets.seeded(config.seed, "")
            )
        truth, found = self.truth(config, trained_settings), self.solved(config, trained_settings)
        error = np.linalg.norm(found - truth) / np.linalg.norm(truth)
        if shared:
            assert error < 1e-2
        else:
            assert error > 10
            assert abs(found @ truth) / np.linalg.norm(found) / np.linalg.norm(truth) < 0.2


class TestRunsOfOneSeed:
    @pytest.fixture
    def learners(self, trained_settings):
        """Return the learners of the first client of each run, and of the second one of a run with two."""
        found = []
        for config in VARIED:
            run = prepare(config, trained_settings).run
            found += [run.learner(visit) for visit in run.plan.rounds[0]]
        return found

    def test_noise_is_uncorrelated(self, learners):
        """The cosine c of independent directions has (1 + c)/2 ~ Beta((d − 1)/2, (d − 1)/2), exactly."""
        size, drawn = 20_000, []
        for learner, step in itertools.product(learners, (0, 1)):
            noise = np.zeros(size, dtype=np.float32)
            add_gaussian_noise(noise, learner.streams.stream("noise", step=step), 1.0)
            drawn.append(noise / np.linalg.norm(noise))
        cosines = np.abs(np.array(drawn) @ np.array(drawn).T)[np.triu_indices(len(drawn), 1)]
        half = (size - 1) / 2
        allowed = 2 * stats.beta.isf(FALSE_ALARM_RATE / 2 / len(cosines), half, half) - 1
        assert len(cosines) > 900
        assert cosines.max() < allowed < 0.06

    def test_samples_are_independent(self, learners):
        """The number of the first 100 sentences that two runs both draw, over 27 steps, is a binomial count."""
        steps, first = 27, 100
        masks = np.zeros((len(learners), steps, first), dtype=bool)
        for place, learner in enumerate(learners):
            for step in range(steps):
                drawn = learner.sample(step)
                masks[place, step, drawn[drawn < first]] = True
        chances = [learner.plan.sampling_probability for learner in learners]
        pairs = list(itertools.combinations(range(len(learners)), 2))
        for one, other in pairs:
            together, chance = (masks[one] & masks[other]).sum(), chances[one] * chances[other]
            low, high = stats.binom.ppf(
                [FALSE_ALARM_RATE / 2 / len(pairs), 1 - FALSE_ALARM_RATE / 2 / len(pairs)], steps * first, chance
            )
            assert low <= together <= high < masks[one].sum(), (one, other)

    def test_weights_partitions_and_pieces_are_shared(self, trained_settings):
        def begun(config: SimulationConfig):
            return prepare(config, trained_settings).run

        few = {"clients": 3, "rounds": 2, "schedule": "incremental"}
        pairs = [
            (changed(**few), changed(**few, noise_multiplier=5.93, learning_rate=0.01)),
            (changed(**few), changed(**few, noise_multiplier=0.0, epochs=2.0)),
            (changed(clients=4, partition="unequal"), changed(clients=4, partition="unequal", clip_norm=0.1)),
        ]
        for one, other in pairs:
            first, second = begun(one), begun(other)
            np.testing.assert_array_equal(first.weights, second.weights)
            for ours, theirs in (
                (first.plan.shards, second.plan.shards),
                (first.plan.sentences, second.plan.sentences),
            ):
                assert len(ours) == len(theirs)
                assert all(np.array_equal(a, b) for a, b in zip(ours, theirs, strict=True))
        deep = changed(tagger="bilstm-tddl", hidden_size=4)
        np.testing.assert_array_equal(begun(deep).weights, begun(changed(deep, noise_multiplier=1.0)).weights)
        assert not np.array_equal(begun(deep).weights, begun(changed(deep, seed=1)).weights)
        np.testing.assert_array_equal(chosen_sentences(4400, 0.05, Seeds(0)), chosen_sentences(4400, 0.05, Seeds(0)))

    def test_samples_without_noise_are_shared(self, trained_settings):
        plain = [changed(noise_multiplier=0.0, learning_rate=rate) for rate in (0.1, 0.2)]
        taken = []
        for config in plain:
            run = prepare(config, trained_settings).run
            learner = run.learner(run.plan.rounds[0][0])
            taken.append([learner.sample(step).tolist() for step in range(5)])
        assert taken[0] == taken[1]

    def test_rerun_is_identical(self, trained_settings):
        first, again = (list(simulate(LINEAR, trained_settings)) for _ in range(2))
        assert [dataclasses.replace(each, seconds=0.0) for each in first] == [
            dataclasses.replace(each, seconds=0.0) for each in again
        ]

    def test_participants_are_secret_if_they_amplify_privacy(self, trained_settings):
        here = corpus.resolve("synthetic", trained_settings)

        def joined(mechanism: str, rate: float) -> list[list[int]]:
            config = changed(mechanism=mechanism, clients=20, participants=5, rounds=30, learning_rate=rate)
            return [[visit.client for visit in visits] for visits in plan_of(config, here).rounds]

        assert joined("dp-fedavg", 0.1) == joined("dp-fedavg", 0.1) != joined("dp-fedavg", 0.2)
        assert joined("local", 0.1) == joined("local", 0.2)


class TestKeys:
    def test_key_depends_on_the_whole_run_identity(self, trained_settings, monkeypatch):
        checksum = corpus.resolve("synthetic", trained_settings).checksum
        keys = {
            "as it is": seeded_secrets(LINEAR, checksum),
            "another corpus": Secrets.seeded(0, run_key(LINEAR, "0" * 64)),
            "another engine": Secrets.seeded(0, run_key(LINEAR, checksum, "7")),
            "another setting": seeded_secrets(changed(epochs=2.0), checksum),
            "another seed": Secrets.seeded(1, run_key(LINEAR, checksum)),
            "drawn": Secrets.drawn(),
            "drawn again": Secrets.drawn(),
        }
        assert keys["as it is"] == Secrets.seeded(0, run_key(LINEAR, checksum))
        assert len({each.stream("noise", step=0).key for each in keys.values()}) == len(keys)
        monkeypatch.setattr(configs, "PRIVATE_VERSION", "7")
        assert seeded_secrets(LINEAR, checksum) == keys["another engine"]

    def test_streams_differ_by_name_and_keys(self):
        secrets = Secrets.seeded(0, "run")
        streams = [
            secrets.stream("noise", step=1),
            secrets.stream("noise", step=2),
            secrets.stream("sampling", step=1),
            secrets.stream("noise"),
            secrets.of(part=0).stream("noise", step=1),
            secrets.of(part=1).stream("noise", step=1),
            secrets.of(part=1).stream("noise", step=11),
        ]
        assert len({each.key for each in streams}) == len(streams)
        assert all(len(each.key) == 32 for each in streams)
        assert secrets.of(part=1).stream("noise", step=1) == Secrets.seeded(0, "run").of(part=1).stream("noise", step=1)

    def test_repr_hides_keys(self):
        secrets = Secrets(bytes(range(32)))
        for shown in (repr(secrets), str(secrets.of(part=1)), repr(secrets.stream("noise"))):
            assert "x1f" not in shown
            assert "b'" not in shown

    def test_uniform_draws_equal_chacha20(self):
        key = np.random.default_rng(3).bytes(32)
        bits = Cipher(algorithms.ChaCha20(key, bytes(16)), mode=None).encryptor().update(bytes(8 * 1000))
        words = [int.from_bytes(bits[at : at + 8], "little") for at in range(0, 8000, 8)]
        assert KeyStream(key).random(1000).tolist() == [(word >> 11) / 2**53 for word in words]

    def test_uniform_draws_and_permutations_are_uniform(self):
        secrets = Secrets.seeded(0, "run")
        assert stats.kstest(secrets.stream("a").random(200_000), "uniform").pvalue > 1e-3
        orders = np.array([secrets.stream("b", epoch=epoch).permutation(5) for epoch in range(12_000)])
        _, counts = np.unique(orders @ 10 ** np.arange(5), return_counts=True)
        assert len(counts) == 120
        assert stats.chisquare(counts).pvalue > 1e-3

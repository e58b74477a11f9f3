"""Federated averaging: one client equals central training, and several clients equal results by hand."""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from engine.config import FederationConfig, PrivacyConfig, SimulationConfig, TrainingConfig
from engine.embeddings import EncodedSplit
from engine.errors import TrainingFailed
from engine.federated.fedavg import ClientData, Federation, Progress
from engine.federated.plan import federated_plan
from engine.privacy import mechanisms
from engine.seeds import Secrets, Seeds
from engine.taggers.layers import CRF, BidirectionalLSTM, Dense
from engine.taggers.tagger import stack
from engine.training import dpsgd
from engine.training.batches import Batch
from engine.training.compiled.backend import CompiledBackend
from engine.training.dpsgd import GradientSum

TAGGER = stack(7, (BidirectionalLSTM(7, 8), Dense(16, 4)), CRF(4))
TABLE = np.random.default_rng(9).standard_normal((20, 7)).astype(np.float32)


class Pull:
    """A toy tagger of one weight per tag: each sentence pulls the weight of its first tag by one."""

    def clipped_gradient(
        self, weights: np.ndarray, batch: Batch, clip_norm: float | None, by_layer: bool = False
    ) -> GradientSum:
        total = np.zeros(weights.size, dtype=np.float32)
        first = batch.tags[batch.offsets]
        np.add.at(total, first, -1.0)
        return GradientSum(total, np.ones((1, len(first))), np.zeros(len(first)))

    def scores(self, weights: np.ndarray, batch: Batch) -> np.ndarray:
        return np.zeros((len(batch.tags), weights.size), dtype=np.float32)


def sentences(number: int, longest: int = 9) -> EncodedSplit:
    random = np.random.default_rng(1)
    lengths = random.integers(1, longest, number)
    return EncodedSplit(
        random.integers(0, 20, lengths.sum()).astype(np.int32),
        random.integers(0, 4, lengths.sum()).astype(np.int16),
        np.concatenate([[0], np.cumsum(lengths)]),
    )


def federation(split: EncodedSplit, weights: np.ndarray, backend: Any = None, **parts: Any) -> Federation:
    config = SimulationConfig(
        training=parts.get("training", TrainingConfig(batch_size=8, epochs=2)),
        federation=parts.get("federation", FederationConfig()),
        privacy=parts.get("privacy", PrivacyConfig(noise_multiplier=0)),
        seed=parts.get("seed", 0),
    )
    secrets = Secrets.seeded(config.seed, "run")
    plan = federated_plan(config, len(split), lambda: pytest.fail("the layout is not needed"), lambda: secrets)
    backend = backend or CompiledBackend(TAGGER)
    holding = ClientData(split=split, table=TABLE, backend=backend, shared=weights.size)
    return Federation(plan, [holding], weights, config.training, seeds=Seeds(config.seed), secrets=secrets)


def fresh() -> np.ndarray:
    return TAGGER.initial_weights(np.random.default_rng(0))


def trained(**parts: Any) -> Federation:
    run = federation(sentences(240), fresh(), **parts)
    for _ in run.train():
        pass
    return run


PRIVATE = PrivacyConfig(noise_multiplier=1.0, clip_norm=0.4)


@pytest.mark.parametrize("privacy", [PRIVATE, PrivacyConfig(noise_multiplier=0)])
@pytest.mark.parametrize("sampling", ["poisson", "shuffle"])
def test_rounds_of_one_client_equal_central_training(privacy: PrivacyConfig, sampling: str) -> None:
    privacy = replace(privacy, sampling=sampling)
    rounds = trained(privacy=privacy, federation=FederationConfig(rounds=4))
    once = trained(privacy=privacy, training=TrainingConfig(batch_size=8, epochs=8))
    np.testing.assert_array_equal(rounds.weights, once.weights)


def test_a_round_averages_the_weights_of_separate_clients() -> None:
    three = FederationConfig(clients=3, weighting="equal")
    run = trained(federation=three)
    separate = []
    for visit in run.plan.rounds[0]:
        learner = federation(sentences(240), fresh(), federation=three).learner(visit)
        for step in range(visit.steps):
            learner.step(step)
        separate.append(learner.weights.astype(np.float64))
    np.testing.assert_allclose(run.weights, np.mean(separate, axis=0), rtol=1e-6, atol=1e-8)
    assert not np.allclose(separate[0], separate[1])


def test_full_batch_averaging_of_a_linear_tagger_by_hand() -> None:
    """Each step uses a client's whole shard, so weights move by learning rate times the share of each first tag."""
    split = sentences(40)
    weights = np.zeros(4, dtype=np.float32)
    config = {
        "training": TrainingConfig(batch_size=40, epochs=3, learning_rate=0.5),
        "federation": FederationConfig(clients=3, rounds=2, partition="unequal"),
    }
    run = federation(split, weights, Pull(), **config)
    for _ in run.train():
        pass
    first = split.tags[split.offsets[:-1]]
    # 6 steps of rate ½ move by the share; means weighted by size give the share in all sentences.
    np.testing.assert_allclose(weights, 6 * 0.5 * np.bincount(first, minlength=4) / 40, rtol=1e-6)


def test_incremental_phases_use_each_sentence_in_one_phase() -> None:
    split = sentences(40)
    weights = np.zeros(4, dtype=np.float32)
    run = federation(
        split,
        weights,
        Pull(),
        training=TrainingConfig(batch_size=40, epochs=1, learning_rate=1.0),
        federation=FederationConfig(clients=2, rounds=5, schedule="incremental"),
    )
    for _ in run.train():
        pass
    first = split.tags[split.offsets[:-1]]
    # Each phase moves by the mean share of two pieces of four sentences; five phases by five times the total share.
    np.testing.assert_allclose(weights, 5 * np.bincount(first, minlength=4) / 40, rtol=1e-6)


def test_progress_counts_all_clients_and_rounds() -> None:
    run = federation(sentences(240), fresh(), federation=FederationConfig(clients=3, rounds=2))
    all_progress = list(run.train())
    assert [progress.taken for progress in all_progress] == list(range(1, run.plan.steps + 1))
    assert [progress.round for progress in all_progress if progress.round is not None] == [0, 1]
    assert all_progress[-1].exchange is not None
    assert all_progress[-1].exchange.clients == (0, 1, 2)
    assert all_progress[-1].exchange.bytes_up == 3 * 4 * TAGGER.size
    assert all(progress.step for progress in all_progress)


def test_a_run_resumes_after_a_round() -> None:
    whole = trained(privacy=PRIVATE, federation=FederationConfig(clients=3, rounds=3))
    part = federation(sentences(240), fresh(), privacy=PRIVATE, federation=FederationConfig(clients=3, rounds=3))
    for progress in part.train():
        if progress.round == 0:
            break
    again = federation(
        sentences(240), part.weights.copy(), privacy=PRIVATE, federation=FederationConfig(clients=3, rounds=3)
    )
    for _ in again.train(rounds_done=1):
        pass
    np.testing.assert_array_equal(again.weights, whole.weights)


class Faulty(CompiledBackend):
    """A backend with infinite gradients for bad batches."""

    def __init__(self, bad: Callable[[Batch], bool]) -> None:
        super().__init__(TAGGER)
        self._bad = bad

    def clipped_gradient(
        self, weights: np.ndarray, batch: Batch, clip_norm: float | None, by_layer: bool = False
    ) -> GradientSum:
        part = super().clipped_gradient(weights, batch, clip_norm)
        return GradientSum(part.total * np.float32(np.inf), part.parts, part.losses) if self._bad(batch) else part


class Diverging(Pull):
    """A toy tagger in which all sentences pull the same way, and bad batches pull to infinity."""

    def __init__(self, bad: Callable[[Batch], bool]) -> None:
        self._bad = bad

    def clipped_gradient(
        self, weights: np.ndarray, batch: Batch, clip_norm: float | None, by_layer: bool = False
    ) -> GradientSum:
        number = len(batch.lengths)
        total = np.full(weights.size, -np.inf if self._bad(batch) else -1.0 * number, dtype=np.float32)
        return GradientSum(total, np.ones((1, number)), np.zeros(number))


def test_a_failed_client_is_excluded_and_recorded() -> None:
    calls = []

    def bad(batch: Batch) -> bool:
        calls.append(batch)
        return len(calls) == 3

    run = federation(sentences(240), fresh(), Faulty(bad), federation=FederationConfig(clients=3, rounds=2))
    ends = [progress for progress in run.train() if progress.round is not None]
    assert [end.failed for end in ends] == [(0,), ()]
    assert ends[0].exchange is not None
    assert ends[0].exchange.clients == (1, 2)
    assert np.isfinite(run.weights).all()


def test_a_round_without_remaining_clients_raises_training_failed() -> None:
    run = federation(sentences(240), fresh(), Faulty(lambda batch: True), federation=FederationConfig(clients=3))
    with pytest.raises(TrainingFailed, match=r"round 1 .*\ball 3 clients"):
        list(run.train())


class TestDivergedClientsWithClientLevelNoise:
    """A failed training reveals something about a client's sentences, so it must not show without noise."""

    @staticmethod
    def run(mechanism: str, bad: Callable[[Batch], bool], rounds: int = 6) -> tuple[Federation, list[Progress]]:
        privacy = PrivacyConfig(mechanism=mechanism, noise_multiplier=1.0, clip_norm=0.4)
        clients = FederationConfig(clients=4, rounds=rounds)
        weights = np.zeros(3000, dtype=np.float32)
        run = federation(sentences(240), weights, Diverging(bad), privacy=privacy, federation=clients)
        return run, [progress for progress in run.train() if progress.round is not None]

    @pytest.mark.parametrize("mechanism", ["dp-fedavg", "local"])
    def test_a_run_continues_if_all_clients_diverge(self, mechanism: str) -> None:
        run, ends = self.run(mechanism, lambda batch: True)
        assert [end.failed for end in ends] == [(0, 1, 2, 3)] * 6
        # Noise only: of the server once a round, or the mean of the noise of four clients.
        spread = 0.4 / 4 * np.sqrt(6) * (1 if mechanism == "dp-fedavg" else 2)
        assert stats.kstest(run.weights / spread, "norm").pvalue > 1e-4
        assert stats.kstest(run.weights / spread * 1.2, "norm").pvalue < 1e-6
        check = run.monitors[0].verdict()
        assert check.faults == ()
        assert check.steps == (6 if mechanism == "dp-fedavg" else 24)

    def test_diverged_clients_send_noise_with_local_noise(self) -> None:
        first: list[int] = []

        def bad(batch: Batch) -> bool:
            first.append(0)
            return len(first) == 1

        _, ends = self.run("local", bad, rounds=1)
        assert ends[0].failed == (0,)
        assert ends[0].exchange is not None
        assert ends[0].exchange.clients == (0, 1, 2, 3)
        noise = 0.4 * np.sqrt(3000)
        assert np.allclose(ends[0].exchange.norms, noise, rtol=0.1)
        assert ends[0].exchange.signal <= 3 * 0.4 + 1e-6

    def test_diverged_clients_send_nothing_with_server_noise(self) -> None:
        first: list[int] = []

        def bad(batch: Batch) -> bool:
            first.append(0)
            return len(first) == 1

        _, ends = self.run("dp-fedavg", bad, rounds=1)
        assert ends[0].failed == (0,)
        assert ends[0].exchange is not None
        assert ends[0].exchange.clients == (1, 2, 3)
        assert ends[0].exchange.signal == pytest.approx(3 * 0.4, rel=1e-3)  # all pull the same way


class TestNoiseCheck:
    @staticmethod
    def faults(**parts: Any) -> tuple[str, ...]:
        run = trained(**{"privacy": PRIVATE, "federation": FederationConfig(clients=5, rounds=4), **parts})
        found = run.monitors[0].verdict()
        assert found.steps == run.plan.steps
        return found.faults

    @pytest.mark.repeats(after=2)
    @pytest.mark.parametrize("seed", range(10))
    def test_honest_clients_pass(self, seed: int) -> None:
        for federation in (
            FederationConfig(clients=5, rounds=4),
            FederationConfig(clients=20, rounds=2),
            FederationConfig(clients=6, participants=2, rounds=8),
            FederationConfig(clients=3, rounds=5, schedule="incremental"),
            FederationConfig(clients=10, rounds=3, partition="unequal"),
        ):
            assert self.faults(seed=seed, federation=federation) == ()

    def test_sabotage_no_noise(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(dpsgd, "add_gaussian_noise", lambda total, random, std: None)
        assert "planned standard deviation" in " ".join(self.faults())

    def test_sabotage_clients_share_their_noise(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def shared(total: np.ndarray, random: np.random.Generator, std: float) -> None:
            count.append(0)
            stream = Secrets.seeded(0, "").stream("noise", step=len(count) % 12)
            mechanisms.add_gaussian_noise(total, stream, std)

        count: list[int] = []
        monkeypatch.setattr(dpsgd, "add_gaussian_noise", shared)
        assert "draw of its key" in " ".join(self.faults())

    def test_sabotage_noise_scaled_to_the_whole_corpus(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(
            dpsgd,
            "add_gaussian_noise",
            lambda total, random, std: mechanisms.add_gaussian_noise(total, random, std / 5),
        )
        assert "% of the planned" in " ".join(self.faults())

    def test_sabotage_shuffled_batches(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def shuffled(self: dpsgd.DPSGD, step: int) -> np.ndarray:
            return mechanisms.shuffled_batch(self.streams, self.plan.examples, self.plan.batch_size, step)

        monkeypatch.setattr(dpsgd.DPSGD, "sample", shuffled)
        drawn, sizes, times = self.faults()
        assert "draw of its key" in drawn
        assert re.match(r"Sample sizes spread 0\.1\d", sizes)
        assert times.startswith("Each sentence")
        assert "evenly" in times

"""Rounds of secure aggregation: uploads, sums, noise, dropouts and ε."""

import dataclasses
import math
from typing import Any, ClassVar

import numpy as np
import pytest
from scipy import stats

from engine.config import SimulationConfig
from engine.errors import InvalidConfig, TrainingFailed
from engine.federated import fedavg
from engine.federated.client_update import clip, message
from engine.federated.secagg import aggregation_round as rounds
from engine.federated.secagg.protocol import SecAggClient
from engine.federated.server import Server
from engine.simulation.run import simulate
from engine.training.checkpoint import Checkpoint
from tests.engine.federated import silos
from tests.engine.federated.test_server import SECRETS, plan_of

SIZE = 5000
PLAN = plan_of("secure-sum", clients=4, noise_multiplier=0.8, clip_norm=0.5)


def sent(plan: Any = PLAN, number: int = 4) -> list[np.ndarray]:
    """Return the messages of clients with random updates in the first round."""
    zeros, random = np.zeros(SIZE, dtype=np.float32), np.random.default_rng(1)
    trained = [random.standard_normal(SIZE).astype(np.float32) for _ in range(number)]
    found = [message(plan, zeros, own, SECRETS, client, 0) for client, own in enumerate(trained)]
    return [each for each in found if each is not None]


def aggregate(uploads: list[np.ndarray]) -> tuple[np.ndarray, Any]:
    weights = np.zeros(SIZE, dtype=np.float32)
    server = Server(PLAN, weights, SECRETS)
    for client, upload in enumerate(uploads):
        server.receive(client, upload, 5)
    return weights, server.finish(0)


def test_the_sum_is_exact() -> None:
    uploads = sent()
    weights, exchange = aggregate(uploads)
    np.testing.assert_array_equal(weights, np.sum(uploads, axis=0, dtype=np.float64).astype(np.float32) / np.float32(4))
    assert exchange.clients == (0, 1, 2, 3)
    assert exchange.signal == pytest.approx(float(np.linalg.norm(sum(uploads))))


def test_single_updates_are_not_recorded_and_uploads_look_random(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    uploads_seen: list[np.ndarray] = []
    masked = SecAggClient.masked

    def recording(self: SecAggClient, upload: np.ndarray, shares: Any) -> np.ndarray:
        uploads_seen.append(masked(self, upload, shares))
        return uploads_seen[-1]

    monkeypatch.setattr(SecAggClient, "masked", recording)
    _, exchange = aggregate(sent())
    assert (exchange.norms, exchange.drift) == ((), 0.0)
    assert len(uploads_seen) == 4
    for words in uploads_seen:
        assert stats.kstest(words / 2.0**32, "uniform").pvalue > 1e-6


@pytest.mark.parametrize(("parties", "dropped"), [(2, 0), (3, 1), (4, 1), (6, 2), (20, 6)])
def test_aggregate_noise_is_at_least_as_planned_with_dropouts(parties: int, dropped: int) -> None:
    secure = rounds.secure_round(parties, SIZE, 0.5, 0.4, 0)
    assert rounds.max_dropouts(parties) == secure.plan.max_dropouts == dropped
    for arrived in range(parties - dropped, parties + 1):
        assert secure.share * math.sqrt(arrived) >= 0.4 * (1 - 1e-12)
    assert secure.share * math.sqrt(parties - dropped) == pytest.approx(0.4)
    assert secure.scale * secure.share == pytest.approx(0.4)


def test_rounding_keeps_the_norm_of_the_update_and_depends_on_noise_only() -> None:
    secure = rounds.secure_round(4, SIZE, 0.5, 0.4, 0)
    update = np.random.default_rng(0).standard_normal(SIZE)
    update *= 0.5 / np.linalg.norm(update)
    without_noise = secure.upload(update, np.zeros(SIZE))
    assert np.linalg.norm(without_noise) <= 0.5
    assert np.abs(without_noise - update).max() <= secure.grid.quantum
    noise = np.random.default_rng(1).normal(0, secure.share, SIZE)
    # Rounding depends on the noise only: it is equal with and without the update.
    np.testing.assert_array_equal(secure.upload(update, noise) - without_noise, secure.upload(np.zeros(SIZE), noise))


def test_bytes_include_keys_encrypted_shares_and_unmask_shares() -> None:
    _, exchange = aggregate(sent())
    plain = 4 * 4 * SIZE
    assert exchange.bytes_up > plain
    assert exchange.bytes_down > plain
    assert exchange.bytes_up < 1.2 * plain


def test_too_many_dropouts_raise_training_failed() -> None:
    with pytest.raises(TrainingFailed, match=r"2 of 4 clients .*at least 3\b"):
        aggregate(sent()[:2])


FLAT = {
    "corpus": "synthetic",
    "data_fraction": 0.05,
    "tagger": "linear-crf",
    "clients": 4,
    "rounds": 3,
    "epochs": 1.0,
    "mechanism": "secure-sum",
    "noise_multiplier": 2.0,
}


class TestSimulation:
    @pytest.mark.parametrize("source", ["seeded", "system"])
    def test_secure_aggregation_has_the_epsilon_of_local_noise_with_less_noise(
        self, source: str, trained_settings: Any
    ) -> None:
        found = {}
        for mechanism in ("secure-sum", "local"):
            config = SimulationConfig.from_flat(FLAT | {"mechanism": mechanism, "noise_source": source})
            (found[mechanism],) = (record for record in simulate(config, trained_settings) if record.test)
        secure, local = found["secure-sum"], found["local"]
        assert secure.noise_check.passed
        assert secure.privacy.epsilon == local.privacy.epsilon
        assert secure.federation.update_norms == ()
        if source == "seeded":  # otherwise the random signals of two runs differ as much as the noise
            # The noise variance of the sum, relative to the plan's: 4/3 with an allowance for dropouts, instead of 4.
            assert (secure.noise_to_signal / local.noise_to_signal) < 0.9
        assert "learns only the sum" in " ".join(secure.privacy.assumptions)

    def test_resumed_run_equals_the_whole_run(self, trained_settings: Any) -> None:
        config, checkpoints = SimulationConfig.from_flat(FLAT), []

        def on_checkpoint(checkpoint: Checkpoint) -> None:
            checkpoints.append(checkpoint)

        whole = list(simulate(config, trained_settings, on_checkpoint=on_checkpoint))
        rest = list(simulate(config, trained_settings, resume=checkpoints[0]))
        assert [dataclasses.replace(record, seconds=0.0) for record in rest] == [
            dataclasses.replace(record, seconds=0.0) for record in whole[-len(rest) :]
        ]

    def test_secure_aggregation_without_shared_layers_is_refused(self) -> None:
        platforms = {"corpus": "wnut17 + btc", "clients": 2, "shared": "nothing", "tagger": "mlp-crf"}
        with pytest.raises(InvalidConfig, match="shared='nothing', expected a part"):
            SimulationConfig.from_flat(FLAT | platforms)

    def test_secure_aggregation_of_one_participant_is_refused(self) -> None:
        with pytest.raises(InvalidConfig, match=r"participants=1,.* at least 2\b"):
            SimulationConfig.from_flat(FLAT | {"participants": 1})


class TestDropout:
    """One of three clients drops out before its upload, after sending keys and encrypted shares.

    The uploads of the others therefore contain its masks.
    """

    CHANGES: ClassVar = {"mechanism": "secure-sum", "noise_multiplier": 0.8, "clip_norm": 0.5, "epochs": 1.0}

    def test_a_round_with_one_dropout_has_the_planned_noise(self, monkeypatch: pytest.MonkeyPatch) -> None:
        sent: dict[tuple[int, int], tuple[np.ndarray, np.ndarray]] = {}

        def message_with_dropout(
            plan: Any, common: np.ndarray, trained: np.ndarray, streams: Any, client: int, round: int
        ) -> np.ndarray | None:
            found = message(plan, common, trained, streams, client, round)
            assert found is not None
            sent[round, client] = found, clip(trained.astype(np.float64) - common, 0.5)
            return None if (client, round) == (1, 1) else found

        monkeypatch.setattr(fedavg, "message", message_with_dropout)
        run = silos.federation(**self.CHANGES)
        common, moved, exchanges = run.weights[: run.holdings[0].shared], [], []
        before = common.astype(np.float64)
        for progress in run.train():
            if progress.exchange:
                moved.append(common - before)
                before = common.astype(np.float64)
                exchanges.append(progress.exchange)
        assert [exchange.clients for exchange in exchanges] == [(0, 1, 2), (0, 2), (0, 1, 2)]
        uploads = [sent[1, client] for client in (0, 2)]
        np.testing.assert_allclose(moved[1], sum(upload for upload, _ in uploads) / 2, rtol=1e-4, atol=1e-5)
        noise = sum(upload - clipped for upload, clipped in uploads)
        planned = 0.8 * 0.5
        assert noise.std() == pytest.approx(planned, rel=0.08)  # with all three clients it is √1.5 times as large
        (check,) = (monitor.verdict() for monitor in run.monitors)
        assert not check.failed, check.faults
        assert exchanges[1].bytes_up < exchanges[0].bytes_up

    def test_a_round_with_one_client_left_raises_training_failed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(fedavg, "message", lambda *found: None if found[-2] and found[-1] == 1 else message(*found))
        with pytest.raises(TrainingFailed, match=r"1 of 3 clients .*at least 2\b"):
            for _ in silos.federation(**self.CHANGES).train():
                pass

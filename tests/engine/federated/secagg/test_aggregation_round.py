"""A round whose sum alone is seen: what is on the way, what comes out, and what it costs."""

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
    """Messages of clients that learned something each, at the first round."""
    zeros, random = np.zeros(SIZE, dtype=np.float32), np.random.default_rng(1)
    trained = [random.standard_normal(SIZE).astype(np.float32) for _ in range(number)]
    found = [message(plan, zeros, own, SECRETS, client, 0) for client, own in enumerate(trained)]
    return [each for each in found if each is not None]


def joined(uploads: list[np.ndarray]) -> tuple[np.ndarray, Any]:
    weights = np.zeros(SIZE, dtype=np.float32)
    server = Server(PLAN, weights, SECRETS)
    for client, upload in enumerate(uploads):
        server.receive(client, upload, 5)
    return weights, server.finish(0)


def test_the_sum_is_exact() -> None:
    uploads = sent()
    weights, exchange = joined(uploads)
    np.testing.assert_array_equal(weights, np.sum(uploads, axis=0, dtype=np.float64).astype(np.float32) / np.float32(4))
    assert exchange.clients == (0, 1, 2, 3)
    assert exchange.signal == pytest.approx(float(np.linalg.norm(sum(uploads))))


def test_of_a_single_update_nothing_is_recorded_and_what_is_sent_looks_like_chance(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[np.ndarray] = []
    masked = SecAggClient.masked

    def watched(self: SecAggClient, upload: np.ndarray, letters: Any) -> np.ndarray:
        seen.append(masked(self, upload, letters))
        return seen[-1]

    monkeypatch.setattr(SecAggClient, "masked", watched)
    _, exchange = joined(sent())
    assert (exchange.norms, exchange.drift) == ((), 0.0)
    assert len(seen) == 4
    for words in seen:
        assert stats.kstest(words / 2.0**32, "uniform").pvalue > 1e-6


@pytest.mark.parametrize(("parties", "dropped"), [(2, 0), (3, 1), (4, 1), (6, 2), (20, 6)])
def test_noise_is_as_planned_where_a_third_vanish_and_never_less(parties: int, dropped: int) -> None:
    secure = rounds.secure_round(parties, SIZE, 0.5, 0.4, 0)
    assert rounds.max_dropouts(parties) == secure.plan.max_dropouts == dropped
    for there in range(parties - dropped, parties + 1):
        assert secure.share * math.sqrt(there) >= 0.4 * (1 - 1e-12)
    assert secure.share * math.sqrt(parties - dropped) == pytest.approx(0.4)
    assert secure.scale * secure.share == pytest.approx(0.4)


def test_an_update_is_on_the_grid_before_its_noise_and_no_longer_than_it_was() -> None:
    secure = rounds.secure_round(4, SIZE, 0.5, 0.4, 0)
    update = np.random.default_rng(0).standard_normal(SIZE)
    update *= 0.5 / np.linalg.norm(update)
    silent = secure.upload(update, np.zeros(SIZE))
    assert np.linalg.norm(silent) <= 0.5
    assert np.abs(silent - update).max() <= secure.grid.quantum
    noise = np.random.default_rng(1).normal(0, secure.share, SIZE)
    # Rounding depends on the noise alone: the same with and without the update.
    np.testing.assert_array_equal(secure.upload(update, noise) - silent, secure.upload(np.zeros(SIZE), noise))


def test_keys_letters_and_shares_are_counted_among_what_travels() -> None:
    _, exchange = joined(sent())
    plain = 4 * 4 * SIZE
    assert exchange.bytes_up > plain
    assert exchange.bytes_down > plain
    assert exchange.bytes_up < 1.2 * plain


def test_where_too_few_are_left_the_run_ends_with_a_sentence() -> None:
    with pytest.raises(TrainingFailed, match=r"2 of 4 clients .*at least 3\b"):
        joined(sent()[:2])


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


class TestARun:
    @pytest.mark.parametrize("source", ["seeded", "system"])
    def test_its_epsilon_is_that_of_noise_by_each_client_and_its_noise_is_less(
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
        if source == "seeded":  # else the signal of two runs differs by chance, as far as the noise does
            # One plan's noise for the sum, and a little for who may vanish: 4 ÷ 3 against 4.
            assert (secure.noise_to_signal / local.noise_to_signal) < 0.9
        assert "learns only the sum" in " ".join(secure.privacy.assumptions)

    def test_it_goes_on_where_it_was(self, trained_settings: Any) -> None:
        config, checkpoints = SimulationConfig.from_flat(FLAT), []

        def keep(checkpoint: Checkpoint) -> None:
            checkpoints.append(checkpoint)

        whole = list(simulate(config, trained_settings, on_checkpoint=keep))
        rest = list(simulate(config, trained_settings, resume=checkpoints[0]))
        assert [dataclasses.replace(record, seconds=0.0) for record in rest] == [
            dataclasses.replace(record, seconds=0.0) for record in whole[-len(rest) :]
        ]

    def test_where_nothing_is_sent_nothing_can_be_hidden(self) -> None:
        platforms = {"corpus": "wnut17 + btc", "clients": 2, "shared": "nothing", "tagger": "mlp-crf"}
        with pytest.raises(InvalidConfig, match="shared='nothing', expected a part"):
            SimulationConfig.from_flat(FLAT | platforms)

    def test_one_alone_cannot_hide(self) -> None:
        with pytest.raises(InvalidConfig, match=r"participants=1,.* at least 2\b"):
            SimulationConfig.from_flat(FLAT | {"participants": 1})


class TestAPlatformVanishes:
    """One of three, before its upload is sent: keys and letters are there, so its masks are in the others' uploads."""

    CHANGES: ClassVar = {"mechanism": "secure-sum", "noise_multiplier": 0.8, "clip_norm": 0.5, "epochs": 1.0}

    def test_the_round_goes_on_with_two_and_has_the_noise_that_was_planned(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        sent: dict[tuple[int, int], tuple[np.ndarray, np.ndarray]] = {}

        def vanishing(
            plan: Any, common: np.ndarray, trained: np.ndarray, streams: Any, client: int, round: int
        ) -> np.ndarray | None:
            found = message(plan, common, trained, streams, client, round)
            assert found is not None
            sent[round, client] = found, clip(trained.astype(np.float64) - common, 0.5)
            return None if (client, round) == (1, 1) else found

        monkeypatch.setattr(fedavg, "message", vanishing)
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
        assert noise.std() == pytest.approx(planned, rel=0.08)  # of all three shares √1.5 of that
        (check,) = (monitor.verdict() for monitor in run.monitors)
        assert not check.failed, check.faults
        assert exchanges[1].bytes_up < exchanges[0].bytes_up

    def test_without_a_second_one_the_sum_stays_closed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(fedavg, "message", lambda *found: None if found[-2] and found[-1] == 1 else message(*found))
        with pytest.raises(TrainingFailed, match=r"1 of 3 clients .*at least 2\b"):
            for _ in silos.federation(**self.CHANGES).train():
                pass

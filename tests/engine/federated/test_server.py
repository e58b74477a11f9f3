"""Messages of clients, aggregation by the server, and the noise monitor, against results by hand."""

import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from engine.config import FederationConfig, PrivacyConfig, SimulationConfig, TrainingConfig
from engine.federated import client_update, server
from engine.federated.client_noise_monitor import ClientNoiseMonitor
from engine.federated.client_update import message
from engine.federated.plan import FederatedPlan, federated_plan
from engine.federated.server import Server
from engine.privacy.noise_check.monitor import NoiseMonitor
from engine.records import NoiseCheck
from engine.seeds import Secrets, Seeds

START = np.array([1.0, -2.0, 0.5], dtype=np.float32)
FIRST, SECOND = np.array([2.0, 0.0, 0.0]), np.array([0.0, 2.0, 4.0])
SECRETS = Secrets.seeded(0, "run")
MECHANISMS = ("dp-fedavg", "local", "secure-sum")


def planned(sentences: int, federation: FederationConfig, **privacy: object) -> FederatedPlan:
    config = SimulationConfig(
        training=TrainingConfig(batch_size=2, epochs=1),
        federation=federation,
        privacy=PrivacyConfig(**privacy),
    )
    return federated_plan(config, sentences, lambda: pytest.fail("the layout is not needed"), lambda: SECRETS)


def plan_of(mechanism: str = "dp-sgd", clients: int = 2, rounds: int = 1, **privacy: object) -> FederatedPlan:
    return planned(20, FederationConfig(clients=clients, rounds=rounds), mechanism=mechanism, **privacy)


def server_of(plan: FederatedPlan, weights: np.ndarray, *, equal: bool = True) -> Server:
    return Server(replace(plan, equal=equal), weights, SECRETS)


def test_finish_averages_weighted_by_examples() -> None:
    weights = START.copy()
    aggregator = server_of(plan_of(), weights, equal=False)
    aggregator.receive(0, FIRST, 30)
    aggregator.receive(1, SECOND, 10)
    aggregator.finish(0)
    np.testing.assert_allclose(weights, [2.5, -1.5, 1.5])


def test_finish_averages_equally_and_records_the_exchange() -> None:
    weights = START.copy()
    aggregator = server_of(plan_of(), weights)
    aggregator.receive(0, FIRST, 30)
    aggregator.receive(1, SECOND, 10)
    exchange = aggregator.finish(0)
    np.testing.assert_allclose(weights, [2.0, -1.0, 2.5])
    assert exchange.clients == (0, 1)
    assert exchange.norms == pytest.approx((2.0, 20**0.5))
    # Both lie √(1 + 1 + 4) from their mean.
    assert exchange.drift == pytest.approx(6**0.5)
    assert exchange.bytes_up == exchange.bytes_down == 2 * 3 * 4


def test_weights_of_one_client_are_copied_exactly() -> None:
    random = np.random.default_rng(0)
    weights = (random.standard_normal(10_000) * 10.0 ** random.integers(-20, 20, 10_000)).astype(np.float32)
    own = (weights * random.normal(1, 1, 10_000) + random.standard_normal(10_000)).astype(np.float32)
    aggregator, plan = server_of(plan_of(), weights, equal=False), plan_of()
    sent = message(plan, weights, own, Seeds(0), client=0, round=0)
    assert sent is not None
    aggregator.receive(0, sent, 17)
    aggregator.finish(0)
    np.testing.assert_array_equal(weights, own)


@pytest.mark.parametrize("equal", [True, False])
def test_begin_discards_received_updates(equal: bool) -> None:
    results = []
    for before in (0, 2):
        weights = START.copy()
        aggregator = server_of(plan_of(), weights, equal=equal)
        for client in range(before):
            aggregator.receive(client, 100 * SECOND, 7)
        aggregator.begin()
        aggregator.receive(0, FIRST, 30)
        aggregator.receive(1, SECOND, 10)
        results.append((aggregator.finish(0), weights.tolist()))
        assert aggregator.finish(0).clients == ()
        assert weights.tolist() == results[-1][1]
    assert results[0] == results[1]


def test_a_round_without_clients_keeps_the_weights() -> None:
    weights = START.copy()
    exchange = server_of(plan_of(), weights).finish(0)
    np.testing.assert_array_equal(weights, START)
    assert exchange.clients == ()
    assert exchange.bytes_up == 0


def test_updates_are_clipped_and_divided_by_the_expected_clients() -> None:
    weights = START.copy()
    aggregator = server_of(plan_of("dp-fedavg", clients=4, noise_multiplier=1e-9, clip_norm=1.0), weights)
    aggregator.receive(0, FIRST, 30)  # of length 2
    aggregator.receive(1, np.array([0, 0.5, 0]), 10)
    aggregator.finish(0)
    np.testing.assert_allclose(weights - START, [0.25, 0.125, 0.0], atol=1e-6)


def test_local_noise_is_added_to_a_clipped_update() -> None:
    plan = plan_of("local", clients=4, noise_multiplier=1e-9, clip_norm=1.0)
    sent = message(plan, START, (START + FIRST).astype(np.float32), SECRETS, client=1, round=0)
    assert sent is not None
    np.testing.assert_allclose(sent, [1, 0, 0], atol=1e-6)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_noise_has_the_planned_standard_deviation(mechanism: str) -> None:
    size = 40_000
    weights = np.zeros(size, dtype=np.float32)
    plan = plan_of(mechanism, clients=4, noise_multiplier=1.3, clip_norm=0.5)
    aggregator = server_of(plan, weights)
    for client in range(4):
        sent = message(plan, weights, weights, SECRETS, client, round=0)
        assert sent is not None
        aggregator.receive(client, sent, 5)
    aggregator.finish(0)
    # The server adds noise once to the sum of four; or each of four clients adds it; or each client adds a third of its
    # variance, which allows one dropout.
    spread = 1.3 * 0.5 / 4 * {"dp-fedavg": 1, "local": 2, "secure-sum": (4 / 3) ** 0.5}[mechanism]
    assert stats.kstest(weights / spread, "norm").pvalue > 1e-4
    for wrong in (2 / 3, 1.5):
        assert stats.kstest(weights / spread / wrong, "norm").pvalue < 1e-10


def test_rounds_and_clients_draw_different_noise() -> None:
    plan, zeros = plan_of("local", rounds=2), np.zeros(4000, dtype=np.float32)
    noises = [message(plan, zeros, zeros, SECRETS, client, number) for number in range(2) for client in range(2)]
    at_server = plan_of("dp-fedavg", rounds=2)
    for number in range(2):
        weights = zeros.copy()
        server_of(at_server, weights).finish(number)
        noises.append(weights)
    angles = np.corrcoef(noises)[~np.eye(6, dtype=bool)]
    assert np.abs(angles).max() < 6 / 4000**0.5


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_noise_from_seeds_is_refused(mechanism: str) -> None:
    plan, zeros = plan_of(mechanism), np.zeros(3, dtype=np.float32)

    def add_noise() -> None:
        message(plan, zeros, zeros, Seeds(0), 0, 0)
        Server(plan, zeros, Seeds(0)).finish(0)

    with pytest.raises(TypeError, match="expected Secrets for noise"):
        add_noise()


class TestDivergedClients:
    """A diverged client sends nothing of its training, and its message must not reveal that."""

    def test_a_diverged_client_sends_planned_noise_with_local_noise(self) -> None:
        plan = plan_of("local", clients=4, noise_multiplier=1.3, clip_norm=0.5)
        common = np.random.default_rng(0).standard_normal(40_000).astype(np.float32)
        sent = message(plan, common, None, SECRETS, client=2, round=0)
        still = message(plan, common, common, SECRETS, client=2, round=0)
        assert sent is not None
        np.testing.assert_array_equal(sent, still)  # equal to the message of a client that learned nothing
        assert stats.kstest(sent / 0.65, "norm").pvalue > 1e-4
        assert stats.kstest(sent / 0.65 * 1.5, "norm").pvalue < 1e-10

    @pytest.mark.parametrize("mechanism", ["dp-sgd", "dp-fedavg"])
    def test_a_diverged_client_sends_nothing_without_local_noise(self, mechanism: str) -> None:
        assert message(plan_of(mechanism), START, None, SECRETS, client=0, round=0) is None


ROUNDS, SIZE = 60, 3000


def client_level_plan(mechanism: str) -> FederatedPlan:
    participants = None if mechanism == "local" else 5
    return planned(60, FederationConfig(clients=20, participants=participants, rounds=ROUNDS), mechanism=mechanism)


def noise_check(
    plan: FederatedPlan,
    rounds: int = ROUNDS,
    *,
    diverged: Callable[[int], bool] = lambda client: False,
    **change: object,
) -> NoiseCheck:
    """Return the noise check of rounds in which clients move randomly or diverge.

    Args:
        plan: The plan.
        rounds: Number of rounds.
        diverged: Whether a client diverges.
        change: Broken methods that replace those of the server.
    """
    assert plan.server is not None
    weights = np.zeros(SIZE, dtype=np.float32)
    aggregator = server_of(plan, weights)
    monitor = NoiseMonitor([plan.server], SIZE, unit="client", secrets=SECRETS)
    client_monitor = ClientNoiseMonitor(plan, plan.server, monitor, SECRETS)
    for name, value in change.items():
        setattr(aggregator, name, value.__get__(aggregator))  # type: ignore[attr-defined]
    random = np.random.default_rng(5)
    for number in range(rounds):
        aggregator.begin()
        client_monitor.start_round(weights, number)
        for visit in plan.rounds[number]:
            own = weights + random.standard_normal(SIZE).astype(np.float32)
            trained = None if diverged(visit.client) else own
            sent = message(plan, weights, trained, SECRETS, visit.client, number)
            client_monitor.observe(visit.client, trained, sent)
            if sent is not None:
                aggregator.receive(visit.client, sent, 5)
        aggregator.finish(number)
        client_monitor.end_round(weights)
    return monitor.verdict()


class TestSabotage:
    """The noise check of client-level privacy must detect each fault."""

    @pytest.mark.parametrize("mechanism", MECHANISMS)
    def test_correct_rounds_pass(self, mechanism: str) -> None:
        result = noise_check(client_level_plan(mechanism))
        assert result.faults == ()
        assert result.passed
        assert result.noise_std == pytest.approx(1.5, rel=0.02)

    @pytest.mark.parametrize("mechanism", MECHANISMS)
    @pytest.mark.parametrize("partly", [True, False])
    def test_diverged_clients_pass(self, mechanism: str, partly: bool) -> None:
        result = noise_check(client_level_plan(mechanism), diverged=lambda client: client % 3 == 0 or not partly)
        assert result.faults == ()
        assert result.passed

    @pytest.mark.parametrize("mechanism", MECHANISMS)
    @pytest.mark.parametrize(("factor", "share"), [(0.0, "0.0 %"), (0.5, r"(49|50)\.\d %"), (0.9, "% of the planned")])
    def test_sabotage_too_little_noise(
        self, monkeypatch: pytest.MonkeyPatch, mechanism: str, factor: float, share: str
    ) -> None:
        server_noise = client_update.server_noise
        for module in (client_update, server):
            monkeypatch.setattr(module, "server_noise", lambda *of, **keys: factor * server_noise(*of, **keys))
        assert re.search(share, " ".join(noise_check(client_level_plan(mechanism)).faults))

    @pytest.mark.parametrize("mechanism", MECHANISMS)
    def test_sabotage_the_same_noise_again(self, monkeypatch: pytest.MonkeyPatch, mechanism: str) -> None:
        server_noise = client_update.server_noise
        for module in (client_update, server):
            monkeypatch.setattr(module, "server_noise", lambda *of, **keys: server_noise(*of, round=0))
        assert "draw of its key" in " ".join(noise_check(client_level_plan(mechanism)).faults)

    @pytest.mark.parametrize("mechanism", MECHANISMS)
    def test_sabotage_updates_not_clipped(self, monkeypatch: pytest.MonkeyPatch, mechanism: str) -> None:
        """Updates have norm √3000 = 55 C ÷ 1.5, so an unclipped update minus the clipped one is not noise."""
        for module in (client_update, server):
            monkeypatch.setattr(module, "clip", lambda update, clip_norm: update)
        assert noise_check(client_level_plan(mechanism)).failed

    @pytest.mark.parametrize("mechanism", MECHANISMS)
    def test_sabotage_clipped_to_twice_the_norm(self, monkeypatch: pytest.MonkeyPatch, mechanism: str) -> None:
        clip = client_update.clip
        for module in (client_update, server):
            monkeypatch.setattr(module, "clip", lambda update, clip_norm: clip(update, 2 * clip_norm))
        assert "along" in " ".join(noise_check(client_level_plan(mechanism)).faults)

    def test_sabotage_weighted_by_examples(self) -> None:
        def weighted(self: Server, client: int, update: np.ndarray, examples: int) -> None:
            Server.receive(self, client, update, examples)
            self._sum += 4 * client_update.clip(update, 1.5)

        assert noise_check(client_level_plan("dp-fedavg"), receive=weighted).failed

    def test_sabotage_weights_moved_apart_from_messages(self) -> None:
        """Messages have the planned noise, but the server's weights move by something else."""

        def moved(self: Server, round: int) -> None:
            Server.finish(self, round)
            self.weights[7] += 0.1

        def left_out(self: Server, client: int, update: np.ndarray, examples: int) -> None:
            if client != 3:
                Server.receive(self, client, update, examples)

        for mechanism in ("local", "secure-sum"):
            for change in ({"finish": moved}, {"receive": left_out}):
                (fault,) = noise_check(client_level_plan(mechanism), 10, **change).faults
                assert "clip norms apart" in fault

    def test_sabotage_constant_number_of_clients(self) -> None:
        plan = client_level_plan("dp-fedavg")
        five = next(visits for visits in plan.rounds if len(visits) == 5)
        faults = noise_check(FederatedPlan(**{**plan.__dict__, "rounds": (five,) * len(plan.rounds)})).faults
        drawn, sizes, times = faults
        assert "draw of its key" in drawn
        assert sizes.startswith("Sample sizes spread 0.")
        assert "evenly" in times

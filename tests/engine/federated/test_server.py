"""What the server does with updates, against weights worked out by hand."""

import numpy as np
import pytest
from scipy import stats

from engine.config import FederationConfig, PrivacyConfig, SimulationConfig, TrainingConfig
from engine.federated.plan import FederatedPlan, federated_plan
from engine.federated.server import Server
from engine.privacy.noise_check import NoiseMonitor
from engine.seeds import Seeds

START = np.array([1.0, -2.0, 0.5], dtype=np.float32)
FIRST, SECOND = np.array([3.0, -2.0, 0.5], dtype=np.float32), np.array([1.0, 0.0, 4.5], dtype=np.float32)


def plan_of(mechanism: str = "dp-sgd", clients: int = 2, rounds: int = 1, **privacy: object) -> FederatedPlan:
    config = SimulationConfig(
        training=TrainingConfig(batch_size=2, epochs=1),
        federation=FederationConfig(clients=clients, rounds=rounds),
        privacy=PrivacyConfig(mechanism=mechanism, **privacy),  # type: ignore[arg-type]
    )
    return federated_plan(config, 20, lambda: pytest.fail("the layout is not needed"))


def server_of(plan: FederatedPlan, weights: np.ndarray, *, equal: bool = True, seed: int = 0) -> Server:
    monitor = NoiseMonitor([plan.server], weights.size) if plan.server else None
    return Server(plan, weights, Seeds(seed), equal=equal, monitor=monitor)


def test_the_mean_by_examples() -> None:
    weights = START.copy()
    server = server_of(plan_of(), weights, equal=False)
    server.receive(0, FIRST, 30, 0)
    server.receive(1, SECOND, 10, 0)
    server.finish(0)
    np.testing.assert_allclose(weights, [2.5, -1.5, 1.5])


def test_the_equal_mean_and_what_travelled() -> None:
    weights = START.copy()
    server = server_of(plan_of(), weights)
    server.receive(0, FIRST, 30, 0)
    server.receive(1, SECOND, 10, 0)
    exchange = server.finish(0)
    np.testing.assert_allclose(weights, [2.0, -1.0, 2.5])
    assert exchange.clients == (0, 1)
    assert exchange.norms == pytest.approx((2.0, 20**0.5))
    # Both lie √(1 + 1 + 4) from their mean.
    assert exchange.drift == pytest.approx(6**0.5)
    assert exchange.bytes_up == exchange.bytes_down == 2 * 3 * 4


def test_one_client_is_taken_over_to_the_last_digit() -> None:
    random = np.random.default_rng(0)
    weights = (random.standard_normal(10_000) * 10.0 ** random.integers(-20, 20, 10_000)).astype(np.float32)
    own = (weights * random.normal(1, 1, 10_000) + random.standard_normal(10_000)).astype(np.float32)
    server = server_of(plan_of(), weights, equal=False)
    server.receive(0, own, 17, 0)
    server.finish(0)
    np.testing.assert_array_equal(weights, own)


def test_a_round_without_clients_leaves_the_weights() -> None:
    weights = START.copy()
    exchange = server_of(plan_of(), weights).finish(0)
    np.testing.assert_array_equal(weights, START)
    assert exchange.clients == ()
    assert exchange.bytes_up == 0


def test_updates_are_clipped_and_the_sum_is_divided_by_who_was_expected() -> None:
    weights = START.copy()
    plan = plan_of("dp-fedavg", clients=4, noise_multiplier=1e-9, clip_norm=1.0)
    server = server_of(plan, weights)
    server.receive(0, FIRST, 30, 0)  # moves by (2, 0, 0), of length 2
    server.receive(1, START + np.array([0, 0.5, 0], dtype=np.float32), 10, 0)
    server.finish(0)
    np.testing.assert_allclose(weights - START, [0.25, 0.125, 0.0], atol=1e-6)


@pytest.mark.parametrize(("mechanism", "clients"), [("dp-fedavg", 4), ("local", 4)])
def test_the_noise_has_the_spread_that_was_planned(mechanism: str, clients: int) -> None:
    size = 40_000
    weights = np.zeros(size, dtype=np.float32)
    server = server_of(plan_of(mechanism, clients=clients, noise_multiplier=1.3, clip_norm=0.5), weights)
    for client in range(clients):
        server.receive(client, np.zeros(size, dtype=np.float32), 5, 0)
    server.finish(0)
    # The server adds it once to the sum of four; four clients add it each.
    spread = 1.3 * 0.5 / 4 * (1 if mechanism == "dp-fedavg" else 2)
    assert stats.kstest(weights / spread, "norm").pvalue > 1e-4
    for wrong in (2 / 3, 1.5):
        assert stats.kstest(weights / spread / wrong, "norm").pvalue < 1e-10


def test_rounds_and_clients_draw_different_noise() -> None:
    drawn = []
    for mechanism in ("dp-fedavg", "local"):
        plan = plan_of(mechanism, clients=2, rounds=2)
        for number in range(2):
            for client in range(2):
                weights = np.zeros(1000, dtype=np.float32)
                server = server_of(plan, weights)
                server.receive(client, weights.copy(), 1, number)
                server.finish(number)
                drawn.append(weights if mechanism == "local" else weights + client)
    angles = np.corrcoef(drawn)
    off = angles[~np.eye(len(angles), dtype=bool)].reshape(len(angles), -1)
    same = np.abs(off) > 0.99
    # At the server who took part does not matter, and each of its rounds stands here twice.
    assert same[:4].sum() == 4
    assert same[4:].sum() == 0


class TestSabotage:
    """The noise check on whole clients: each fault must show."""

    @staticmethod
    def faults(plan: FederatedPlan, rounds: int = 60, size: int = 3000, **change: object) -> tuple[str, ...]:
        weights = np.zeros(size, dtype=np.float32)
        server = server_of(plan, weights)
        for name, value in change.items():
            setattr(server, name, value.__get__(server))  # type: ignore[attr-defined]
        random = np.random.default_rng(5)
        for number in range(rounds):
            server.begin()
            for visit in plan.rounds[number]:
                update = random.standard_normal(size).astype(np.float32)
                server.receive(visit.client, weights + update, 5, number)
            server.finish(number)
        assert server._monitor is not None
        return server._monitor.verdict().faults

    @staticmethod
    def plan(mechanism: str) -> FederatedPlan:
        config = SimulationConfig(
            training=TrainingConfig(batch_size=2, epochs=1),
            federation=FederationConfig(clients=20, participants=5 if mechanism == "dp-fedavg" else None, rounds=60),
            privacy=PrivacyConfig(mechanism=mechanism),
        )
        return federated_plan(config, 60, lambda: pytest.fail("the layout is not needed"))

    @pytest.mark.parametrize("mechanism", ["dp-fedavg", "local"])
    def test_honest_rounds_pass(self, mechanism: str) -> None:
        assert self.faults(self.plan(mechanism)) == ()

    @pytest.mark.parametrize("mechanism", ["dp-fedavg", "local"])
    def test_sabotage_no_noise(self, mechanism: str) -> None:
        def nothing(self: Server, server: object, **keys: int) -> np.ndarray:
            return np.zeros(self.weights.size)

        assert "0.0 % of the planned" in " ".join(self.faults(self.plan(mechanism), _noise=nothing))

    @pytest.mark.parametrize("mechanism", ["dp-fedavg", "local"])
    def test_sabotage_half_the_noise(self, mechanism: str) -> None:
        def half(self: Server, server: object, **keys: int) -> np.ndarray:
            return Server._noise(self, server, **keys) / 2  # type: ignore[arg-type]

        assert "% of the planned" in " ".join(self.faults(self.plan(mechanism), _noise=half))

    @pytest.mark.parametrize("mechanism", ["dp-fedavg", "local"])
    def test_sabotage_the_same_noise_again(self, mechanism: str) -> None:
        def same(self: Server, server: object, **keys: int) -> np.ndarray:
            return Server._noise(self, server, round=0)  # type: ignore[arg-type]

        assert "again" in " ".join(self.faults(self.plan(mechanism), _noise=same))

    def test_sabotage_updates_not_clipped(self) -> None:
        def whole(self: Server, server: object, client: int, update: np.ndarray, *rest: object) -> np.ndarray:
            return update

        assert "longer than the clip norm" in " ".join(self.faults(self.plan("dp-fedavg"), _sent=whole))

    def test_sabotage_weighted_by_examples(self) -> None:
        plan = self.plan("dp-fedavg")
        weights = np.zeros(3000, dtype=np.float32)
        server = Server(
            plan, weights, Seeds(0), equal=False, monitor=NoiseMonitor([plan.server], 3000) if plan.server else None
        )
        for number in range(20):
            for visit in plan.rounds[number]:
                server.receive(visit.client, np.ones(3000, dtype=np.float32), 5, number)
            server.finish(number)
        assert server._monitor is not None
        assert "longer than the clip norm" in " ".join(server._monitor.verdict().faults)

    def test_sabotage_always_as_many_clients(self) -> None:
        plan = self.plan("dp-fedavg")
        first = plan.rounds[0]
        found = self.faults(FederatedPlan(**{**plan.__dict__, "rounds": (first,) * len(plan.rounds)}))
        assert len(found) == 1
        assert "comes back too evenly or too unevenly for independent draws" in found[0]

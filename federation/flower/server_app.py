"""The ServerApp: rounds of SecAgg+, after each of which the common model is scored on the public corpus."""

import os
import time
from pathlib import Path

from flwr.app import Context
from flwr.common import FitIns, FitRes, Parameters, ndarrays_to_parameters, parameters_to_ndarrays
from flwr.server.client_manager import ClientManager
from flwr.server.client_proxy import ClientProxy
from flwr.server.compat.legacy_context import LegacyContext
from flwr.server.server_config import ServerConfig
from flwr.server.strategy import FedAvg
from flwr.server.workflow import DefaultWorkflow
from flwr.serverapp import ServerApp
from flwr.serverapp.grid import Grid

from engine.settings import Settings
from federation import configuration
from federation.configuration import FILE
from federation.flower.aggregation import MODULUS, Aggregation, levels, patch_flower
from federation.flower.server_validation import reconstruction_threshold
from federation.quantization_range import span
from federation.server import Server


class _AllClients(FedAvg):
    """A strategy with all clients in each round; the unmasked mean is added to the common weights."""

    def __init__(self, server: Server) -> None:
        super().__init__()
        self._server = server
        self._clients: dict[str, ClientProxy] = {}

    def initialize_parameters(self, client_manager: ClientManager) -> Parameters:
        return ndarrays_to_parameters([self._server.weights])

    def configure_fit(
        self, server_round: int, parameters: Parameters, client_manager: ClientManager
    ) -> list[tuple[ClientProxy, FitIns]]:
        """Request an update from every client that has ever connected, so that returning clients take part again."""
        ins = FitIns(parameters, {"round": server_round - 1})
        self._clients |= client_manager.all()
        return [(proxy, ins) for proxy in self._clients.values()]

    def aggregate_fit(  # type: ignore[no-untyped-def]
        self, server_round: int, results: list[tuple[ClientProxy, FitRes]], failures
    ):
        (mean,) = parameters_to_ndarrays(results[0][1].parameters)
        epsilon = max(float(result.metrics["epsilon"]) for _, result in results)
        self._server.move(server_round, mean, len(results), epsilon)
        return ndarrays_to_parameters([self._server.weights]), {}

    def configure_evaluate(self, server_round, parameters, client_manager):  # type: ignore[no-untyped-def]
        return []

    def evaluate(self, server_round: int, parameters: Parameters) -> None:
        self._server.end_round(server_round)


app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run all rounds, when all clients have connected."""
    patch_flower()
    agreement = configuration.read(Path(os.environ[FILE]))
    server = Server(agreement, Settings.from_environment())
    clients = agreement.config.federation.clients
    while len(list(grid.get_node_ids())) < clients:
        time.sleep(1)
    legacy = LegacyContext(
        context=context,
        config=ServerConfig(num_rounds=agreement.config.federation.rounds),
        strategy=_AllClients(server),
    )
    aggregation = Aggregation(
        num_shares=clients,
        reconstruction_threshold=reconstruction_threshold(clients),
        max_weight=float(server.most_examples),
        clipping_range=span(agreement.config),
        quantization_range=levels(clients),
        modulus_range=MODULUS,
        timeout=agreement.seconds,
    )
    DefaultWorkflow(fit_workflow=aggregation)(grid, legacy)
    server.finish()

"""The ClientApp: Flower's SecAgg+ around one round of :class:`federation.client.Client`.

Flower starts a separate process for each message.
"""

import numpy as np
from flwr.app import Context
from flwr.client.mod.secure_aggregation.secaggplus_mod import secaggplus_mod
from flwr.clientapp import ClientApp
from flwr.common import Code, FitIns, FitRes, Status, ndarrays_to_parameters, parameters_to_ndarrays
from flwr.compat.client.client import Client as FlowerClient

from engine.errors import TrainingFailed
from engine.settings import Settings
from federation.configuration import Agreement
from federation.error_log import cause
from federation.flower.aggregation import patch_flower
from federation.flower.server_validation import Guard
from federation.quantization_range import span


class _TrainingClient(FlowerClient):
    """A Flower client that trains one round."""

    def __init__(self, agreement: Agreement) -> None:
        self._agreement = agreement

    def fit(self, ins: FitIns) -> FitRes:
        """Train the requested round from the common weights.

        Raises:
            TrainingFailed: If that is impossible. Flower sends the message to the server, so it states no reason, which
                could quote private values; the reason is in the client's own log.
        """
        # 1 s to import: Flower starts four processes for each round, and one of them trains.
        from federation.client import Client

        (common,) = parameters_to_ndarrays(ins.parameters)
        try:
            client = Client(self._agreement, Settings.from_environment())
            trained = client.train(np.asarray(common, dtype=np.float32), int(ins.config["round"]))
        except Exception as error:
            reason = cause(error, self._agreement.config)
            raise TrainingFailed("The client sends nothing for this round; its own log states the reason") from reason
        return FitRes(
            status=Status(Code.OK, ""),
            parameters=ndarrays_to_parameters([trained.update]),
            num_examples=1 if client.plan.equal else trained.examples,
            metrics={"epsilon": trained.epsilon},
        )


def build_client_app(agreement: Agreement) -> ClientApp:
    """Return the app that answers the server's messages, and apply the fixes to Flower."""
    patch_flower()

    def build_client(context: Context) -> FlowerClient:
        return _TrainingClient(agreement)

    guard = Guard(agreement.config.federation.clients, span(agreement.config))
    return ClientApp(client_fn=build_client, mods=[guard, secaggplus_mod])

"""Validation of the server's messages by a client, before Flower's own code reads them.

Flower's SecAgg+ accepts a server that requests both kinds of shares of a client, as active and as dropped out. With
both, the server could unmask that client's upload.
"""

from flwr.app import Context, Message
from flwr.app.message_type import MessageType
from flwr.clientapp.typing import ClientAppCallable
from flwr.common.secure_aggregation.secaggplus_constants import RECORD_KEY_CONFIGS, Key, Stage

from engine.errors import SecAggFailed
from federation.flower.aggregation import MODULUS, levels


def reconstruction_threshold(clients: int) -> int:
    """Return the least number of clients whose sum is unmasked: two thirds, rounded up."""
    return clients - min(clients // 3, (clients - 1) // 2)


class Guard:
    """A Flower mod that validates messages before SecAgg+."""

    def __init__(self, clients: int, span: float) -> None:
        """Set the agreed values.

        Args:
            clients: Number of clients of the federation.
            span: Largest absolute change of a weight.
        """
        self._clients, self._span = clients, span

    def __call__(self, message: Message, context: Context, call_next: ClientAppCallable) -> Message:
        """Forward a message. Raises SecAggFailed for a message that violates the protocol.

        Args:
            message: The message of the server.
            context: The context of the client.
            call_next: The next mod.
        """
        request = message.content.config_records.get(RECORD_KEY_CONFIGS)
        if request is None or message.metadata.message_type != MessageType.TRAIN:
            raise SecAggFailed("The server requested an unmasked update; this client sends only masked updates")
        stage = request.get(Key.STAGE)
        if stage == Stage.SETUP:
            agreed = {
                Key.THRESHOLD: reconstruction_threshold(self._clients),
                Key.CLIPPING_RANGE: self._span,
                Key.TARGET_RANGE: levels(self._clients),
                Key.MOD_RANGE: MODULUS,
                Key.SHARE_NUMBER: self._clients,
                Key.SAMPLE_NUMBER: self._clients,
            }
            for name, value in agreed.items():
                if request.get(name) != value:
                    raise SecAggFailed(f"The server requested {name}={request.get(name)!r}, expected {value!r}")
        if stage == Stage.UNMASK:
            active, dropped = set(request[Key.ACTIVE_NODE_ID_LIST]), set(request[Key.DEAD_NODE_ID_LIST])
            if active & dropped or len(active) < reconstruction_threshold(self._clients):
                raise SecAggFailed("The server requested shares that would unmask a single client's update")
        return call_next(message, context)

"""What a client holds a server to, before Flower's own code reads a message.

Flower's SecAgg+ believes a server that asks for the shares of a client's keys twice over, as one that is there and as
one that is gone: with both, that client's upload is open.
"""

from flwr.app import Context, Message
from flwr.app.message_type import MessageType
from flwr.clientapp.typing import ClientAppCallable
from flwr.common.secure_aggregation.secaggplus_constants import RECORD_KEY_CONFIGS, Key, Stage

from engine.errors import SecAggFailed
from federation.flower.aggregation import MODULUS, levels


def least(clients: int) -> int:
    """The fewest of so many clients whose sum is opened: two thirds, rounded up."""
    return clients - min(clients // 3, (clients - 1) // 2)


class Guard:
    """A mod that stands before SecAgg+. clients: of the federation; span: of a weight, as agreed."""

    def __init__(self, clients: int, span: float) -> None:
        self._clients, self._span = clients, span

    def __call__(self, message: Message, context: Context, call_next: ClientAppCallable) -> Message:
        """Pass a message on. Raises SumFailed for one that nobody who follows the protocol sends."""
        asked = message.content.config_records.get(RECORD_KEY_CONFIGS)
        if asked is None or message.metadata.message_type != MessageType.TRAIN:
            raise SecAggFailed("The server asks for an update without a mask, which nothing here sends")
        stage = asked.get(Key.STAGE)
        if stage == Stage.SETUP:
            agreed = {
                Key.THRESHOLD: least(self._clients),
                Key.CLIPPING_RANGE: self._span,
                Key.TARGET_RANGE: levels(self._clients),
                Key.MOD_RANGE: MODULUS,
                Key.SHARE_NUMBER: self._clients,
                Key.SAMPLE_NUMBER: self._clients,
            }
            for name, value in agreed.items():
                if asked.get(name) != value:
                    raise SecAggFailed(f"The server asks for {name}={asked.get(name)!r}, expected {value!r}, as agreed")
        if stage == Stage.UNMASK:
            there, gone = asked[Key.ACTIVE_NODE_ID_LIST], asked[Key.DEAD_NODE_ID_LIST]
            if set(there) & set(gone) or len(set(there)) < least(self._clients):
                raise SecAggFailed("The server asks for shares that would open a single client's update")
        return call_next(message, context)

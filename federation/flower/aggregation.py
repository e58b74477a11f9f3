"""Flower's SecAgg+ (Bell et al. 2020), with two things mended.

*Masks.* Flower folds the 32 bytes that two clients agree on to 32 bits and draws masks from a Mersenne Twister: whoever
has the uploads can try all of them. Here a mask is made by ChaCha20 from all 32 bytes, as in the simulation.

*Clients that vanish.* Flower asks for the shares of all clients that were called, also of those who vanished before
they had given out any, and the round is lost. Here those are forgotten: they masked nothing, and
nobody masked for them.
"""

import importlib
from hashlib import sha256

import numpy as np
from flwr.server.workflow.secure_aggregation.secaggplus_workflow import SecAggPlusWorkflow, WorkflowState

from engine.federated.secagg.crypto import mask

MODULUS = 1 << 32
_DRAW_MASKS = (
    "flwr.client.mod.secure_aggregation.secaggplus_mod",  # by name: its package has a function that is called the same
    "flwr.server.workflow.secure_aggregation.secaggplus_workflow",
)


def masks(seed: bytes, modulus: int, shapes: list[tuple[int, ...]]) -> list[np.ndarray]:
    """A mask of each shape, int64, uniform below 2³² for whoever does not have the seed. Raises ValueError for another
    modulus."""
    if modulus != MODULUS:
        raise ValueError(f"modulus={modulus}, expected {MODULUS}")
    sizes = [int(np.prod(shape)) for shape in shapes]
    stream = mask(sha256(b"masks of a federation" + seed).digest(), sum(sizes)).astype(np.int64)
    parts = np.split(stream, np.cumsum(sizes)[:-1])
    return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]


def mend() -> None:
    """Put these masks in the place of Flower's, in this process. Raises AttributeError where another version of Flower
    draws them elsewhere."""
    for name in _DRAW_MASKS:
        module = importlib.import_module(name)
        module.pseudo_rand_gen  # noqa: B018
        vars(module)["pseudo_rand_gen"] = masks


class Aggregation(SecAggPlusWorkflow):
    """SecAgg+ of a round whose clients may vanish at any stage."""

    def share_keys_stage(self, grid, context, state: WorkflowState) -> bool:  # type: ignore[no-untyped-def]
        """See :class:`SecAggPlusWorkflow`; who has shared no keys is no part of what follows."""
        enough: bool = super().share_keys_stage(grid, context, state)
        state.sampled_node_ids = set(state.active_node_ids)
        state.nid_to_neighbours = {
            node: state.nid_to_neighbours[node] & state.active_node_ids for node in state.active_node_ids
        }
        return enough


def levels(clients: int) -> int:
    """Into how many steps a weight's range is cut: the finest for which so many uploads stay below the modulus."""
    return 1 << (31 - clients.bit_length())

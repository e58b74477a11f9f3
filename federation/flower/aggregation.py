"""Flower's SecAgg+ (Bell et al. 2020), with two fixes.

*Masks.* Flower folds the shared key of two clients, 32 bytes, to 32 bits, and generates masks with a Mersenne Twister:
an attacker with the uploads can try all seeds. Here ChaCha20 generates a mask from all 32 bytes, as in the simulation.

*Dropouts.* Flower requests shares for all sampled clients, including clients that dropped out before sending shares,
and the round fails. Here those clients are excluded: they masked nothing, and no client added a mask for them.
"""

import importlib
from hashlib import sha256

import numpy as np
from flwr.server.workflow.secure_aggregation.secaggplus_workflow import SecAggPlusWorkflow, WorkflowState

from engine.federated.secagg.crypto import mask

MODULUS = 1 << 32
"""Modulus of the masked uploads."""
_DRAW_MASKS = (
    "flwr.client.mod.secure_aggregation.secaggplus_mod",  # by name: its package has a function of the same name
    "flwr.server.workflow.secure_aggregation.secaggplus_workflow",
)


def masks(seed: bytes, modulus: int, shapes: list[tuple[int, ...]]) -> list[np.ndarray]:
    """Return a mask of each shape, int64, uniform below 2³² to a party without the seed.

    Args:
        seed: Shared key of two clients, or seed of a self mask.
        modulus: Modulus of the masks; it must be ``MODULUS``.
        shapes: Shapes of the masks.

    Raises:
        ValueError: If the modulus is another one.
    """
    if modulus != MODULUS:
        raise ValueError(f"modulus={modulus}, expected {MODULUS}")
    sizes = [int(np.prod(shape)) for shape in shapes]
    stream = mask(sha256(b"masks of a federation" + seed).digest(), sum(sizes)).astype(np.int64)
    parts = np.split(stream, np.cumsum(sizes)[:-1])
    return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]


def patch_flower() -> None:
    """Replace Flower's masks by :func:`masks` in this process.

    Raises AttributeError if this version of Flower generates masks elsewhere.
    """
    for name in _DRAW_MASKS:
        module = importlib.import_module(name)
        module.pseudo_rand_gen  # noqa: B018
        vars(module)["pseudo_rand_gen"] = masks


class Aggregation(SecAggPlusWorkflow):
    """SecAgg+ of a round whose clients may drop out at any stage."""

    def share_keys_stage(self, grid, context, state: WorkflowState) -> bool:  # type: ignore[no-untyped-def]
        """Share keys; see :class:`SecAggPlusWorkflow`. Clients that sent no shares leave the round."""
        above_threshold: bool = super().share_keys_stage(grid, context, state)
        state.sampled_node_ids = set(state.active_node_ids)
        state.nid_to_neighbours = {
            node: state.nid_to_neighbours[node] & state.active_node_ids for node in state.active_node_ids
        }
        return above_threshold


def levels(clients: int) -> int:
    """Return the number of quantisation levels of a weight: the most for which the sum stays below the modulus."""
    return 1 << (31 - clients.bit_length())

"""The message that a client sends after its training in a round.

*Local* (client-level privacy from every other party): the client scales its update down to L2 norm C and adds
N(0, σ²C²) to each weight before sending it. A client whose training diverged sends only that noise: a missing message
would reveal, without any noise, that its sentences made the training fail.

*Secure aggregation*: the same, with a share of the noise and on the grid of the sum, before masking
(:mod:`engine.federated.secagg.aggregation_round`).
"""

import numpy as np

from engine.federated.plan import FederatedPlan
from engine.privacy.mechanisms import add_gaussian_noise
from engine.seeds import Secrets, Seeds


def message(
    plan: FederatedPlan,
    common: np.ndarray,
    trained: np.ndarray | None,
    streams: Secrets | Seeds,
    client: int,
    round: int,
) -> np.ndarray | None:
    """Return the update that a client sends.

    Args:
        plan: The federated plan.
        common: Common weights at the start of the round, [size].
        trained: Weights of the client after its training, [size]; None if they are not finite.
        streams: Random streams of the run.
        client: Number of the client.
        round: Number of the round, from 0.

    Returns:
        The update, float64 [size]; None if the client sends nothing because its training diverged.
    """
    update = None if trained is None else trained.astype(np.float64) - common
    if not plan.local or plan.server is None:
        return update
    clipped = clip(update, plan.server.clip_norm) if update is not None else np.zeros(common.size)
    noise = server_noise(plan, common.size, streams, client=client, round=round)
    if secure := plan.secure_round(round, common.size):
        return secure.upload(clipped, noise.astype(np.float64) / secure.scale)
    noisy: np.ndarray = clipped + noise
    return noisy


def clip(update: np.ndarray, clip_norm: float | None) -> np.ndarray:
    """Return the update, scaled down to L2 norm ``clip_norm`` if its norm is larger."""
    norm, bound = float(np.linalg.norm(update)), float(clip_norm or 0.0)
    return update * (bound / norm) if norm > bound else update


def server_noise(plan: FederatedPlan, size: int, streams: Secrets | Seeds, **keys: int) -> np.ndarray:
    """Draw the noise of a client-level mechanism.

    Args:
        plan: The federated plan.
        size: Number of weights.
        streams: Random streams of the run.
        **keys: Numbers that identify the draw: the round, and the client if it adds the noise itself.

    Returns:
        The noise, float32 [size].

    Raises:
        TypeError: If the streams are those of the seed alone.
    """
    if plan.server is None or not isinstance(streams, Secrets):
        raise TypeError("expected Secrets for noise: runs with the same seed share its streams")
    noise = np.zeros(size, dtype=np.float32)
    add_gaussian_noise(noise, streams.stream("server noise", **keys), plan.server.noise_std)
    return noise

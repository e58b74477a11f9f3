"""What leaves a client after its training in a round.

*Secure sum*: the same with a share of the noise, on the grid of the sum, which hides it under masks
(:mod:`engine.federated.secagg.aggregation_round`).

*Local* (a whole client is protected, from everybody): its update is scaled down to L2 norm C and gets N(0, σ²C²) on
each weight before it is sent. A client whose training diverged sends that noise alone: a missing message would tell,
without any noise, that something about its sentences made the training fail.
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
    """The update [size] that a client sends, float64; None if it sends nothing, since its training diverged.

    common: weights at the start of the round; trained: the client's own after it, None where they stopped being finite.
    streams: of the run.
    """
    update = None if trained is None else trained.astype(np.float64) - common
    if not plan.local or plan.server is None:
        return update
    clipped = clip(update, plan.server.clip_norm) if update is not None else np.zeros(common.size)
    noise = server_noise(plan, common.size, streams, client=client, round=round)
    if secure := plan.secure_round(round, common.size):
        return secure.upload(clipped, noise.astype(np.float64) / secure.scale)
    sent: np.ndarray = clipped + noise
    return sent


def clip(update: np.ndarray, clip_norm: float | None) -> np.ndarray:
    """The update, scaled down to L2 norm ``clip_norm`` where it is longer."""
    norm, bound = float(np.linalg.norm(update)), float(clip_norm or 0.0)
    return update * (bound / norm) if norm > bound else update


def server_noise(plan: FederatedPlan, size: int, streams: Secrets | Seeds, **keys: int) -> np.ndarray:
    """The noise of a mechanism on whole clients, [size]. Raises TypeError for streams of a seed alone."""
    if plan.server is None or not isinstance(streams, Secrets):
        raise TypeError("streams of a seed alone are shared between runs: noise needs Secrets")
    noise = np.zeros(size, dtype=np.float32)
    add_gaussian_noise(noise, streams.stream("server noise", **keys), plan.server.noise_std)
    return noise

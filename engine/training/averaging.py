"""The exponential moving average of a run's weights (Polyak and Juditsky 1992; De et al. 2022, section 3 for DP-SGD).

Each step adds new noise to the weights; their average over many steps has less noise. It is post-processing of released
weights, so it has no privacy cost.
"""

import numpy as np
from numba import njit, prange


class Average:
    """The average of ``weights`` [size], which training changes in place.

    With ``decay`` 0 it equals the weights.

    Attributes:
        state: arrays by name, saved in checkpoints.
    """

    def __init__(self, decay: float, weights: np.ndarray) -> None:
        self._decay, self._followed = decay, weights
        self.state: dict[str, np.ndarray] = {}
        if decay:
            self.state = {"average": np.zeros_like(weights), "average weight": np.zeros(1)}

    def follow(self) -> None:
        """Update the average with the present weights."""
        if self._decay:
            own = 1 - self._decay
            _follow(self.state["average"], self._followed, np.float32(own))
            self.state["average weight"] += own * (1 - self.state["average weight"])

    @property
    def weights(self) -> np.ndarray:
        """The average so far, corrected for its initialisation with zeros."""
        share = float(self.state["average weight"][0]) if self._decay else 0.0
        return self.state["average"] / np.float32(share) if share else self._followed


@njit(cache=True, nogil=True, parallel=True)
def _follow(average, followed, own):  # type: ignore[no-untyped-def]
    """Compute average += own · (followed − average), weight by weight.

    The rounding equals that of separate array operations, in half the time for millions of weights.
    """
    for i in prange(average.size):
        average[i] += own * (followed[i] - average[i])


def compile_averaging() -> None:
    """Compile the functions of this module for float32 and cache the result on disk."""
    some = np.zeros(2, dtype=np.float32)
    _follow(some, some, np.float32(1))

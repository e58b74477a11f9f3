"""The exponential moving average of a run's weights (Polyak and Juditsky 1992; De et al. 2022, section 3 for DP-SGD).

Each step's noise moves the weights anew; their average over many steps has less of it. It is worked out from what was
released already, so it costs no privacy.
"""

import numpy as np
from numba import njit, prange


class Average:
    """Follows ``weights`` [size], which training changes in place. decay: 0 is the weights themselves. state:
    arrays by name; kept in checkpoints."""

    def __init__(self, decay: float, weights: np.ndarray) -> None:
        self._decay, self._followed = decay, weights
        self.state: dict[str, np.ndarray] = {}
        if decay:
            self.state = {"average": np.zeros_like(weights), "average weight": np.zeros(1)}

    def follow(self) -> None:
        """Take the weights as they are now into the average."""
        if self._decay:
            own = 1 - self._decay
            _follow(self.state["average"], self._followed, np.float32(own))
            self.state["average weight"] += own * (1 - self.state["average weight"])

    @property
    def weights(self) -> np.ndarray:
        """The average so far, of what was followed alone: the zeros that it began with are divided out."""
        share = float(self.state["average weight"][0]) if self._decay else 0.0
        return self.state["average"] / np.float32(share) if share else self._followed


@njit(cache=True, nogil=True, parallel=True)
def _follow(average, followed, own):  # type: ignore[no-untyped-def]
    """average += own · (followed − average), a weight at a time: each is rounded by itself, so that the digits are
    those of one array operation after the other, in half the time where there are millions of them."""
    for i in prange(average.size):
        average[i] += own * (followed[i] - average[i])


def compile_averaging() -> None:
    """Compile it for float32 and keep the result on disk."""
    some = np.zeros(2, dtype=np.float32)
    _follow(some, some, np.float32(1))

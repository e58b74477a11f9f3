"""Quantisation of uploads to integers modulo 2³², so that masks hide them and their sum is exact.

A mask that is uniform over a ring makes any value uniform that it is added to; no mask does so for real numbers. The
ring is that of 2³², not 2⁶⁴: an upload stays at 4 bytes a weight, as in float32, and the *quantum*, the value of the
integer 1, is small enough. With C = 1, σ = 1, 20 clients and up to 6 dropouts it is 2⁻²⁴, or 6·10⁻⁸ of σC. That is the
distance of float32 numbers just below one. A ring of 2⁶⁴ would double the bytes and masks for a finer quantum.

*No overflow.* An upload is the sum of an update and a share of noise with standard deviation s. The update has L2 norm
at most C, thus at most C on each weight. The weights of an upload must be within C + 10 s, and the quantum is such that
n uploads of that size stay between −2³¹ and 2³¹. Larger values raise an error; they are neither wrapped nor clipped.
Gaussian noise exceeds ten standard deviations with probability 1.5·10⁻²³ a weight, below 2·10⁻¹⁶ for 20 clients and
600,500 weights (:meth:`FixedPoint.overflow_probability`). The engine's own noise never does, since it ends at 9.4: an
error means that an update was not clipped. The error depends on the sentences, so its probability is a bound on its
addition to δ.

*Rounding.* The quantum is a power of two, so integers convert to float64 and back without loss. Each weight of an
upload is rounded to the nearest multiple, by at most half a quantum (:meth:`FixedPoint.error`). The direction of
rounding would depend on the update, so the sum would not be exactly one of updates and noise. Therefore the update is
put on the grid before noise is added. It is rounded towards zero, so its norm does not grow
(:meth:`FixedPoint.truncate`), and only the noise is rounded afterwards. The accounting treats this noise on a grid as
Gaussian: ``quantum / noise_std`` measures how fine the grid is. The accounting does not include the difference, nor
that of float32. Kairouz, Liu and Steinke sample exactly on integers (2021, *The Distributed Discrete Gaussian Mechanism
for Federated Learning with Secure Aggregation*).
"""

import math
from dataclasses import dataclass

import numpy as np

from engine import validation
from engine.errors import SecAggFailed

BITS = 32
"""Bits of an integer of the ring."""
DEVIATIONS = 10.0
"""Range of the noise of an upload, in standard deviations."""
_MARGIN = 1 + 2.0**-20
"""Factor on the clip norm for the rounding error of an update scaled in float32."""


@dataclass(frozen=True, kw_only=True)
class FixedPoint:
    """A grid on which integers represent the weights of an upload. Invalid values raise InvalidConfig.

    Attributes:
        parties: Largest number of uploads in a sum.
        clip_norm: C, the L2 norm bound of an update, in the unit of the weights.
        noise_std: Standard deviation, per weight, of the noise of each client, in the same unit; 0 without noise.
    """

    parties: int
    clip_norm: float
    noise_std: float

    def __post_init__(self) -> None:
        validation.integer("parties", self.parties, 1, 1_000_000)
        validation.number("clip_norm", self.clip_norm, 0, 1e30, "a number above 0", low_open=True)
        validation.number("noise_std", self.noise_std, 0, 1e30, "a number, 0 or more")

    @property
    def largest(self) -> float:
        """The largest absolute value of a weight of one upload."""
        return _MARGIN * self.clip_norm + DEVIATIONS * self.noise_std

    @property
    def most(self) -> int:
        """The largest integer in one upload: the sum over all clients is below 2³¹."""
        return ((1 << BITS - 1) - 1) // self.parties

    @property
    def quantum(self) -> float:
        """The value of the integer 1: the smallest power of two above ``largest / most``."""
        return math.ldexp(1.0, math.frexp(self.largest / self.most)[1])

    def integers(self, upload: np.ndarray) -> np.ndarray:
        """Round an upload [size] to multiples of the quantum, uint32 [size], with negative ones modulo 2³².

        Raises SecAggFailed if a weight is out of range.
        """
        rounded = np.rint(np.asarray(upload, dtype=np.float64) / self.quantum)
        outside = np.flatnonzero(~(np.abs(rounded) <= self.most))  # also finds NaN
        if outside.size:
            first = int(outside[0])
            raise SecAggFailed(
                f"Weight {first} of an upload is {float(upload[first]):.6g}, expected an absolute value of at most "
                f"{self.largest:.6g}: a clip norm of {self.clip_norm:g} and {DEVIATIONS:g} standard deviations of "
                f"{self.noise_std:g}"
            )
        integers: np.ndarray = rounded.astype(np.int32).view(np.uint32)
        return integers

    def values(self, total: np.ndarray) -> np.ndarray:
        """Return the exact values, float64 [size], of a sum of integers modulo 2³², uint32 [size]."""
        values: np.ndarray = total.view(np.int32) * self.quantum
        return values

    def truncate(self, update: np.ndarray) -> np.ndarray:
        """Round an update [size] towards zero to the grid, float64 [size], so that its L2 norm does not grow.

        Each weight changes by less than a quantum.
        """
        truncated: np.ndarray = np.trunc(np.asarray(update, dtype=np.float64) / self.quantum) * self.quantum
        return truncated

    def error(self, uploads: int) -> float:
        """Return the largest rounding error, on each weight, of the sum of so many uploads."""
        return uploads * self.quantum / 2

    def error_norm(self, uploads: int, weights: int) -> float:
        """Return the largest L2 norm of that rounding error over so many weights."""
        return self.error(uploads) * math.sqrt(weights)

    def overflow_probability(self, weights: int) -> float:
        """Return a bound on the probability that one of ``parties`` honest uploads with Gaussian noise does not fit."""
        return min(1.0, self.parties * weights * math.erfc(DEVIATIONS / math.sqrt(2))) if self.noise_std else 0.0

"""Real numbers as integers modulo 2³², so that a mask hides them and their sum is exact.

A mask that is uniform over a ring makes whatever it is added to uniform; no mask does so for real numbers. The ring of
2³² is chosen, not that of 2⁶⁴: an upload stays at 4 bytes a weight, as float32 has, and the *quantum*, which the
integer 1 stands for, is small enough. With C = 1, σ = 1, 20 parties and 6 of them to spare it is 2⁻²⁴, 6·10⁻⁸ of σC, as
far apart as float32 has numbers below one. 2⁶⁴ would double bytes and masks to make that finer still.

*No overflow.* An upload is an update of L2 norm at most C, thus at most C on each weight, and a share of noise with
standard deviation s. It is expected within C + 10 s, and the quantum is such that n uploads of that size stay between
−2³¹ and 2³¹. What is beyond is refused in a sentence, never wrapped and never cut off. Ten standard deviations are
passed by Gaussian noise with a chance of 1.5·10⁻²³ a weight, below 2·10⁻¹⁶ for 20 parties and 600,500 weights
(:meth:`FixedPoint.refusal`), and never by the engine's own, which ends at 9.4: a refusal means an update that was not
clipped. It depends on the sentences, so that its chance is what it may add to δ.

*Rounding.* The quantum is a power of two: integers become float64 and back without loss. Each weight of an upload is
rounded to the nearest multiple, by half a quantum at most (:meth:`FixedPoint.error`). Which way depends on the update,
so strictly the sum is no longer one of updates and noise. It is where the update is put on the grid before noise is
added to it, towards zero, which makes none longer (:meth:`FixedPoint.shortened`): what is rounded then is noise alone.
That noise on a grid is priced as if it were Gaussian: ``quantum / noise_std`` says how fine the grid is, and nothing
here prices the difference, nor that of float32. Samples that are exact on integers are Kairouz, Liu and Steinke's
(2021, *The Distributed Discrete Gaussian Mechanism for Federated Learning with Secure Aggregation*).
"""

import math
from dataclasses import dataclass

import numpy as np

from engine import validation
from engine.errors import SecAggFailed

BITS = 32
"""Of the ring."""
DEVIATIONS = 10.0
"""Standard deviations of its noise that an upload's weight has room for."""
_ROOM = 1 + 2.0**-20
"""For an update that was scaled to its bound in float32."""


@dataclass(frozen=True, kw_only=True)
class FixedPoint:
    """Which integers stand for the weights of an upload.

    parties: how many uploads are added at most. clip_norm: C, L2 norm of an update at most, in the unit of the weights.
    noise_std: of the noise that each party adds itself, per weight, in the same unit; 0 where none does. Raises
    InvalidConfig.
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
        """What a weight of one upload is expected to be at most, on either side of zero."""
        return _ROOM * self.clip_norm + DEVIATIONS * self.noise_std

    @property
    def most(self) -> int:
        """The largest integer that one upload may have: so many parties' are below 2³¹ together."""
        return ((1 << BITS - 1) - 1) // self.parties

    @property
    def quantum(self) -> float:
        """What the integer 1 stands for: the first power of two above ``largest / most``."""
        return math.ldexp(1.0, math.frexp(self.largest / self.most)[1])

    def integers(self, upload: np.ndarray) -> np.ndarray:
        """The nearest multiples of the quantum, of an upload [size], as uint32 [size], negative ones modulo 2³². Raises
        SumFailed for what does not fit."""
        rounded = np.rint(np.asarray(upload, dtype=np.float64) / self.quantum)
        outside = np.flatnonzero(~(np.abs(rounded) <= self.most))  # and what is no number
        if outside.size:
            first = int(outside[0])
            raise SecAggFailed(
                f"Weight {first} of an upload is {float(upload[first]):.6g}, expected at most {self.largest:.6g} from "
                f"zero: a clip norm of {self.clip_norm:g} and {DEVIATIONS:g} standard deviations of {self.noise_std:g}"
            )
        integers: np.ndarray = rounded.astype(np.int32).view(np.uint32)
        return integers

    def values(self, total: np.ndarray) -> np.ndarray:
        """What a sum of integers modulo 2³², uint32 [size], stands for, float64 [size], exactly."""
        values: np.ndarray = total.view(np.int32) * self.quantum
        return values

    def shortened(self, update: np.ndarray) -> np.ndarray:
        """An update [size] on the grid, each weight moved towards zero by less than a quantum, float64 [size]: its L2
        norm does not grow."""
        shortened: np.ndarray = np.trunc(np.asarray(update, dtype=np.float64) / self.quantum) * self.quantum
        return shortened

    def error(self, uploads: int) -> float:
        """How far, on each weight, the sum of so many rounded uploads is at most from the sum of the uploads."""
        return uploads * self.quantum / 2

    def error_norm(self, uploads: int, weights: int) -> float:
        """The same as an L2 norm over so many weights."""
        return self.error(uploads) * math.sqrt(weights)

    def refusal(self, weights: int) -> float:
        """The chance, at most, that one of ``parties`` uploads with clipped updates and Gaussian noise is refused."""
        return min(1.0, self.parties * weights * math.erfc(DEVIATIONS / math.sqrt(2))) if self.noise_std else 0.0

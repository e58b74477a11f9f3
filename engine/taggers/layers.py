"""The parts that taggers are put together from: what weights each has and how they begin. Back ends know how to compute
them.

The initialisation is Keras's, since the papers used it: Glorot uniform kernels, orthogonal recurrent kernels, a forget
bias of 1. The gates of an LSTM stand in the order input, forget, cell, output, as in Keras.
"""

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

DIRECTIONS = ("forward", "backward")
CHARACTERS = "characters"
"""The input that has the characters of a token's word, as whole numbers; 0 is none."""


class Layer(Protocol):
    """Sizes of a part, as fields; equal parts compare equal. title: what people call it. part: of a tagger that it
    usually is, where such parts are shared or kept; empty without weights."""

    title: ClassVar[str]
    part: ClassVar[str]

    @property
    def inputs(self) -> int:
        """Values that it takes a token; characters do not count."""
        ...

    @property
    def outputs(self) -> int:
        """Values that it gives a token."""
        ...

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Name and shape of each weight, in the order in which they stand in the flat vector."""
        ...

    def initialise(self, views: dict[str, np.ndarray], random: np.random.Generator) -> None:
        """Write the first values into the weights (by name, zero before)."""
        ...


@dataclass(frozen=True)
class BidirectionalLSTM:
    """[.., inputs] → [.., 2·size]: one LSTM from left to right, one from right to left, side by side."""

    inputs: int
    size: int
    title: ClassVar[str] = "LSTM"
    part: ClassVar[str] = "lstm"

    @property
    def outputs(self) -> int:
        """Both directions' units."""
        return 2 * self.size

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Per direction a kernel [inputs, 4·size], a recurrent kernel [size, 4·size] and a bias [4·size]."""
        gates = 4 * self.size
        parts = {"kernel": (self.inputs, gates), "recurrent": (self.size, gates), "bias": (gates,)}
        return {f"{direction}/{part}": shape for direction in DIRECTIONS for part, shape in parts.items()}

    def initialise(self, views: dict[str, np.ndarray], random: np.random.Generator) -> None:
        """Glorot uniform, orthogonal, and 1 for the forget gate's bias."""
        for direction in DIRECTIONS:
            _glorot(views[f"{direction}/kernel"], random)
            recurrent = views[f"{direction}/recurrent"]
            # QR of a Gaussian matrix, signs fixed by the diagonal of R, is uniform over orthogonal matrices.
            q, r = np.linalg.qr(random.standard_normal(recurrent.shape[::-1]))
            recurrent[:] = (q * np.sign(np.diag(r))).T
            views[f"{direction}/bias"][self.size : 2 * self.size] = 1.0


@dataclass(frozen=True)
class Dense:
    """[.., inputs] → [.., outputs], the same affine map at each token. zero: where nothing lies below or above it, it
    begins at zero, since no symmetry is to be broken."""

    inputs: int
    outputs: int
    zero: bool = False
    title: ClassVar[str] = "linear"
    part: ClassVar[str] = "hidden"

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """A kernel [inputs, outputs] and a bias [outputs]."""
        return {"kernel": (self.inputs, self.outputs), "bias": (self.outputs,)}

    def initialise(self, views: dict[str, np.ndarray], random: np.random.Generator) -> None:
        """Glorot uniform, or zero; the bias stays 0."""
        if not self.zero:
            _glorot(views["kernel"], random)


@dataclass(frozen=True)
class Window:
    """[.., inputs] → [.., inputs + 2·reach·copied]: beside each token the first ``copied`` values of its neighbours,
    the nearest first, the left one before the right one; zero beyond the sentence. It has no weights."""

    inputs: int
    copied: int
    reach: int
    title: ClassVar[str] = "Window"
    part: ClassVar[str] = ""

    @property
    def outputs(self) -> int:
        """Values a token has afterwards."""
        return self.inputs + 2 * self.reach * self.copied

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """None."""
        return {}

    def initialise(self, views: dict[str, np.ndarray], random: np.random.Generator) -> None:
        """Nothing to write."""


@dataclass(frozen=True)
class _EachValue:
    """A layer without weights that gives each value by itself."""

    size: int
    part: ClassVar[str] = ""

    @property
    def inputs(self) -> int:
        """Values a token."""
        return self.size

    @property
    def outputs(self) -> int:
        """As many."""
        return self.size

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """None."""
        return {}

    def initialise(self, views: dict[str, np.ndarray], random: np.random.Generator) -> None:
        """Nothing to write."""


@dataclass(frozen=True)
class Tanh(_EachValue):
    """The hyperbolic tangent of each value."""

    title: ClassVar[str] = "Tanh"


@dataclass(frozen=True)
class Dropout(_EachValue):
    """Each value is left out with chance ``rate`` in training, and the others grow so that the mean stays (Srivastava
    et al. 2014); in prediction all pass."""

    rate: float
    title: ClassVar[str] = "dropout"


@dataclass(frozen=True)
class CharacterPool:
    """The characters of each word → [.., outputs]: an embedding of ``size`` for each of so many ``characters`` (0 is
    none), a convolution over ``reach`` neighbours on either side, tanh, and the largest value over the word (Ma and
    Hovy 2016, section 2.1)."""

    characters: int
    size: int
    outputs: int
    reach: int = 1
    title: ClassVar[str] = "characters"
    part: ClassVar[str] = "characters"

    @property
    def inputs(self) -> int:
        """No values beside the characters."""
        return 0

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """An embedding [characters, size], a kernel [(2·reach + 1)·size, outputs] and a bias [outputs]."""
        width = (2 * self.reach + 1) * self.size
        return {
            "embedding": (self.characters, self.size),
            "kernel": (width, self.outputs),
            "bias": (self.outputs,),
        }

    def initialise(self, views: dict[str, np.ndarray], random: np.random.Generator) -> None:
        """Glorot uniform kernel; embeddings uniform between ±√(3 ÷ size), as in that paper; the bias stays 0."""
        limit = np.sqrt(3.0 / self.size)
        views["embedding"][:] = random.uniform(-limit, limit, views["embedding"].shape)
        _glorot(views["kernel"], random)


@dataclass(frozen=True)
class Softmax:
    """A head that judges each token by itself; it has no weights."""

    tags: int
    title: ClassVar[str] = "softmax"

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """None."""
        return {}

    def initialise(self, views: dict[str, np.ndarray], random: np.random.Generator) -> None:
        """Nothing to write."""


@dataclass(frozen=True)
class CRF:
    """A head that scores whole tag sequences: a linear chain (Lample et al. 2016, section 2.2)."""

    tags: int
    title: ClassVar[str] = "CRF"

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """transitions [tags, tags]: the score of going from a tag (row) to the next (column)."""
        return {"transitions": (self.tags, self.tags)}

    def initialise(self, views: dict[str, np.ndarray], random: np.random.Generator) -> None:
        """The transitions stay 0: at first no pair of tags is preferred."""


def _glorot(view: np.ndarray, random: np.random.Generator) -> None:
    limit = np.sqrt(6.0 / sum(view.shape))
    view[:] = random.uniform(-limit, limit, view.shape)

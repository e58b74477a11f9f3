"""Layers of taggers: their weights and initialisation. Back ends implement the computation.

The initialisation is Keras's, since the papers used it: Glorot uniform kernels, orthogonal recurrent kernels, a forget
bias of 1. The gates of an LSTM have Keras's order: input, forget, cell, output.
"""

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

DIRECTIONS = ("forward", "backward")
CHARACTERS = "characters"
"""The input with the character ids of a token's word; 0 is padding."""


class Layer(Protocol):
    """Sizes of a layer, as fields; equal layers compare equal.

    Attributes:
        title: Name on pages.
        part: Part of a tagger that it usually belongs to, for sharing in a federation; empty without weights.
    """

    title: ClassVar[str]
    part: ClassVar[str]

    @property
    def inputs(self) -> int:
        """Number of input values of a token, without characters."""
        ...

    @property
    def outputs(self) -> int:
        """Number of output values of a token."""
        ...

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Name and shape of each weight, in the order of the flat vector."""
        ...

    def initialise(self, views: dict[str, np.ndarray], random: np.random.Generator) -> None:
        """Write the initial values into the weights, by name; they are zero before."""
        ...


@dataclass(frozen=True)
class BidirectionalLSTM:
    """Bidirectional LSTM: [.., inputs] → [.., 2·size], both directions concatenated."""

    inputs: int
    size: int
    title: ClassVar[str] = "LSTM"
    part: ClassVar[str] = "lstm"

    @property
    def outputs(self) -> int:
        """Units of both directions."""
        return 2 * self.size

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """For each direction a kernel [inputs, 4·size], a recurrent kernel [size, 4·size] and a bias [4·size]."""
        gates = 4 * self.size
        parts = {"kernel": (self.inputs, gates), "recurrent": (self.size, gates), "bias": (gates,)}
        return {f"{direction}/{part}": shape for direction in DIRECTIONS for part, shape in parts.items()}

    def initialise(self, views: dict[str, np.ndarray], random: np.random.Generator) -> None:
        """Write Glorot uniform and orthogonal kernels, and 1 for the forget gate's bias."""
        for direction in DIRECTIONS:
            _glorot(views[f"{direction}/kernel"], random)
            recurrent = views[f"{direction}/recurrent"]
            # QR of a Gaussian matrix, signs fixed by the diagonal of R, is uniform over orthogonal matrices.
            q, r = np.linalg.qr(random.standard_normal(recurrent.shape[::-1]))
            recurrent[:] = (q * np.sign(np.diag(r))).T
            views[f"{direction}/bias"][self.size : 2 * self.size] = 1.0


@dataclass(frozen=True)
class Dense:
    """Dense layer: [.., inputs] → [.., outputs], the same affine map at each token.

    Attributes:
        inputs: Number of input values.
        outputs: Number of output values.
        zero: Whether it starts at zero, for a single layer without a symmetry to break.
    """

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
        """Write a Glorot uniform kernel, or zero; the bias stays 0."""
        if not self.zero:
            _glorot(views["kernel"], random)


@dataclass(frozen=True)
class Window:
    """Context window: [.., inputs] → [.., inputs + 2·reach·copied].

    It appends to each token the first ``copied`` values of its neighbours, nearest first, left before right. Values
    beyond the sentence are zero. It has no weights.
    """

    inputs: int
    copied: int
    reach: int
    title: ClassVar[str] = "Window"
    part: ClassVar[str] = ""

    @property
    def outputs(self) -> int:
        """Values of a token with its neighbours'."""
        return self.inputs + 2 * self.reach * self.copied

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """No weights."""
        return {}

    def initialise(self, views: dict[str, np.ndarray], random: np.random.Generator) -> None:
        """Do nothing: there are no weights."""


@dataclass(frozen=True)
class _Elementwise:
    """An elementwise layer without weights."""

    size: int
    part: ClassVar[str] = ""

    @property
    def inputs(self) -> int:
        """Values of a token."""
        return self.size

    @property
    def outputs(self) -> int:
        """The same number."""
        return self.size

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """No weights."""
        return {}

    def initialise(self, views: dict[str, np.ndarray], random: np.random.Generator) -> None:
        """Do nothing: there are no weights."""


@dataclass(frozen=True)
class Tanh(_Elementwise):
    """The hyperbolic tangent of each value."""

    title: ClassVar[str] = "Tanh"


@dataclass(frozen=True)
class Dropout(_Elementwise):
    """Dropout (Srivastava et al. 2014) with probability ``rate`` in training, none in prediction.

    The remaining values are scaled up so that the mean is preserved.
    """

    rate: float
    title: ClassVar[str] = "dropout"


@dataclass(frozen=True)
class CharacterPool:
    """Character features of each word: → [.., outputs] (Ma and Hovy 2016, section 2.1).

    An embedding of ``size`` for each of ``characters`` ids (0 is padding), a convolution over ``reach`` neighbours on
    each side, tanh, and the maximum over the word.
    """

    characters: int
    size: int
    outputs: int
    reach: int = 1
    title: ClassVar[str] = "characters"
    part: ClassVar[str] = "characters"

    @property
    def inputs(self) -> int:
        """No values besides the characters."""
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
        """Write a Glorot uniform kernel, and embeddings uniform between ±√(3 ÷ size) as in that paper.

        The bias stays 0.
        """
        limit = np.sqrt(3.0 / self.size)
        views["embedding"][:] = random.uniform(-limit, limit, views["embedding"].shape)
        _glorot(views["kernel"], random)


@dataclass(frozen=True)
class Softmax:
    """Head that classifies each token independently; it has no weights."""

    tags: int
    title: ClassVar[str] = "softmax"

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """No weights."""
        return {}

    def initialise(self, views: dict[str, np.ndarray], random: np.random.Generator) -> None:
        """Do nothing: there are no weights."""


@dataclass(frozen=True)
class CRF:
    """Head that scores whole tag sequences: a linear-chain CRF (Lample et al. 2016, section 2.2)."""

    tags: int
    title: ClassVar[str] = "CRF"

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """transitions [tags, tags]: the score of a tag (row) followed by another (column)."""
        return {"transitions": (self.tags, self.tags)}

    def initialise(self, views: dict[str, np.ndarray], random: np.random.Generator) -> None:
        """Do nothing: the transitions stay 0, so that at first no pair of tags is preferred."""


def _glorot(view: np.ndarray, random: np.random.Generator) -> None:
    limit = np.sqrt(6.0 / sum(view.shape))
    view[:] = random.uniform(-limit, limit, view.shape)

"""A tagger: layers one upon another, a head on top, all weights in one flat vector.

Clipping, noise and optimiser see one vector; only the forward pass sees matrices.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from engine.taggers.layers import CRF, Layer, Softmax


@dataclass(frozen=True)
class Tagger:
    """layers: from the word vectors up, each taking what the one below gives. head: turns scores into a loss.

    dimensions: of a word vector.
    """

    dimensions: int
    layers: tuple[Layer, ...]
    head: Softmax | CRF

    @property
    def parts(self) -> tuple[Layer, ...]:
        """The layers and the head, in the order of their weights."""
        return (*self.layers, self.head)

    @cached_property
    def slices(self) -> tuple[slice, ...]:
        """Where the weights of each of ``parts`` stand in the flat vector."""
        slices, start = [], 0
        for part in self.parts:
            end = start + sum(map(math.prod, part.shapes.values()))
            slices.append(slice(start, end))
            start = end
        return tuple(slices)

    @property
    def size(self) -> int:
        """Number of weights in all."""
        return int(self.slices[-1].stop)

    @property
    def weighty(self) -> int:
        """How many of ``parts`` have weights."""
        return sum(bool(part.shapes) for part in self.parts)

    @cached_property
    def titles(self) -> tuple[str, ...]:
        """What each of ``parts`` is called, numbered where there are several of a kind."""
        kinds = [type(part).__name__ for part in self.parts]
        names = [{"BidirectionalLSTM": "LSTM", "Dense": "linear", "Softmax": "softmax"}.get(k, k) for k in kinds]
        return tuple(
            f"{name} {names[: place + 1].count(name)}" if names.count(name) > 1 else name
            for place, name in enumerate(names)
        )

    def views(self, flat: np.ndarray) -> tuple[dict[str, np.ndarray], ...]:
        """The weights of each of ``parts`` by name and in their shapes, sharing memory with ``flat`` ([size])."""
        found = []
        for part, stretch in zip(self.parts, self.slices, strict=True):
            views, start = {}, stretch.start
            for name, shape in part.shapes.items():
                end = start + math.prod(shape)
                views[name] = flat[start:end].reshape(shape)
                start = end
            found.append(views)
        return tuple(found)

    def initial_weights(self, random: np.random.Generator) -> np.ndarray:
        """Fresh weights, float32 [size]."""
        flat = np.zeros(self.size, dtype=np.float32)
        for part, views in zip(self.parts, self.views(flat), strict=True):
            part.initialise(views, random)
        return flat

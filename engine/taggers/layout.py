"""All weights of a tagger as one flat vector with named views.

Clipping, noise and optimiser see one vector; only the forward pass sees matrices.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np


@dataclass(frozen=True)
class Layout:
    """Names and shapes of the weights, in the order in which they stand in the flat vector."""

    shapes: Mapping[str, tuple[int, ...]]

    @cached_property
    def slices(self) -> dict[str, slice]:
        """Where each weight stands in the flat vector."""
        slices, start = {}, 0
        for name, shape in self.shapes.items():
            end = start + math.prod(shape)
            slices[name] = slice(start, end)
            start = end
        return slices

    @property
    def size(self) -> int:
        """Number of weights in all."""
        return sum(math.prod(shape) for shape in self.shapes.values())

    def views(self, flat: np.ndarray) -> dict[str, np.ndarray]:
        """Each weight in its shape, sharing memory with ``flat`` ([size])."""
        return {name: flat[part].reshape(self.shapes[name]) for name, part in self.slices.items()}

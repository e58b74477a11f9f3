"""Layers without weights: nothing to clip, and too little work to compile."""

from typing import Any

import numpy as np

from engine.taggers.layers import Tanh, Window
from engine.training.batches import Batch


class _Weightless:
    def add_squared_norms(self, tape: Any, batch: Batch, squares: np.ndarray) -> None:
        """Nothing to add."""

    def weighted_gradient(self, tape: Any, factors: np.ndarray, batch: Batch, total: np.ndarray) -> None:
        """Nothing to write."""


class WindowLayer(_Weightless):
    """See :class:`engine.training.compiled.backend.Layer`."""

    def __init__(self, shape: Window) -> None:
        self.shape = shape

    def forward(
        self, weights: np.ndarray, inputs: np.ndarray, places: np.ndarray, batch: Batch
    ) -> tuple[np.ndarray, None]:
        """Inputs [U, I] at places [N] → [N, I + 2·reach·copied]."""
        own, copied = self.shape.inputs, self.shape.copied
        outputs = np.zeros((len(places), self.shape.outputs), inputs.dtype)
        outputs[:, :own] = inputs[places]
        for start, end, (to, source) in self._shifts(batch):
            outputs[to, start:end] = outputs[source, :copied]
        return outputs, None

    def backward(self, weights: np.ndarray, tape: None, slope: np.ndarray, batch: Batch, lowest: bool) -> Any:
        """dL/doutputs → dL/dinputs [N, I], or None in the lowest layer."""
        if lowest:
            return None
        found = slope[:, : self.shape.inputs].copy()
        for start, end, (to, source) in self._shifts(batch):
            found[source, : self.shape.copied] += slope[to, start:end]
        return found

    def _shifts(self, batch: Batch) -> Any:
        """For each neighbour its columns, and which tokens get it and from where."""
        start = self.shape.inputs
        for distance in range(1, self.shape.reach + 1):
            for step in (-distance, distance):
                to, source = _neighbours(batch.lengths, step)
                yield start, start + self.shape.copied, (to, source)
                start += self.shape.copied


def _neighbours(lengths: np.ndarray, step: int) -> tuple[np.ndarray, np.ndarray]:
    """Tokens that have a token ``step`` places further in their sentence, and which that is."""
    place = np.arange(int(lengths.sum())) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    there = (place + step >= 0) & (place + step < np.repeat(lengths, lengths))
    tokens = np.flatnonzero(there)
    return tokens, tokens + step


class TanhLayer(_Weightless):
    """See :class:`engine.training.compiled.backend.Layer`."""

    def __init__(self, shape: Tanh) -> None:
        self.shape = shape

    def forward(
        self, weights: np.ndarray, inputs: np.ndarray, places: np.ndarray, batch: Batch
    ) -> tuple[np.ndarray, np.ndarray]:
        """Inputs [U, I] at places [N] → [N, I]; the tape is the outputs."""
        outputs = np.tanh(inputs if places is batch.each else inputs[places])
        return outputs, outputs

    def backward(self, weights: np.ndarray, tape: np.ndarray, slope: np.ndarray, batch: Batch, lowest: bool) -> Any:
        """dL/doutputs [N, I] → dL/dinputs [N, I]."""
        return slope * (1 - tape * tape)

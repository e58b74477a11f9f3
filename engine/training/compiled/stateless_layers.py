"""Layers without weights, which have no gradient to clip."""

from typing import Any

import numpy as np
from numba import njit, prange

from engine.taggers.layers import Dropout, Tanh, Window
from engine.training.batches import Batch
from engine.training.compiled.arithmetic import PARTS


class _Weightless:
    def add_squared_norms(self, tape: Any, batch: Batch, squares: np.ndarray) -> None:
        """Do nothing: there are no weights."""

    def weighted_gradient(self, tape: Any, factors: np.ndarray, batch: Batch, total: np.ndarray) -> None:
        """Do nothing: there are no weights."""


class WindowLayer(_Weightless):
    """Context window, see :class:`engine.training.compiled.backend.Layer`."""

    def __init__(self, shape: Window) -> None:
        self.shape = shape

    def forward(
        self, weights: np.ndarray, inputs: np.ndarray, places: np.ndarray, batch: Batch
    ) -> tuple[np.ndarray, np.ndarray, None]:
        """Return the outputs [N, I + 2·reach·copied] of inputs [U, I] at places [N]."""
        outputs = np.empty((len(places), self.shape.outputs), inputs.dtype)
        _show(inputs, places, batch.offsets, batch.lengths, self.shape.copied, self.shape.reach, outputs)
        return outputs, batch.each, None

    def learning(self, inputs: np.ndarray) -> np.ndarray:
        """Return whether each output copies an input that depends on weights."""
        return np.concatenate([inputs, *[inputs[: self.shape.copied]] * (2 * self.shape.reach)])

    def backward(
        self, weights: np.ndarray, tape: None, slope: np.ndarray, batch: Batch, wanted: np.ndarray
    ) -> np.ndarray:
        """Return dL/d(wanted inputs), [N, m], from the derivatives of their copies."""
        copied = int(np.searchsorted(wanted, self.shape.copied))
        found = slope[:, : len(wanted)].copy()
        _show_back(slope, batch.offsets, batch.lengths, copied, self.shape.reach, found)
        return found


@njit(cache=True, nogil=True, parallel=True)
def _show(inputs, places, offsets, lengths, copied, reach, outputs):  # type: ignore[no-untyped-def]
    own = inputs.shape[1]
    for part in prange(PARTS):  # each with long sentences and short ones
        for k in range(part, lengths.size, PARTS):
            first, end = offsets[k], offsets[k] + lengths[k]
            for row in range(first, end):
                outputs[row, :own] = inputs[places[row]]
                start = own
                for distance in range(1, reach + 1):
                    for neighbour in (row - distance, row + distance):
                        if first <= neighbour < end:
                            outputs[row, start : start + copied] = inputs[places[neighbour], :copied]
                        else:
                            outputs[row, start : start + copied] = 0
                        start += copied


@njit(cache=True, nogil=True, parallel=True)
def _show_back(slope, offsets, lengths, copied, reach, found):  # type: ignore[no-untyped-def]
    own = found.shape[1]
    for k in prange(lengths.size):
        first, end = offsets[k], offsets[k] + lengths[k]
        for row in range(first, end):
            start = own
            for distance in range(1, reach + 1):
                for neighbour in (row - distance, row + distance):
                    if first <= neighbour < end:
                        for j in range(copied):
                            found[neighbour, j] += slope[row, start + j]
                    start += copied


class TanhLayer(_Weightless):
    """Tanh activation, see :class:`engine.training.compiled.backend.Layer`."""

    def __init__(self, shape: Tanh) -> None:
        self.shape = shape

    def forward(
        self, weights: np.ndarray, inputs: np.ndarray, places: np.ndarray, batch: Batch
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the outputs [N, I] of inputs [U, I] at places [N]; the tape is the outputs."""
        outputs = np.tanh(inputs if places is batch.each else inputs[places])
        return outputs, batch.each, outputs

    def learning(self, inputs: np.ndarray) -> np.ndarray:
        """Return whether each output depends on weights, as its input does."""
        return inputs

    def backward(
        self, weights: np.ndarray, tape: np.ndarray, slope: np.ndarray, batch: Batch, wanted: np.ndarray
    ) -> np.ndarray:
        """Return dL/d(wanted inputs), [N, m], from dL/d(their outputs), [N, m]."""
        tape = only(tape, wanted)
        found: np.ndarray = slope * (1 - tape * tape)
        return found


class DropoutLayer(_Weightless):
    """Dropout, see :class:`engine.training.compiled.backend.Layer`. ``number``: index of the part in its tagger."""

    def __init__(self, shape: Dropout, number: int) -> None:
        self.shape, self.number = shape, number

    def forward(
        self, weights: np.ndarray, inputs: np.ndarray, places: np.ndarray, batch: Batch
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """Return the outputs [N, I] of inputs [U, I] at places [N]; the tape is the dropout factors.

        Without dropout, it returns the inputs and None.
        """
        if not batch.drops:
            return inputs, places, None
        inputs = inputs if places is batch.each else inputs[places]
        kept = batch.kept(self.number, self.shape.size, self.shape.rate, inputs.dtype)
        return inputs * kept, batch.each, kept

    def learning(self, inputs: np.ndarray) -> np.ndarray:
        """Return whether each output depends on weights, as its input does."""
        return inputs

    def backward(
        self, weights: np.ndarray, tape: np.ndarray | None, slope: np.ndarray, batch: Batch, wanted: np.ndarray
    ) -> np.ndarray:
        """Return dL/d(wanted inputs), [N, m], from dL/d(their outputs), [N, m]."""
        return slope if tape is None else slope * only(tape, wanted)


def only(values: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Return the ``wanted`` columns (int [m], ascending) of values [N, I]."""
    if not len(wanted) or wanted[-1] - wanted[0] >= len(wanted):
        return values[:, wanted]
    return values[:, wanted[0] : wanted[-1] + 1]

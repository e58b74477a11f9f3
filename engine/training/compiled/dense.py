"""A dense layer, the same affine map at each token."""

from dataclasses import dataclass

import numpy as np
from numba import njit, prange

from engine.gemm import add_product_of_columns, packed
from engine.taggers.layers import Dense
from engine.training.batches import Batch
from engine.training.compiled.arithmetic import (
    ARITHMETIC,
    PARTS,
    add_shared,
    affine_shared,
    columns_of_product,
    product,
    square_by_tokens,
    square_by_weights,
    square_of_bias,
)
from engine.training.compiled.wide_dense import (
    LEAST_INPUTS,
    MOST_OUTPUTS,
    affine_wide,
    squared_norms_wide,
    weighted_gradient_wide,
)


@dataclass
class DenseTape:
    """Values of a forward pass: inputs [N, I], and slopes dL/doutputs [N, O], empty before the backward pass."""

    inputs: np.ndarray
    slopes: np.ndarray


class DenseLayer:
    """Dense layer, see :class:`engine.training.compiled.backend.Layer`."""

    def __init__(self, shape: Dense) -> None:
        self.inputs, self.outputs = shape.inputs, shape.outputs
        wide = shape.inputs >= LEAST_INPUTS and shape.outputs <= MOST_OUTPUTS
        self._affine = affine_wide if wide else affine_shared
        self._squared_norms = squared_norms_wide if wide else _squared_norms
        self._weighted_gradient = weighted_gradient_wide if wide else _weighted_gradient

    def forward(
        self, weights: np.ndarray, inputs: np.ndarray, places: np.ndarray, batch: Batch
    ) -> tuple[np.ndarray, np.ndarray, DenseTape]:
        """Return the outputs [N, O] of inputs [U, I] at places [N]."""
        inputs = inputs if places is batch.each else inputs[places]
        kernel, bias = self._parts(weights)
        outputs = np.empty((len(inputs), self.outputs), inputs.dtype)
        self._affine(inputs, kernel, bias, outputs)
        return outputs, batch.each, DenseTape(inputs, outputs[:0])

    def learning(self, inputs: np.ndarray) -> np.ndarray:
        """Return True for each output: all depend on weights."""
        return np.ones(self.outputs, bool)

    def backward(
        self, weights: np.ndarray, tape: DenseTape, slope: np.ndarray, batch: Batch, wanted: np.ndarray
    ) -> np.ndarray | None:
        """Return dL/d(wanted inputs), [N, m], from dL/doutputs [N, O]; None if no input is wanted."""
        tape.slopes = slope
        kernel, _ = self._parts(weights)
        return columns_of_product(_input_slope, [kernel], slope, wanted) if len(wanted) else None

    def add_squared_norms(self, tape: DenseTape, batch: Batch, squares: np.ndarray) -> None:
        """Add each sentence's squared gradient norm to ``squares`` [B]."""
        self._squared_norms(tape.inputs, tape.slopes, batch.offsets, batch.lengths, squares)

    def weighted_gradient(self, tape: DenseTape, factors: np.ndarray, batch: Batch, total: np.ndarray) -> None:
        """Write Σ_i factor_i · G_i to ``total``, flat like the weights; overwrites the tape."""
        kernel, bias = self._parts(total)
        self._weighted_gradient(tape.inputs, tape.slopes, factors, batch.offsets, batch.lengths, kernel, bias)

    def _parts(self, flat: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        border = self.inputs * self.outputs
        return flat[:border].reshape(self.inputs, self.outputs), flat[border:]


@njit(cache=True, fastmath=ARITHMETIC)
def _input_slope(kernel, slope):  # type: ignore[no-untyped-def]
    """Return slope · kernelᵀ, [N, O] · [O, I]."""
    found = np.zeros((slope.shape[0], kernel.shape[0]), slope.dtype)
    add_shared(slope, packed(kernel.T), found)
    return found


@njit(cache=True, parallel=True, fastmath=ARITHMETIC)
def _squared_norms(inputs, slopes, offsets, lengths, squares):  # type: ignore[no-untyped-def]
    read, written = inputs.shape[1], slopes.shape[1]
    for part in prange(PARTS):
        for k in range(part, lengths.size, PARTS):
            own, slope = inputs[offsets[k] : offsets[k] + lengths[k]], slopes[offsets[k] : offsets[k] + lengths[k]]
            if lengths[k] * (read + written) < read * written:
                squares[k] += square_by_tokens(product(own, own.T), slope)
            else:
                squares[k] += square_by_weights(own, slope) + square_of_bias(slope)


@njit(cache=True, parallel=True, fastmath=ARITHMETIC)
def _weighted_gradient(inputs, slopes, factors, offsets, lengths, kernel, bias):  # type: ignore[no-untyped-def]
    bias[:] = 0
    for k in range(lengths.size):
        for row in range(offsets[k], offsets[k] + lengths[k]):
            for j in range(bias.size):
                slopes[row, j] *= factors[k]
                bias[j] += slopes[row, j]
    panels, each = packed(slopes), (inputs.shape[1] + PARTS - 1) // PARTS
    for part in prange(PARTS):
        first, stop = part * each, min(inputs.shape[1], (part + 1) * each)
        if first < stop:
            kernel[first:stop] = 0
            add_product_of_columns(inputs, first, stop, panels, kernel)

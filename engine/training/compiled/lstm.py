"""The bidirectional LSTM, without padding and with both directions in parallel.

Sentences are concatenated ([N, …], N tokens in total). The recurrence runs over time steps with the sentences sorted by
length, the longest first, so that the unfinished ones are always the first rows. The input projection and the weight
gradients do not depend on the recurrence; each is one matrix product over all tokens.
"""

from dataclasses import dataclass

import numpy as np
from numba import njit, prange

from engine.gemm import add_product, packed
from engine.taggers.layers import BidirectionalLSTM
from engine.training.batches import Batch
from engine.training.compiled.arithmetic import (
    ARITHMETIC,
    PARTS,
    add_shared,
    affine,
    columns_of_product,
    product,
    square_by_tokens,
    square_by_weights,
    square_of_bias,
    squash,
    tanh,
)

FORWARD = 0


@dataclass(frozen=True)
class LSTMTape:
    """Values of a forward pass that the backward pass needs.

    Attributes:
        inputs: Inputs, [U, D].
        places: Row of ``inputs`` of each token, [N].
        gates: Activated gates, [2, N, 4H]; dL/dz after :meth:`LSTMLayer.backward`.
        cell: Cell state c at each token, [2, N, H].
        previous: Hidden state h before each token, [2, N, H].
    """

    inputs: np.ndarray
    places: np.ndarray
    gates: np.ndarray
    cell: np.ndarray
    previous: np.ndarray


class LSTMLayer:
    """Bidirectional LSTM, see :class:`engine.training.compiled.backend.Layer`.

    The flat weights hold one direction after the other.
    """

    def __init__(self, shape: BidirectionalLSTM) -> None:
        self.size = shape.size

    def forward(
        self, weights: np.ndarray, inputs: np.ndarray, places: np.ndarray, batch: Batch
    ) -> tuple[np.ndarray, np.ndarray, LSTMTape]:
        """Return the outputs [N, 2H] of inputs [U, D] at places [N], the forward direction's H first."""
        gates, cell, previous, outputs = _run(
            weights, self.size, inputs, places, places is batch.each, batch.offsets, batch.lengths, batch.live
        )
        return outputs, batch.each, LSTMTape(inputs, places, gates, cell, previous)

    def learning(self, inputs: np.ndarray) -> np.ndarray:
        """Return True for each output: all depend on weights."""
        return np.ones(2 * self.size, bool)

    def backward(
        self, weights: np.ndarray, tape: LSTMTape, slope: np.ndarray, batch: Batch, wanted: np.ndarray
    ) -> np.ndarray | None:
        """Return dL/d(wanted inputs), [N, m], from dL/dh [N, 2H]; None if no input is wanted."""
        dimensions = tape.inputs.shape[1]
        _run_back(
            weights, dimensions, tape.gates, tape.cell, slope, self.size, batch.offsets, batch.lengths, batch.live
        )
        if not len(wanted):
            return None
        kernels = [part[0] for part in (_parts(weights, d, dimensions, self.size) for d in range(2))]
        return columns_of_product(_input_slope, kernels, tape.gates, wanted)

    def add_squared_norms(self, tape: LSTMTape, batch: Batch, squares: np.ndarray) -> None:
        """Add each sentence's squared gradient norm to ``squares`` [B]."""
        _squared_norms(tape.inputs, tape.places, tape.gates, tape.previous, batch.offsets, batch.lengths, squares)

    def weighted_gradient(self, tape: LSTMTape, factors: np.ndarray, batch: Batch, total: np.ndarray) -> None:
        """Write Σ_i factor_i · G_i to ``total``, flat like the weights; overwrites the tape."""
        places = tape.places[:0] if tape.places is batch.each else tape.places
        _weighted_gradient(tape.inputs, places, tape.gates, tape.previous, factors, batch.offsets, batch.lengths, total)


@njit(cache=True, nogil=True)
def _parts(flat, direction, dimensions, size):  # type: ignore[no-untyped-def]
    """Return views of one direction's kernel [D, 4H], recurrent kernel [H, 4H] and bias [4H] in the flat vector."""
    gates = 4 * size
    start = direction * (dimensions + size + 1) * gates
    between, end = start + dimensions * gates, start + (dimensions + size) * gates
    kernel = flat[start:between].reshape(dimensions, gates)
    recurrent = flat[between:end].reshape(size, gates)
    return kernel, recurrent, flat[end : end + gates]


@njit(cache=True, fastmath=ARITHMETIC)
def _row(offset: int, length: int, time: int, direction: int) -> int:
    """Return the row of the token that ``direction`` reads at step ``time``."""
    return offset + time if direction == FORWARD else offset + length - 1 - time


@njit(cache=True, nogil=True, fastmath=ARITHMETIC)
def _advance(sums, gates, memory, state):  # type: ignore[no-untyped-def]
    """Compute one step of a sentence: gates [4H], memory [H] and state [H] from the sums [4H].

    Each loop counts from 0 over slices. If the compiler cannot exclude negative indices, it does not vectorise a loop,
    which then takes five times as long.
    """
    size = state.size
    half = sums.dtype.type(0.5)
    into, keep = gates[:size], gates[size : 2 * size]
    new, out = gates[2 * size : 3 * size], gates[3 * size :]
    for gate, given in ((into, sums[:size]), (keep, sums[size : 2 * size]), (out, sums[3 * size :])):
        for j in range(size):
            gate[j] = squash(given[j], half)
    given = sums[2 * size : 3 * size]
    for j in range(size):
        new[j] = tanh(given[j])
    for j in range(size):
        memory[j] = keep[j] * memory[j] + into[j] * new[j]
    for j in range(size):
        state[j] = out[j] * tanh(memory[j])


@njit(cache=True, nogil=True, fastmath=ARITHMETIC)
def _recur(projected, places, z, recurrent, offsets, lengths, live, direction, outputs, cell, previous):  # type: ignore[no-untyped-def]
    """Run one direction.

    Its input is ``projected`` [U, 4H] at ``places`` [N], the projected inputs, which may be z itself. It fills z [N,
    4H] with the activated gates, this direction's half of outputs [N, 2H], cell [N, H] and previous [N, H] (the hidden
    state before each token).
    """
    size = recurrent.shape[0]
    column = direction * size
    state = np.zeros((lengths.size, size), z.dtype)
    memory = np.zeros((lengths.size, size), z.dtype)
    added = np.empty((lengths.size, 4 * size), z.dtype)
    panels = packed(recurrent)
    for time in range(live.size):
        count = live[time]
        for k in range(count):
            given = projected[places[_row(offsets[k], lengths[k], time, direction)]]
            for j in range(4 * size):
                added[k, j] = given[j]
        if time > 0:
            add_product(state[:count], panels, added[:count])
        for k in range(count):
            row = _row(offsets[k], lengths[k], time, direction)
            previous[row] = state[k]
            _advance(added[k], z[row], memory[k], state[k])
            cell[row] = memory[k]
            outputs[row, column : column + size] = state[k]


@njit(cache=True, nogil=True, fastmath=ARITHMETIC)
def _retreat(gates, cell, before, above, later, carried, slopes):  # type: ignore[no-untyped-def]
    """Compute one backward step of a sentence: slopes [4H], the derivatives with respect to the sums.

    Inputs are dL/dh from above [H] and from the later step [H], which is overwritten. ``carried`` [H] is dL/dc;
    ``before`` [H] is c one step earlier. Loops are short so that they vectorise, as in :func:`_advance`: the compiler
    checks that rows do not overlap, but not for many rows in one loop.
    """
    size = cell.size
    one = cell.dtype.type(1)
    into, keep = gates[:size], gates[size : 2 * size]
    new, out = gates[2 * size : 3 * size], gates[3 * size :]
    by_into, by_keep = slopes[:size], slopes[size : 2 * size]
    by_new, by_out = slopes[2 * size : 3 * size], slopes[3 * size :]
    for j in range(size):
        later[j] += above[j]
    for j in range(size):
        by_out[j] = tanh(cell[j])
    for j in range(size):
        carried[j] += later[j] * out[j] * (one - by_out[j] * by_out[j])
    for j in range(size):
        by_out[j] = later[j] * by_out[j] * out[j] * (one - out[j])
    for j in range(size):
        by_into[j] = carried[j] * new[j] * into[j] * (one - into[j])
    for j in range(size):
        by_keep[j] = carried[j] * before[j] * keep[j] * (one - keep[j])
    for j in range(size):
        by_new[j] = carried[j] * into[j] * (one - new[j] * new[j])
    for j in range(size):
        carried[j] *= keep[j]


@njit(cache=True, nogil=True, fastmath=ARITHMETIC)
def _recur_back(z, recurrent, offsets, lengths, live, direction, cell, slope):  # type: ignore[no-untyped-def]
    """Run one direction backward. z [N, 4H] holds the gates, and dL/dz afterwards; slope [N, 2H] is dL/dh."""
    size = recurrent.shape[0]
    column = direction * size
    panels = packed(recurrent.T)
    later = np.zeros((lengths.size, size), z.dtype)  # dL/dh from the step after
    carried = np.zeros((lengths.size, size), z.dtype)  # dL/dc from the step after
    local = np.empty((lengths.size, 4 * size), z.dtype)
    nothing = np.zeros(size, z.dtype)
    for time in range(live.size - 1, -1, -1):
        count = live[time]
        for k in range(count):
            row = _row(offsets[k], lengths[k], time, direction)
            before = cell[_row(offsets[k], lengths[k], time - 1, direction)] if time > 0 else nothing
            above = slope[row, column : column + size]
            _retreat(z[row], cell[row], before, above, later[k], carried[k], local[k])
            z[row] = local[k]
        if time > 0:
            later[:count] = 0
            add_product(local[:count], panels, later[:count])


@njit(cache=True, parallel=True, fastmath=ARITHMETIC)
def _run(weights, size, inputs, places, own, offsets, lengths, live):  # type: ignore[no-untyped-def]
    """Run both directions. ``own``: whether each token has its own input, in the order of the tokens."""
    tokens, dimensions = places.size, inputs.shape[1]
    z = np.empty((2, tokens, 4 * size), inputs.dtype)
    projected = z if own else np.empty((2, inputs.shape[0], 4 * size), inputs.dtype)
    cell = np.empty((2, tokens, size), inputs.dtype)
    previous = np.empty((2, tokens, size), inputs.dtype)
    outputs = np.empty((tokens, 2 * size), inputs.dtype)
    for d in prange(2):
        kernel, recurrent, bias = _parts(weights, d, dimensions, size)
        affine(inputs, kernel, bias, projected[d])
        _recur(projected[d], places, z[d], recurrent, offsets, lengths, live, d, outputs, cell[d], previous[d])
    return z, cell, previous, outputs


@njit(cache=True, parallel=True, fastmath=ARITHMETIC)
def _run_back(weights, dimensions, z, cell, slope, size, offsets, lengths, live):  # type: ignore[no-untyped-def]
    for d in prange(2):
        _, recurrent, _ = _parts(weights, d, dimensions, size)
        _recur_back(z[d], recurrent, offsets, lengths, live, d, cell[d], slope)


@njit(cache=True, fastmath=ARITHMETIC)
def _input_slope(forward, backward, slopes):  # type: ignore[no-untyped-def]
    """Return dL/dinputs [N, D] of both directions from slopes [2, N, 4H] and kernels [D, 4H]."""
    total = np.zeros((slopes.shape[1], forward.shape[0]), slopes.dtype)
    add_shared(slopes[0], packed(forward.T), total)
    add_shared(slopes[1], packed(backward.T), total)
    return total


@njit(cache=True, parallel=True, fastmath=ARITHMETIC)
def _squared_norms(inputs, places, slopes, previous, offsets, lengths, squares):  # type: ignore[no-untyped-def]
    gates, read = slopes.shape[2], inputs.shape[1] + previous.shape[2]
    for part in prange(PARTS):
        for k in range(part, lengths.size, PARTS):
            start, end = offsets[k], offsets[k] + lengths[k]
            own_inputs = inputs[places[start:end]]
            # Two Gram matrices cost L²(read + gates), the whole gradient L · read · gates.
            if lengths[k] * (read + gates) < read * gates:
                common = product(own_inputs, own_inputs.T)
                for d in range(2):
                    before = previous[d, start:end]
                    squares[k] += square_by_tokens(common + product(before, before.T), slopes[d, start:end])
            else:
                for d in range(2):
                    own = slopes[d, start:end]
                    squares[k] += square_by_weights(own_inputs, own)
                    squares[k] += square_by_weights(previous[d, start:end], own) + square_of_bias(own)


@njit(cache=True, parallel=True, fastmath=ARITHMETIC)
def _weighted_gradient(inputs, places, slopes, previous, factors, offsets, lengths, total):  # type: ignore[no-untyped-def]
    """Write the weighted gradient of all weights to ``total``.

    dL/dz is summed over the tokens with the same input; then the gradient of each kernel is one product. ``places`` is
    empty if each token has its own input, in the order of the tokens.
    """
    dimensions, size = inputs.shape[1], previous.shape[2]
    for d in prange(2):
        kernel, recurrent, bias = _parts(total, d, dimensions, size)
        kernel[:], recurrent[:], bias[:] = 0, 0, 0
        own = slopes[d]
        for k in range(lengths.size):
            if factors[k] != 1:
                own[offsets[k] : offsets[k] + lengths[k]] *= factors[k]
        panels = packed(own)
        add_product(previous[d].T, panels, recurrent)
        summed = own if places.size == 0 else np.zeros((inputs.shape[0], 4 * size), slopes.dtype)
        for row in range(places.size):
            line, here = own[row], summed[places[row]]
            for j in range(bias.size):
                here[j] += line[j]
        for row in range(inputs.shape[0]):
            line = summed[row]
            for j in range(bias.size):
                bias[j] += line[j]
        add_product(inputs.T, panels if places.size == 0 else packed(summed), kernel)

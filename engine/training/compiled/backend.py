"""The compiled back end: one backward pass through any stack of layers, with each sentence's gradient norm.

A layer computes its forward pass, its backward pass, its share of each sentence's squared gradient norm, and the sum of
the gradients weighted by sentence. This module does not depend on the layers below a head: a new type of layer needs
one line in ``_LAYERS``.
"""

import ctypes
import os
from dataclasses import replace
from typing import Any, Protocol

import numba
import numpy as np
from threadpoolctl import threadpool_limits

from engine.errors import InvalidConfig
from engine.hardware import processor
from engine.taggers import Tagger
from engine.taggers.layers import (
    CHARACTERS,
    CRF,
    BidirectionalLSTM,
    CharacterPool,
    Dense,
    Dropout,
    Softmax,
    Tanh,
    Window,
)
from engine.taggers.tagger import FEATURES, Node, stack
from engine.training.batches import Batch
from engine.training.compiled.characters import CharacterLayer
from engine.training.compiled.dense import DenseLayer
from engine.training.compiled.heads import CRFHead, HeadTape, SoftmaxHead
from engine.training.compiled.lstm import LSTMLayer
from engine.training.compiled.stateless_layers import DropoutLayer, TanhLayer, WindowLayer, only
from engine.training.compiled.wide_dense import LEAST_INPUTS
from engine.training.dpsgd import GradientSum


class Layer(Protocol):
    """A part of a tagger below the head. ``weights`` and ``total`` are its own range of the flat vector."""

    def forward(
        self, weights: np.ndarray, inputs: np.ndarray, places: np.ndarray, batch: Batch
    ) -> tuple[np.ndarray, np.ndarray, Any]:
        """Compute the outputs.

        Each token has its own row if ``places`` is ``batch.each``. With dropout this holds above the lowest layer.
        Without dropout, dropout layers pass their inputs on, and characters have one row for each spelling.

        Args:
            weights: Weights of the layer.
            inputs: Distinct inputs, [U, I].
            places: Row of ``inputs`` of each token, [N].
            batch: The sentences.

        Returns:
            Distinct outputs [M, O], the row of each token [N], and a tape with the values that the backward pass needs.
        """
        ...

    def learning(self, inputs: np.ndarray) -> np.ndarray:
        """Return whether each output depends on weights, bool [O]; ``inputs`` says the same of the inputs, bool [I]."""
        ...

    def backward(self, weights: np.ndarray, tape: Any, slope: np.ndarray, batch: Batch, wanted: np.ndarray) -> Any:
        """Return dL/d(wanted inputs), [N, m]; None if no input is wanted.

        Args:
            weights: Weights of the layer.
            tape: Tape of the forward pass; may be overwritten.
            slope: dL/d(outputs that depend on weights); may be overwritten.
            batch: The sentences.
            wanted: Indices of the inputs that depend on weights, int [m], ascending.
        """
        ...

    def add_squared_norms(self, tape: Any, batch: Batch, squares: np.ndarray) -> None:
        """Add each sentence's squared gradient norm to ``squares``, float64 [B]."""
        ...

    def weighted_gradient(self, tape: Any, factors: np.ndarray, batch: Batch, total: np.ndarray) -> None:
        """Write Σ_i factor_i · G_i to ``total``; factors [B]. This is the last call for a tape, which may be
        overwritten.
        """
        ...


class Head(Protocol):
    """The part of a tagger that computes losses from scores."""

    def losses(self, weights: np.ndarray, scores: np.ndarray, batch: Batch) -> HeadTape:
        """Return each sentence's loss and its derivatives from scores [N, K], which may be overwritten."""
        ...

    def add_squared_norms(self, tape: HeadTape, batch: Batch, squares: np.ndarray) -> None:
        """Add each sentence's squared gradient norm, see :class:`Layer`."""
        ...

    def weighted_gradient(self, tape: HeadTape, factors: np.ndarray, batch: Batch, total: np.ndarray) -> None:
        """Write the weighted gradient, see :class:`Layer`."""
        ...


_LAYERS: dict[type, Any] = {
    BidirectionalLSTM: LSTMLayer,
    CharacterPool: CharacterLayer,
    Dense: DenseLayer,
    Tanh: TanhLayer,
    Window: WindowLayer,
}


def _layer(node: Node, number: int) -> Layer:
    layer: Layer
    if isinstance(node.layer, Dropout):
        layer = DropoutLayer(node.layer, number)
        return layer
    kind = _LAYERS.get(type(node.layer))
    if kind is None:
        raise InvalidConfig(
            f"The part “{node.layer.title}” of this tagger is computed by TensorFlow alone: set "
            "EPSILON_BACKEND=tensorflow to train it"
        )
    layer = kind(node.layer)
    return layer


class CompiledBackend:
    """Clipped gradients and scores of one tagger, in the dtype of the weights.

    Args:
        tagger: The tagger.
        mean: Whether a sentence's loss is the mean over its tokens; otherwise it is their sum.
    """

    def __init__(self, tagger: Tagger, *, mean: bool = True) -> None:
        # The layers use all cores; additional BLAS threads would slow a step by a millisecond.
        threadpool_limits(1, "blas")
        _one_thread_a_core()
        _keep_memory()
        self.tagger = tagger
        self.layers: list[Layer] = [_layer(node, number) for number, node in enumerate(tagger.nodes)]
        inputs = (FEATURES, *(each.name for each in tagger.inputs))
        self._learning = {CHARACTERS: np.zeros(0, bool)} | {
            name: np.zeros(tagger.widths[name], bool) for name in inputs
        }
        """Whether each value of each input and node depends on weights, bool; only these need a derivative."""
        self._wanted: list[np.ndarray] = []
        """Indices of the inputs of each node that depend on weights, int [m]."""
        for node, layer in zip(tagger.nodes, self.layers, strict=True):
            below = np.concatenate([self._learning[name] for name in node.reads])
            self._learning[node.name] = layer.learning(below)
            self._wanted.append(np.flatnonzero(below))
        self.head: Head = CRFHead(tagger.head, mean) if isinstance(tagger.head, CRF) else SoftmaxHead(mean)

    def clipped_gradient(
        self, weights: np.ndarray, batch: Batch, clip_norm: float | None, by_layer: bool = False
    ) -> GradientSum:
        """Return the sum of the sentences' clipped gradients, see :class:`engine.training.dpsgd.Backend`.

        Args:
            weights: Flat weights, [size].
            batch: The sentences.
            clip_norm: C, None for no clipping.
            by_layer: Whether each part with weights is clipped separately.
        """
        *parts, head_weights = (weights[part] for part in self.tagger.slices)
        outputs, tapes = self._forward(weights, batch)
        head = self.head.losses(head_weights, outputs.copy(), batch)  # a tape may hold the outputs
        squares = np.zeros((len(self.tagger.parts), len(batch.lengths)))
        self.head.add_squared_norms(head, batch, squares[-1])
        last = self.tagger.nodes[-1].name
        slopes = {last: only(head.slope, np.flatnonzero(self._learning[last]))} if self._learning[last].any() else {}
        for number in range(len(parts) - 1, -1, -1):
            node, layer, tape = self.tagger.nodes[number], self.layers[number], tapes[number]
            if node.name not in slopes:
                continue
            slope = layer.backward(parts[number], tape, slopes.pop(node.name), batch, self._wanted[number])
            layer.add_squared_norms(tape, batch, squares[number])
            self._hand_down(node, slope, slopes)
        parts_norms = np.sqrt(squares)
        bound = np.inf if clip_norm is None else clip_norm
        # Without clipping the bound is ∞ and every factor is 1; a norm of 0 gives ∞, cut to 1.
        with np.errstate(divide="ignore", invalid="ignore"):
            if by_layer:
                factors = np.minimum(1.0, bound / np.sqrt(self.tagger.weighty) / parts_norms)
            else:
                factors = np.minimum(1.0, bound / np.sqrt(squares.sum(0)))
        factors = np.ascontiguousarray(np.broadcast_to(factors, squares.shape), weights.dtype)
        total = np.empty(self.tagger.size, weights.dtype)
        *parts, head_total = (total[part] for part in self.tagger.slices)
        self.head.weighted_gradient(head, factors[-1], batch, head_total)
        for number, (layer, tape, part) in enumerate(zip(self.layers, tapes, parts, strict=True)):
            layer.weighted_gradient(tape, factors[number], batch, part)
        return GradientSum(total, parts_norms, head.losses)

    def scores(self, weights: np.ndarray, batch: Batch) -> np.ndarray:
        """Return the score of each tag at each token, from the layers below the head, [N, K]."""
        return self._forward(weights, replace(batch, chances=None) if batch.drops else batch)[0]

    def _forward(self, weights: np.ndarray, batch: Batch) -> tuple[np.ndarray, list[Any]]:
        found: dict[str, _Given] = {}
        tapes = []
        for node, layer, part in zip(self.tagger.nodes, self.layers, self.tagger.slices, strict=False):
            inputs, places = self._read(node, found, batch, weights.dtype)
            outputs, places, tape = layer.forward(weights[part], inputs, places, batch)
            found[node.name] = outputs, places
            tapes.append(tape)
        return _at_tokens(found[self.tagger.nodes[-1].name], batch), tapes

    def _read(self, node: Node, found: dict[str, "_Given"], batch: Batch, dtype: Any) -> "_Given":
        """Return the inputs of a node, with the row of each token."""
        if node.reads == (CHARACTERS,):
            return batch.characters, batch.spellings
        words = [(batch.words[:, self.tagger.columns(name)], batch.places) for name in node.reads if name not in found]
        each = [found[name] if name in found else words.pop(0) for name in node.reads]
        if any(places is not each[0][1] for _, places in each):
            each = _side_by_side(each, batch)
        joined = each[0][0] if len(each) == 1 else np.concatenate([values for values, _ in each], axis=1)
        return np.ascontiguousarray(joined, dtype=dtype), each[0][1]

    def _hand_down(self, node: Node, slope: np.ndarray, slopes: dict[str, np.ndarray]) -> None:
        """Add dL/d(wanted inputs) [N, m] of a node to ``slopes`` of the nodes that it reads."""
        start = 0
        for name in node.reads:
            width = int(np.count_nonzero(self._learning[name]))
            if width:
                own = slope if len(node.reads) == 1 else np.ascontiguousarray(slope[:, start : start + width])
                slopes[name] = slopes[name] + own if name in slopes else own
            start += width


_Given = tuple[np.ndarray, np.ndarray]
"""Distinct outputs of a node, [M, O], and the row of each token, [N]."""


def _at_tokens(given: _Given, batch: Batch) -> np.ndarray:
    """Return a row for each token, [N, O]."""
    values, places = given
    return values if places is batch.each else values[places]


def _side_by_side(each: list[_Given], batch: Batch) -> list[_Given]:
    """Return the outputs of several nodes with a common row for each token.

    If there is no dropout and each node has fewer rows than there are tokens, tokens with the same rows share one.
    Otherwise each token has its own.
    """
    if batch.drops or any(len(values) >= len(batch.tags) for values, _ in each):
        return [(_at_tokens(given, batch), batch.each) for given in each]
    key = each[0][1]
    for values, places in each[1:]:
        key = np.unique(key * len(values) + places, return_inverse=True)[1]
    _, first, together = np.unique(key, return_index=True, return_inverse=True)
    return [(values[places[first]], together) for values, places in each]


def _one_thread_a_core() -> None:
    """Limit Numba to one thread per core.

    Two hyper-threads of a core share its caches and multipliers, which one thread uses fully. ``NUMBA_NUM_THREADS``
    takes precedence, as in workers.
    """
    if "NUMBA_NUM_THREADS" not in os.environ:
        numba.set_num_threads(min(numba.get_num_threads(), processor().cores))


def _keep_memory() -> None:
    """Let glibc keep the memory that a step frees for the next step.

    Memory returned to the system must be mapped and zeroed again, and a step takes a quarter longer. Other C libraries
    have no such setting.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return
    trim_threshold, mmap_threshold = -1, -3  # M_TRIM_THRESHOLD, M_MMAP_THRESHOLD of malloc.h
    mallopt(trim_threshold, 2**30)
    mallopt(mmap_threshold, 2**25)


def compile_layers() -> None:
    """Compile every layer for float32 and cache the result on disk."""
    several = (BidirectionalLSTM(2, 2), BidirectionalLSTM(4, 2), Window(4, 4, 1), Tanh(12), Dense(12, 3))
    _compile(stack(2, several, Softmax(3)), stack(2, several, CRF(3)))
    compile_other_layers()


def compile_recurrent_layers() -> None:
    """Compile the LSTM, which takes nearly half of the time of all functions."""
    _compile(stack(2, (BidirectionalLSTM(2, 2), BidirectionalLSTM(4, 2)), Softmax(4)))


def compile_other_layers() -> None:
    """Compile every layer except the LSTM."""
    narrow = (Window(2, 2, 1), Dense(6, 4), Tanh(4), Dense(4, 3))
    wide = (Window(2, 2, LEAST_INPUTS // 2), Dense(2 + 2 * LEAST_INPUTS, 3))
    spelling = (
        Node("spelling", CharacterPool(2, 2, 2), (CHARACTERS,)),
        Node("scores", Dense(4, 3), (FEATURES, "spelling")),
    )
    _compile(stack(2, narrow, CRF(3)), stack(2, wide, CRF(3)), Tagger(2, spelling, CRF(3)))


def _compile(*taggers: Tagger) -> None:
    words, tags, letters = np.ones((3, 2), np.float32), np.zeros(3, np.int32), np.ones((3, 4), np.int32)
    batch = Batch(np.arange(2), words, np.arange(3), tags, np.array([2, 1]), letters, np.arange(3))
    for tagger in taggers:
        backend = CompiledBackend(tagger)
        backend.clipped_gradient(np.zeros(backend.tagger.size, dtype=np.float32), batch, 1.0)

"""The fast back end: the BiLSTM in compiled code (:mod:`engine.training.compiled_kernels`), tested equal to TensorFlow.

One thread pool at a time: the compiled code gives each direction a core, so BLAS gets one thread inside it.
"""

from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from engine.taggers import BiLSTM
from engine.taggers.bilstm import DIRECTIONS
from engine.training import compiled_kernels
from engine.training.batches import Batch
from engine.training.dpsgd import GradientSum

_kernels: Any = compiled_kernels
"""Numba's functions have no types."""


class CompiledBackend:
    """Clipped gradients and predictions of one tagger; works in the dtype of the weights."""

    def __init__(self, tagger: BiLSTM) -> None:
        import scipy.linalg.blas  # noqa: F401 (numba multiplies with SciPy's BLAS, which must be there to be limited)

        self.tagger = tagger
        threadpool_limits(1, "blas")

    def clipped_gradient(self, weights: np.ndarray, batch: Batch, clip_norm: float | None) -> GradientSum:
        """Sum over the batch of each sentence's gradient, scaled down to L2 norm ``clip_norm`` where it is longer."""
        packed = _Packed(batch, weights.dtype)
        parameters = self._parameters(weights)
        *pieces, norms, losses = _kernels.clipped_gradient(
            packed.inputs, packed.tags, *parameters, *packed.shape, np.inf if clip_norm is None else float(clip_norm)
        )
        total = np.empty(self.tagger.layout.size, weights.dtype)
        views = self.tagger.layout.views(total)
        kernels, recurrents, biases, dense, dense_bias = pieces
        for d, name in enumerate(DIRECTIONS):
            views[f"{name}/kernel"][:] = kernels[d]
            views[f"{name}/recurrent"][:] = recurrents[d]
            views[f"{name}/bias"][:] = biases[d]
        views["dense/kernel"][:] = dense
        views["dense/bias"][:] = dense_bias
        back = np.argsort(packed.order)
        return GradientSum(total, norms[back], losses[back])

    def predict(self, weights: np.ndarray, batch: Batch) -> np.ndarray:
        """The likeliest tag at each place, int [B, T]; padded places mean nothing."""
        packed = _Packed(batch, weights.dtype)
        *lstm, dense, dense_bias = self._parameters(weights)
        hidden = _kernels.features(packed.inputs, *lstm, *packed.shape)[3]
        logits = np.concatenate(hidden, axis=1) @ dense + dense_bias
        best = np.zeros(batch.tags.shape, dtype=np.int64)
        best[packed.real] = logits.argmax(-1)
        return best

    def _parameters(self, weights: np.ndarray) -> tuple[np.ndarray, ...]:
        views = self.tagger.layout.views(weights)
        lstm = (np.stack([views[f"{name}/{part}"] for name in DIRECTIONS]) for part in ("kernel", "recurrent", "bias"))
        return (*lstm, views["dense/kernel"], views["dense/bias"])


class _Packed:
    """A batch without its padding. inputs [N, D], tags [N]; shape: what the kernels need to walk through it."""

    def __init__(self, batch: Batch, dtype: np.dtype) -> None:
        self.real = np.arange(batch.tags.shape[1]) < batch.lengths[:, None]
        self.inputs = np.ascontiguousarray(batch.vectors[self.real], dtype=dtype)
        self.tags = batch.tags[self.real]
        self.order = np.argsort(-batch.lengths, kind="stable")
        starts = np.concatenate([[0], np.cumsum(batch.lengths)[:-1]])
        lengths = batch.lengths[self.order].astype(np.int64)
        live = (lengths[:, None] > np.arange(lengths[0])).sum(0)
        self.shape = (starts[self.order].astype(np.int64), lengths, live)


def compile_kernels() -> None:
    """Compile for float32 and keep the result on disk: some twenty seconds the first time, nothing after that."""
    tagger = BiLSTM(dimensions=2, hidden_size=2, tags=3)
    lengths = np.array([1, 2], dtype=np.int32)
    batch = Batch(np.arange(2), np.ones((2, 2, 2), dtype=np.float32), np.zeros((2, 2), dtype=np.int32), lengths)
    backend, weights = CompiledBackend(tagger), np.zeros(tagger.layout.size, dtype=np.float32)
    backend.clipped_gradient(weights, batch, 1.0)
    backend.predict(weights, batch)

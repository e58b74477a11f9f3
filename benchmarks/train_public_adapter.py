"""Compute ``engine/embeddings/public/`` from Wikigold: ``python -m benchmarks.train_public_adapter``.

The projection has the mean and the whitened principal directions of two layers of the public language model. The
adapter has low-rank changes to its weights (Hu et al. 2022), trained to tag Wikigold's entities; the head of this
training is discarded. No other data is read, so both spend no privacy of a corpus that does not overlap with Wikigold.
The checksums of all read sentences are saved too, to detect an overlap; ``--checksums`` computes them alone. The
statistics are the mean and length of the vectors of each registered encoder's layer, and the ranges of the inputs of
its matrices, where they are rounded; ``--statistics`` computes them alone. Takes minutes on two cores.
"""

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras

from engine import corpus
from engine.config import ENCODERS, MINILM
from engine.config.feature_registry import ALL_PARTS
from engine.config.head_registry import HEAD
from engine.embeddings import contamination, minilm
from engine.embeddings.contextual import encoder_of, statistics, token_vectors
from engine.embeddings.custom_model import OwnModel, find
from engine.embeddings.features import KEPT, LAYERS, PROJECTION, statistics_of
from engine.embeddings.transformer import CASE_VECTORS, Encoder
from engine.embeddings.word_pieces import Pieces, batches, word_pieces
from engine.embeddings.word_shape import CASES, case
from engine.gemm import packed
from engine.settings import Settings

RANK, EPOCHS, RATE, PIECES, DROPOUT = 8, 8, 1e-3, 1024, 0.1


class TensorFlowEncoder:
    """MiniLM in TensorFlow, for its gradient, which :mod:`engine.embeddings.transformer` does not have.

    If the weights include spelling vectors, each piece also gets its word's spelling class, since pieces are in lower
    case.
    """

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.size, self.heads = minilm.SHAPE.size, minilm.SHAPE.heads
        self.weights = {name: tf.convert_to_tensor(value) for name, value in values.items()}

    def layers(self, ids: Any, mask: Any, cases: Any) -> list[Any]:
        """Return the embeddings and each layer's vectors, float32 [B, T, size].

        Args:
            ids: Piece ids, int32 [B, T].
            mask: 1 for pieces, 0 for padding, float32 [B, T].
            cases: Spelling classes, int32 [B, T].
        """
        v = self.weights
        here = tf.gather(v["embeddings.word_embeddings.weight"], ids)
        here += v["embeddings.position_embeddings.weight"][: tf.shape(ids)[1]]
        here += v["embeddings.token_type_embeddings.weight"][0]
        if CASE_VECTORS in v:
            here += tf.gather(v[CASE_VECTORS], cases)
        here = self._normal(here, "embeddings.LayerNorm")
        found, bias = [here], (1.0 - mask)[:, None, None, :] * -1e9
        for number in range(minilm.SHAPE.layers):
            here = self._layer(here, bias, f"encoder.layer.{number}.")
            found.append(here)
        return found

    def _layer(self, inputs: Any, bias: Any, name: str) -> Any:
        shape = tf.shape(inputs)

        def heads(kind: str) -> Any:
            split = tf.reshape(
                self._affine(inputs, f"{name}attention.self.{kind}"), (shape[0], shape[1], self.heads, -1)
            )
            return tf.transpose(split, (0, 2, 1, 3))

        query, key, value = heads("query"), heads("key"), heads("value")
        scores = tf.matmul(query, key, transpose_b=True) / np.sqrt(self.size / self.heads).astype(np.float32) + bias
        mixed = tf.transpose(tf.matmul(tf.nn.softmax(scores), value), (0, 2, 1, 3))
        mixed = self._affine(tf.reshape(mixed, (shape[0], shape[1], self.size)), f"{name}attention.output.dense")
        middle = self._normal(inputs + mixed, f"{name}attention.output.LayerNorm")
        wide = tf.nn.gelu(self._affine(middle, f"{name}intermediate.dense"))
        return self._normal(middle + self._affine(wide, f"{name}output.dense"), f"{name}output.LayerNorm")

    def _affine(self, inputs: Any, name: str) -> Any:
        rows = tf.reshape(inputs, (-1, inputs.shape[-1]))
        product = tf.matmul(rows, self.weights[f"{name}.weight"], transpose_b=True)
        outputs = product + self.weights[f"{name}.bias"]
        return tf.reshape(outputs, tf.concat([tf.shape(inputs)[:-1], [outputs.shape[-1]]], 0))

    def _normal(self, inputs: Any, name: str) -> Any:
        mean, variance = tf.nn.moments(inputs, -1, keepdims=True)
        scaled = (inputs - mean) * tf.math.rsqrt(variance + minilm.SHAPE.epsilon)
        return scaled * self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"]


def padded(pieces: Sequence[Pieces]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return ids int32, words int32 (−1 for none) and mask float32, each [B, T]."""
    width = max(len(each.ids) for each in pieces)
    ids, words = np.zeros((len(pieces), width), np.int32), np.full((len(pieces), width), -1, np.int32)
    mask = np.zeros((len(pieces), width), np.float32)
    for row, each in enumerate(pieces):
        size = len(each.ids)
        ids[row, :size], words[row, :size], mask[row, :size] = each.ids, each.words, 1.0
    return ids, words, mask


def project(sentences: list[tuple[str, ...]]) -> None:
    """Fit and write the projection."""
    vectors = token_vectors(Encoder(minilm.Weights(), minilm.SHAPE, LAYERS), sentences)
    arrays = {}
    for index, layer in enumerate(LAYERS):
        mean = vectors[:, index].mean(0)
        _, values, directions = np.linalg.svd(vectors[:, index] - mean, full_matrices=False)
        spread = values[:KEPT] / np.sqrt(len(vectors))
        arrays[f"mean{layer}"] = mean.astype(np.float32)
        # Whitened, then scaled so that all together have unit length.
        arrays[f"directions{layer}"] = (directions[:KEPT].T / spread / np.sqrt(KEPT)).astype(np.float16)
    np.savez_compressed(PROJECTION, **arrays)


def summarise(sentences: list[tuple[str, ...]], settings: Settings) -> None:
    """Fit and write the statistics of each registered encoder's layer."""
    for name, entry in ENCODERS.items():
        own, ranges = None if name == MINILM else find(name, settings), {}
        if own and entry.int8:  # its vectors depend on the ranges
            ranges = ranges_of(own, entry.layer, sentences)
            np.savez(statistics_of(name), allow_pickle=False, **ranges)
        encoder = encoder_of(own, (entry.layer,), statistics_of(name))
        vectors = token_vectors(encoder, sentences, own=own)[:, 0]
        np.savez(statistics_of(name), allow_pickle=False, **statistics(vectors), **ranges)


def ranges_of(own: OwnModel, layer: int, sentences: Sequence[Sequence[str]]) -> dict[str, np.ndarray]:
    """Return the largest magnitude of each input of an encoder's matrices, float32 [inputs], by their name."""
    found: dict[str, np.ndarray] = {}

    def matrix(name: str, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return packed(weights), found.setdefault(name, np.zeros(len(weights), np.float32))

    encoder, cases = Encoder(minilm.Weights(own), own.shape, [layer], matrix), np.zeros(1, np.int32)
    for batch in batches(word_pieces(sentences, own), PIECES):
        encoder.vectors(batch, cases)
    return found


def adapt(sentences: list[tuple[str, ...]], tags: np.ndarray, kinds: int, seed: int = 0) -> None:
    """Train and write the adapter."""
    random, values = np.random.default_rng(seed), minilm.Weights()
    tf.random.set_seed(seed)
    trained: dict[str, tf.Variable] = {
        CASE_VECTORS: tf.Variable(np.zeros((CASES, minilm.SHAPE.size), np.float32)),
        "head": tf.Variable(random.normal(0, 0.02, (minilm.SHAPE.size, kinds)).astype(np.float32)),
        "head bias": tf.Variable(np.zeros(kinds, np.float32)),
    }
    for name, value in values.items():
        if name.startswith("encoder.") and value.ndim == 2:
            down = random.normal(0, value.shape[1] ** -0.5, (RANK, value.shape[1])).astype(np.float32)
            trained[f"{name}:up"] = tf.Variable(np.zeros((value.shape[0], RANK), np.float32))
            trained[f"{name}:down"] = tf.Variable(down)
        elif name.startswith("encoder."):
            trained[name] = tf.Variable(np.zeros_like(value))
    variables = list(trained.values())
    optimiser = tf_keras.optimizers.legacy.Adam(RATE)

    @tf.function(reduce_retracing=True)
    def step(ids: tf.Tensor, mask: tf.Tensor, cases: tf.Tensor, gold: tf.Tensor, counted: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            changes = {name: variable for name, variable in trained.items() if not name.startswith("head")}
            last = TensorFlowEncoder(minilm.adapted(values, changes)).layers(ids, mask, cases)[-1]
            scores = tf.nn.dropout(last, DROPOUT) @ trained["head"] + trained["head bias"]
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(gold, scores)
            loss = tf.reduce_sum(losses * counted) / tf.reduce_sum(counted)
        gradients, _ = tf.clip_by_global_norm(tape.gradient(loss, variables), 1.0)
        optimiser.apply_gradients(zip(gradients, variables, strict=True))
        return loss

    pieces = word_pieces(sentences)
    cases = np.array([case(word) for sentence in sentences for word in sentence], np.int32)
    chosen = list(batches(pieces, PIECES))
    steps, taken = EPOCHS * len(chosen), 0
    for epoch in range(EPOCHS):
        begun, losses = time.monotonic(), []
        for number in random.permutation(len(chosen)):
            optimiser.learning_rate = RATE * min(1.0, (taken + 1) / (0.1 * steps)) * (1 - taken / steps)
            taken += 1
            ids, words, mask = padded(chosen[number])
            own = words >= 0
            first = own & (words != np.pad(words, ((0, 0), (1, 0)))[:, :-1])  # the first piece of each token
            index = np.maximum(words, 0)
            counted = first.astype(np.float32)
            losses.append(float(step(ids, mask, np.where(own, cases[index], 0), tags[index], counted)))
        sys.stderr.write(f"epoch {epoch + 1}: loss {np.mean(losses):.4f}, {time.monotonic() - begun:.0f} s\n")
    kept = {name: variable.numpy().astype(np.float16) for name, variable in trained.items() if "head" not in name}
    np.savez_compressed(minilm.ADAPTER, **kept)


def main() -> int:
    """Compute all files, or the checksums alone."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--checksums", action="store_true", help="compute the checksums of the read sentences; train nothing"
    )
    parser.add_argument("--statistics", action="store_true", help="compute the statistics of encoders; train nothing")
    options, settings = parser.parse_args(), Settings.from_environment()
    wikigold = corpus.resolve("wikigold", settings).load()
    minilm.PUBLIC.mkdir(exist_ok=True)
    contamination.write_checksums(wikigold, [*(name for part in ALL_PARTS for name in part.fitted), HEAD])
    every = [sentence for split in (wikigold.train, wikigold.validation, wikigold.test) for sentence in split]
    if not options.checksums:
        summarise([sentence.tokens for sentence in every], settings)
    if not (options.checksums or options.statistics):
        index = {tag: number for number, tag in enumerate(wikigold.tags)}
        tags = np.array([index[tag] for sentence in every for tag in sentence.tags], np.int32)
        sentences = [sentence.tokens for sentence in every]
        project(sentences)
        adapt(sentences, tags, len(wikigold.tags))
    for path in (PROJECTION, minilm.ADAPTER, contamination.CHECKSUMS, *map(statistics_of, ENCODERS)):
        sys.stdout.write(f"{path.name}: {path.stat().st_size:,} bytes\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

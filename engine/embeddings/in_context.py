"""Features in context for every token:
``python -m engine.embeddings.in_context KIND PACKAGE SENTENCES.json FEATURES.npy``.

A process of its own, started by :mod:`engine.embeddings.features`; on standard output it says what share is done.
"""

import json
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import tensorflow as tf

from engine.embeddings import minilm
from engine.embeddings.features import LAYERS, projection
from engine.embeddings.names import found_names
from engine.embeddings.shapes import case


def token_vectors(
    encoder: minilm.Encoder,
    sentences: Sequence[Sequence[str]],
    layers: Sequence[int],
    progress: Callable[[float], None] = lambda share: None,
) -> np.ndarray:
    """Layers of the language model at each token, the mean over its word pieces: float32 [tokens, layers, 384]; zero
    for a token without pieces."""

    @tf.function(reduce_retracing=True)
    def run(ids: tf.Tensor, mask: tf.Tensor, cases: tf.Tensor) -> tf.Tensor:
        found = encoder.layers(ids, mask, cases)
        return tf.stack([found[layer] for layer in layers], 2)

    pieces = minilm.word_pieces(sentences)
    cases = np.array([case(word) for sentence in sentences for word in sentence], np.int32)
    total = np.zeros((len(cases), len(layers), minilm.SIZE), np.float32)
    count = np.zeros(len(cases), np.float32)
    batches = list(minilm.batches(pieces))
    for done, batch in enumerate(batches):
        ids, words, mask = minilm.padded(pieces, batch)
        own = words >= 0
        vectors = run(ids, mask, np.where(own, cases[np.maximum(words, 0)], 0)).numpy()[own]
        places = words[own]
        starts = np.flatnonzero(np.diff(places, prepend=-1))  # the pieces of a token stand side by side
        np.add.at(total, places[starts], np.add.reduceat(vectors, starts))
        np.add.at(count, places, 1)
        progress((done + 1) / len(batches))
    mean: np.ndarray = total / np.maximum(count, 1)[:, None, None]
    return mean


def features(
    kind: str, package: Path, sentences: Sequence[Sequence[str]], progress: Callable[[float], None]
) -> np.ndarray:
    """The part of the features that comes in context, by token: whitened layers of the public model; for "tuned" the
    last layer of the model tuned on public names too, of unit length; for "names" what spaCy's finder in ``package``
    says too. float32 [tokens, F]."""
    parts = [_whitened, *([_tuned] if kind in ("tuned", "names") else [])]
    if kind == "names":
        parts.append(partial(found_names, package))

    def part_of(number: int) -> Callable[[float], None]:
        return lambda share: progress((number + share) / len(parts))

    made = [part(sentences, part_of(number)) for number, part in enumerate(parts)]
    found: np.ndarray = np.concatenate(made, axis=1).astype(np.float32)
    return found


def _whitened(sentences: Sequence[Sequence[str]], progress: Callable[[float], None]) -> np.ndarray:
    found = token_vectors(minilm.Encoder(minilm.weights()), sentences, LAYERS, progress)
    basis = projection()
    parts = [(found[:, at] - basis[f"mean{layer}"]) @ basis[f"directions{layer}"] for at, layer in enumerate(LAYERS)]
    return np.concatenate(parts, axis=1)


def _tuned(sentences: Sequence[Sequence[str]], progress: Callable[[float], None]) -> np.ndarray:
    encoder = minilm.Encoder(minilm.adapted(minilm.weights(), minilm.adapter()))
    found = token_vectors(encoder, sentences, [minilm.LAYERS], progress)[:, 0]
    directions: np.ndarray = found / np.maximum(np.linalg.norm(found, axis=1, keepdims=True), 1e-6)
    return directions


def main() -> int:
    """Read, compute, write."""
    kind, package, given, made = sys.argv[1:]
    with open(given, encoding="utf-8") as file:
        sentences = json.load(file)

    def say(share: float) -> None:
        sys.stdout.write(f"{share:.4f}\n")
        sys.stdout.flush()

    np.save(made, features(kind, Path(package), sentences, say), allow_pickle=False)
    return 0


if __name__ == "__main__":
    sys.exit(main())

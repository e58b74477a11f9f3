"""Features in context for every token:
``python -m engine.embeddings.contextual KIND PACKAGE SENTENCES.json FEATURES.npy [MODEL LABEL PROJECTION.npz]``.

A process of its own, started by :mod:`engine.embeddings.features`; on standard output it says what share is done. With
a model of the user's own, the kind "projection" fits its projection on the sentences.
"""

import json
import sys
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from engine.embeddings import minilm
from engine.embeddings.custom_model import OwnModel, at
from engine.embeddings.features import KEPT, LAYERS, projection
from engine.embeddings.ner_features import found_names
from engine.embeddings.word_shape import case
from engine.errors import VectorsMissing


def token_vectors(
    encoder: minilm.Encoder,
    sentences: Sequence[Sequence[str]],
    layers: Sequence[int],
    progress: Callable[[float], None] = lambda share: None,
    own: OwnModel | None = None,
) -> np.ndarray:
    """Layers of the language model at each token, the mean over its word pieces: float32 [tokens, layers, size]; zero
    for a token without pieces. own: in MiniLM's place."""
    run = _graph(encoder, tuple(layers))
    pieces = minilm.word_pieces(sentences, own)
    cases = np.array([case(word) for sentence in sentences for word in sentence], np.int32)
    total = np.zeros((len(cases), len(layers), encoder.size), np.float32)
    count = np.zeros(len(cases), np.float32)
    batches = list(minilm.batches(pieces))
    for done, batch in enumerate(batches):
        ids, words, mask = minilm.padded(pieces, batch)
        inside = words >= 0
        vectors = run(ids, mask, np.where(inside, cases[np.maximum(words, 0)], 0)).numpy()[inside]
        places = words[inside]
        starts = np.flatnonzero(np.diff(places, prepend=-1))  # the pieces of a token stand side by side
        np.add.at(total, places[starts], np.add.reduceat(vectors, starts))
        np.add.at(count, places, 1)
        progress((done + 1) / len(batches))
    mean: np.ndarray = total / np.maximum(count, 1)[:, None, None]
    return mean


@lru_cache(maxsize=4)
def _graph(encoder: minilm.Encoder, layers: tuple[int, ...]) -> Any:
    """Layers of a model as one graph, traced once for all lengths: float32 [B, T, layers, size]."""

    @tf.function(
        input_signature=[tf.TensorSpec((None, None), kind) for kind in (tf.int32, tf.float32, tf.int32)],
    )
    def run(ids: tf.Tensor, mask: tf.Tensor, cases: tf.Tensor) -> tf.Tensor:
        found = encoder.layers(ids, mask, cases)
        return tf.stack([found[layer] for layer in layers], 2)

    return run


@lru_cache(maxsize=1)
def _encoder(own: OwnModel | None) -> minilm.Encoder:
    """Read once for all texts of this process."""
    return minilm.Encoder(minilm.weights(own), own)


@lru_cache(maxsize=1)
def _tuned_encoder() -> minilm.Encoder:
    return minilm.Encoder(minilm.adapted(minilm.weights(), minilm.adapter()))


def features(
    kind: str,
    package: Path,
    sentences: Sequence[Sequence[str]],
    progress: Callable[[float], None],
    own: tuple[OwnModel, Path] | None = None,
) -> np.ndarray:
    """The part of the features that comes in context, by token: whitened layers of the public model; for "tuned" the
    last layer of the model tuned on public names too, of unit length; for "names" what spaCy's finder in ``package``
    says too. own: a model in MiniLM's place, with its projection. float32 [tokens, F]."""
    parts: list[Callable[..., np.ndarray]] = [
        partial(_whitened, own=own),
        *([_tuned] if kind in ("tuned", "names") else []),
    ]
    if kind == "names":
        parts.append(partial(found_names, package))

    def part_of(number: int) -> Callable[[float], None]:
        return lambda share: progress((number + share) / len(parts))

    made = [part(sentences, part_of(number)) for number, part in enumerate(parts)]
    found: np.ndarray = np.concatenate(made, axis=1).astype(np.float32)
    return found


def _whitened(
    sentences: Sequence[Sequence[str]],
    progress: Callable[[float], None],
    own: tuple[OwnModel, Path] | None = None,
) -> np.ndarray:
    model, basis = (own[0], projection(own[1])) if own else (None, projection())
    layers = model.used_layers if model else LAYERS
    found = token_vectors(_encoder(model), sentences, layers, progress, model)
    parts = [(found[:, at] - basis[f"mean{layer}"]) @ basis[f"directions{layer}"] for at, layer in enumerate(layers)]
    return np.concatenate(parts, axis=1)


def fitted(vectors: np.ndarray, layers: Sequence[int]) -> dict[str, np.ndarray]:
    """The projection of layers, float32 [tokens, layers, size]: the mean of each, and its main directions, whitened,
    and then of unit length in all. A direction's sign is that of its largest part: on any machine the same."""
    found = {}
    for place, layer in enumerate(layers):
        mean = vectors[:, place].mean(0)
        _, values, directions = np.linalg.svd(vectors[:, place] - mean, full_matrices=False)
        spread = np.maximum(values[:KEPT] / np.sqrt(len(vectors)), 1e-6)
        kept = directions[:KEPT]
        kept = kept * np.sign(np.take_along_axis(kept, np.abs(kept).argmax(1)[:, None], 1))
        found[f"mean{layer}"] = mean.astype(np.float32)
        found[f"directions{layer}"] = (kept.T / spread / np.sqrt(KEPT)).astype(np.float32)
    return found


def _tuned(sentences: Sequence[Sequence[str]], progress: Callable[[float], None]) -> np.ndarray:
    found = token_vectors(_tuned_encoder(), sentences, [minilm.LAYERS], progress)[:, 0]
    directions: np.ndarray = found / np.maximum(np.linalg.norm(found, axis=1, keepdims=True), 1e-6)
    return directions


def main() -> int:
    """Read, compute, write."""
    kind, package, given, made, *rest = sys.argv[1:]
    own = _own(*rest) if rest else None
    with open(given, encoding="utf-8") as file:
        sentences = json.load(file)

    def say(share: float) -> None:
        sys.stdout.write(f"{share:.4f}\n")
        sys.stdout.flush()

    if kind == "projection" and own:
        encoder, layers = minilm.Encoder(minilm.weights(own[0]), own[0]), own[0].used_layers
        np.savez(own[1], **fitted(token_vectors(encoder, sentences, layers, say, own[0]), layers))
    else:
        np.save(made, features(kind, Path(package), sentences, say, own), allow_pickle=False)
    return 0


def _own(place: str, label: str, basis: str) -> tuple[OwnModel, Path]:
    found = at(Path(place))
    if found.label != label:
        raise VectorsMissing(f"language_model={label!r} was changed while it was in use: it is {found.label} now")
    return found, Path(basis)


if __name__ == "__main__":
    sys.exit(main())

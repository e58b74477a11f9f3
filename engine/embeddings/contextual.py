"""Contextual features of tokens, computed in a separate process.

Usage: ``python -m engine.embeddings.contextual KIND PACKAGE SENTENCES.json FEATURES.npz [MODEL LABEL PROJECTION.npz]``.

:mod:`engine.embeddings.features` starts it; it prints the share done on standard output. For the kind "parts", the
sentences are given for each part, and each part is an array of the result. With a custom model, the kinds "projection"
and "statistics" fit these on a list of sentences.
"""

import json
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from engine.config import ENCODERS, FEATURE_SETS, MINILM
from engine.embeddings import minilm, transformer
from engine.embeddings.custom_model import OwnModel, at, registered
from engine.embeddings.features import KEPT, LAYERS, narrow, projection, statistics_of
from engine.embeddings.int8_matrix import int8_matrix
from engine.embeddings.ner_features import found_names
from engine.embeddings.transformer import Encoder
from engine.embeddings.word_pieces import word_pieces
from engine.embeddings.word_shape import case
from engine.errors import VectorsMissing
from engine.hardware import processor


def token_vectors(
    encoder: Encoder,
    sentences: Sequence[Sequence[str]],
    progress: Callable[[float], None] = lambda share: None,
    own: OwnModel | None = None,
) -> np.ndarray:
    """Return the layers of an encoder at each token: float32 [tokens, layers, size].

    Args:
        encoder: The encoder.
        sentences: Words of each sentence.
        progress: Called with the share done, 0 to 1.
        own: Custom model instead of MiniLM.
    """
    cases = np.array([case(word) for sentence in sentences for word in sentence], np.int32)
    return transformer.token_vectors(encoder, word_pieces(sentences, own), cases, progress)


@lru_cache(maxsize=2)
def encoder_of(own: OwnModel | None, layers: tuple[int, ...], path: Path | None = None) -> Encoder:
    """Return MiniLM or another model, loaded once for all texts of this process.

    Args:
        own: Model instead of MiniLM.
        layers: Layers that are used.
        path: File with its statistics, which has the ranges that whole numbers need.
    """
    values, shape = minilm.Weights(own), own.shape if own else minilm.SHAPE
    if path is None or own is None or own.label not in ENCODERS or not ENCODERS[own.label].int8:
        return Encoder(values, shape, layers)
    ranges = projection(path)
    return Encoder(values, shape, layers, lambda name, weights: int8_matrix(weights, ranges[name]))


@lru_cache(maxsize=1)
def _tuned_encoder() -> Encoder:
    last = minilm.SHAPE.layers
    return Encoder(minilm.adapted(minilm.Weights(), minilm.adapter()), minilm.SHAPE, [last])


@dataclass(frozen=True)
class _Models:
    """Models that parts may use: the folder of the spaCy package, and a custom language model with its projection."""

    package: Path
    own: tuple[OwnModel, Path] | None


def part_in_context(
    name: str,
    package: Path,
    sentences: Sequence[Sequence[str]],
    progress: Callable[[float], None] = lambda share: None,
    own: tuple[OwnModel, Path] | None = None,
) -> np.ndarray:
    """Return a contextual part of the features: float32 [tokens, width].

    Args:
        name: Name of the part.
        package: Folder of the spaCy package.
        sentences: Words of each sentence.
        progress: Called with the share done, 0 to 1.
        own: Custom model instead of MiniLM, with its projection.
    """
    return IN_CONTEXT[name](sentences, progress, _Models(package, own)).astype(np.float32, copy=False)


def parts_in_context(
    wanted: Mapping[str, Sequence[Sequence[str]]],
    package: Path,
    progress: Callable[[float], None],
    own: tuple[OwnModel, Path] | None = None,
) -> dict[str, np.ndarray]:
    """Return contextual parts by name, rounded by :func:`engine.embeddings.features.narrow`: uint16 [tokens, width].

    All parts of some sentences are computed before those of the next ones. So the share of the work that is done grows
    evenly, although the parts differ in their time, and only some sentences have float32 values in memory.

    Args:
        wanted: Words of each sentence, by the name of the part; at least one sentence.
        package: Folder of the spaCy package.
        progress: Called with the share of the work done, 0 to 1.
        own: Custom model instead of MiniLM, with its projection.
    """
    tokens = {name: sum(map(len, sentences)) for name, sentences in wanted.items()}
    groups = math.ceil(max(tokens.values()) / (_GROUP_TOKENS * processor().cores)) or 1
    work = {name: number * _microseconds(name, own[0] if own else None) for name, number in tokens.items()}
    whole, done = sum(work.values()) or 1.0, 0.0
    found: dict[str, list[np.ndarray]] = {name: [] for name in wanted}
    for group in range(groups):
        for name, sentences in wanted.items():
            first, end = (len(sentences) * number // groups for number in (group, group + 1))
            part_work = work[name] / groups

            def report(share: float, before: float = done, more: float = part_work) -> None:
                progress(min(1.0, (before + more * share) / whole))

            found[name].append(narrow(part_in_context(name, package, sentences[first:end], report, own)))
            done += part_work
    return {name: np.concatenate(arrays) for name, arrays in found.items()}


def _microseconds(part: str, own: OwnModel | None) -> float:
    """Return about how long a part takes for a token."""
    if part == "ner-tags":
        return _MICROSECONDS[part]
    model = 1.0
    if own:
        model = own.shape.layers * own.shape.size**2 / (minilm.SHAPE.layers * minilm.SHAPE.size**2)
        if own.label in ENCODERS and ENCODERS[own.label].int8:
            model *= _INT8
    return _MICROSECONDS[part] * model / processor().cores


def features(
    kind: str,
    package: Path,
    sentences: Sequence[Sequence[str]],
    progress: Callable[[float], None],
    own: tuple[OwnModel, Path] | None = None,
) -> np.ndarray:
    """Return the contextual parts of the features together: uint16 [tokens, F].

    Args:
        kind: Name of the feature set.
        package: Folder of the spaCy package.
        sentences: Words of each sentence.
        progress: Called with the share of the work done, 0 to 1.
        own: Custom model instead of MiniLM, with its projection.
    """
    wanted = {part.name: sentences for part in FEATURE_SETS[kind].parts if part.in_context}
    return np.concatenate(list(parts_in_context(wanted, package, progress, own).values()), axis=1)


def _whitened_layers(
    sentences: Sequence[Sequence[str]], progress: Callable[[float], None], models: _Models
) -> np.ndarray:
    """Return whitened layers of the public language model, or of the custom one."""
    model, basis = (models.own[0], projection(models.own[1])) if models.own else (None, projection())
    layers = model.used_layers if model else LAYERS
    found = token_vectors(encoder_of(model, layers), sentences, progress, model)
    if len(found) == 1:  # of a single row, the matrix library computes the sums in another order
        found = np.repeat(found, 2, axis=0)
    parts = [(found[:, at] - basis[f"mean{layer}"]) @ basis[f"directions{layer}"] for at, layer in enumerate(layers)]
    return np.concatenate(parts, axis=1)[: sum(map(len, sentences))]


def _centred_layer(
    sentences: Sequence[Sequence[str]], progress: Callable[[float], None], models: _Models
) -> np.ndarray:
    """Return one layer of the language model, minus its mean and divided by its length on public text."""
    model, path = models.own or (None, statistics_of(MINILM))
    basis = projection(path)
    layer = model.middle_layer if model else ENCODERS[MINILM].layer
    found: np.ndarray = token_vectors(encoder_of(model, (layer,), path), sentences, progress, model)[:, 0]
    found -= basis["mean"]  # in place: for a large corpus, it takes a gigabyte
    found /= basis["length"]
    return found


def statistics(vectors: np.ndarray) -> dict[str, np.ndarray]:
    """Return the mean of vectors, float32 [tokens, size], and the root mean square of their distances from it."""
    mean = vectors.mean(0, dtype=np.float64)
    length = np.sqrt(np.square(vectors - mean).sum(1).mean())
    return {"mean": mean.astype(np.float32), "length": np.float32(length)}


def fitted(vectors: np.ndarray, layers: Sequence[int]) -> dict[str, np.ndarray]:
    """Fit the projection of layers, float32 [tokens, layers, size].

    It has the mean of each layer and its main directions, whitened, then scaled to unit length in all. The largest
    component of a direction determines its sign: the same on any machine.
    """
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


def _tuned_layer(sentences: Sequence[Sequence[str]], progress: Callable[[float], None], models: _Models) -> np.ndarray:
    """Return the last layer of the model fine-tuned on public entities, of unit length."""
    found = token_vectors(_tuned_encoder(), sentences, progress)[:, 0]
    directions: np.ndarray = found / np.maximum(np.linalg.norm(found, axis=1, keepdims=True), 1e-6)
    return directions


def _ner_tags(sentences: Sequence[Sequence[str]], progress: Callable[[float], None], models: _Models) -> np.ndarray:
    """Return the output of spaCy's NER model."""
    return found_names(models.package, sentences, progress)


IN_CONTEXT: dict[str, Callable[[Sequence[Sequence[str]], Callable[[float], None], _Models], np.ndarray]] = {
    "whitened-layers": _whitened_layers,
    "tuned-layer": _tuned_layer,
    "centred-layer": _centred_layer,
    "ner-tags": _ner_tags,
}
"""Computation of each part in context: float32 [tokens, width]."""

_MICROSECONDS = {"whitened-layers": 460.0, "tuned-layer": 412.0, "centred-layer": 225.0, "ner-tags": 40.0}
"""Processor time for a token of CoNLL-2003, measured with MiniLM. The language model uses all cores, spaCy one."""
_INT8 = 0.4
"""Time of a language model in whole numbers, relative to one in float32."""
_GROUP_TOKENS = 4096
"""Tokens for each core whose parts are computed together: some ten batches, so that no core waits for long."""


def main() -> int:
    """Read the sentences, compute the features and write them."""
    kind, package, place, made, *rest = sys.argv[1:]
    own = _own(*rest) if rest else None
    with open(place, encoding="utf-8") as file:
        given = json.load(file)

    def say(share: float) -> None:
        sys.stdout.write(f"{share:.4f}\n")
        sys.stdout.flush()

    if kind == "projection" and own:
        layers = own[0].used_layers
        arrays = fitted(token_vectors(encoder_of(own[0], layers), given, say, own[0]), layers)
        np.savez(own[1], allow_pickle=False, **arrays)
    elif kind == "statistics" and own:
        encoder = encoder_of(own[0], (own[0].middle_layer,))
        np.savez(own[1], allow_pickle=False, **statistics(token_vectors(encoder, given, say, own[0])[:, 0]))
    else:
        np.savez(made, allow_pickle=False, **parts_in_context(given, Path(package), say, own))
    return 0


def _own(place: str, label: str, basis: str) -> tuple[OwnModel, Path]:
    found = registered(label, Path(place)) if label in ENCODERS else at(Path(place))
    if found.label != label:
        raise VectorsMissing(f"language_model={label!r} was changed while it was in use: it is {found.label} now")
    return found, Path(basis)


if __name__ == "__main__":
    sys.exit(main())

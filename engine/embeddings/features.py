"""Features of a token besides its word vector: word shape, contextual vectors, and the output of a public NER model.

All of them use public inputs only. The projection of the language model's layers is fitted on Wikigold (Balasuriya et
al. 2009, CC BY 4.0) and stored in ``public/``. :mod:`engine.embeddings.contamination` detects overlap with a corpus.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from engine.config import ENCODERS, FEATURE_SETS, MINILM
from engine.config.encoder_registry import size_of
from engine.config.feature_registry import FeatureSet
from engine.corpus.handle import CorpusHandle
from engine.embeddings import prepared
from engine.embeddings.custom_model import OwnInContext
from engine.embeddings.encoding import EncodedCorpus, EncodedSplit, encode_words
from engine.embeddings.known_sentences import KnownSentences, file_name
from engine.embeddings.vectors import VectorPackage, find
from engine.embeddings.word_shape import shapes
from engine.errors import TrainingFailed
from engine.settings import REPOSITORY

PUBLIC = Path(__file__).resolve().parent / "public"
PROJECTION = PUBLIC / "minilm-projection.npz"
LAYERS, KEPT = (4, 6), 128
"""Layers of the language model that are used, and whitened dimensions of each."""
VECTOR_NORM, SHAPE_NORM = 6.86, 2.0
"""Divisors of word vectors (typical length in en_core_web_md) and of word-shape bits.

Each part of a token's features then has a length of about 1, so that none dominates the clip norm.
"""
_PROJECTION_FORMAT = 2
"""Version of the fit; increase it when a custom model's projection is fitted differently."""
_SPLITS = ("train", "validation", "test")
_NARROWED = 4096
"""Rows that are rounded at a time: the intermediate results of all rows would take gigabytes."""


def encode(
    corpus: CorpusHandle,
    package_name: str,
    kind: str,
    progress: Callable[[float], None] = lambda share: None,
    own: OwnInContext | None = None,
) -> EncodedCorpus:
    """Return the arrays of a corpus with features of this kind, computed on first use.

    With word vectors only, all tokens share a table of words. With all other features each token has its own row in one
    file, [tokens, F] as :func:`narrow` returns it: the parts of the feature set, those in context last.

    Args:
        corpus: The corpus.
        package_name: Name of the package of word vectors.
        kind: Name of the feature set.
        progress: Called with the share of the features done, 0 to 1; it may raise to stop.
        own: Custom language model instead of MiniLM; its label is part of the file name.

    Raises:
        CorpusError: If the corpus is not available.
        VectorsMissing: If a package or model is not installed.
        StoreError: If the files cannot be read or written.
        TrainingFailed: If the features cannot be computed.
    """
    package = find(package_name)
    encoded = encode_words(corpus, package)
    features = FEATURE_SETS[kind]
    if features.word_vectors_only:
        return encoded
    name = file_name(corpus.checksum, package, kind, own.label if own else MINILM)
    path = corpus.artefacts.get(name)
    if path is None:
        # This takes minutes: of several concurrent runs one computes it, and the others wait.
        with corpus.artefacts.lock(name, lambda: progress(0.0)):
            if corpus.artefacts.get(name) is None:
                with corpus.artefacts.write(name, "The features") as made:
                    np.save(made, _table(encoded, features, corpus, package, made.parent, progress, own))
        path = corpus.artefacts.local_path(name)
    table = np.load(path, mmap_mode="r", allow_pickle=False)
    splits: list[EncodedSplit] = []
    first = 0
    for split in (encoded.train, encoded.validation, encoded.test):
        splits.append(replace(split, rows=np.arange(first, first + len(split.rows), dtype=np.int32)))
        first += len(split.rows)
    train, validation, test = splits
    return EncodedCorpus(train, validation, test, table, encoded.tags, features.copied)


def narrow(values: np.ndarray) -> np.ndarray:
    """Round float32 to bfloat16, the upper 16 bits, as uint16 of the same shape; to nearest, ties to even.

    The relative error of up to 1/256 is negligible for features, and they take half the memory.
    """
    found = np.empty(values.shape, np.uint16)
    for first in range(0, len(values), _NARROWED):
        bits = np.ascontiguousarray(values[first : first + _NARROWED], np.float32).view(np.uint32)
        found[first : first + _NARROWED] = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    return found


def _table(
    encoded: EncodedCorpus,
    features: FeatureSet,
    corpus: CorpusHandle,
    package: VectorPackage,
    near_by: Path,
    progress: Callable[[float], None],
    own: OwnInContext | None = None,
) -> np.ndarray:
    loaded, model = corpus.load(), own.label if own else MINILM
    sentences = [list(sentence.tokens) for name in _SPLITS for sentence in getattr(loaded, name)]
    words = [word for sentence in sentences for word in sentence]
    rows = np.concatenate([getattr(encoded, name).rows for name in _SPLITS])
    parts, missing = {}, {}
    if features.in_context:
        known = KnownSentences(corpus, sentences)
        for part in features.parts:
            if part.in_context:
                shape = len(words), size_of(model) if part.width is None else part.width
                ready = prepared.read(prepared.path_of(corpus.checksum, part.name, package, model), shape)
                parts[part.name] = np.empty(shape, np.uint16) if ready is None else ready
                missing[part.name] = known.fill(parts[part.name], part, package, model) if ready is None else []
        wanted = {name: [sentences[number] for number in numbers] for name, numbers in missing.items() if numbers}
        computed = {}
        if wanted:
            more = with_projection(own, features, progress)
            computed = _in_context(wanted, package.folder, near_by, progress, more)
        for name, numbers in missing.items():
            known.add(parts[name], numbers, computed.pop(name, parts[name][:0]))
    return of_tokens(features, words, encoded.vectors[rows], *parts.values(), language_model=model)


OUT_OF_CONTEXT: dict[str, Callable[[Sequence[str], np.ndarray], np.ndarray]] = {
    "word-vector": lambda words, vectors: vectors / np.float32(VECTOR_NORM),
    "word-shape": lambda words, vectors: shapes(words) / np.float32(SHAPE_NORM),
}
"""Computation of each part that does not depend on the sentence, from words and their vectors: [tokens, width]."""


def of_tokens(
    features: FeatureSet, words: Sequence[str], vectors: np.ndarray, *more: np.ndarray, language_model: str = MINILM
) -> np.ndarray:
    """Return the features of tokens, [tokens, F], as :func:`narrow` returns them.

    Args:
        features: The feature set.
        words: The tokens.
        vectors: Their word vectors, [tokens, 300].
        *more: The parts in context, together or each by itself, as :func:`narrow` returns them.
        language_model: Name of the language model, on whose size the width depends.

    Raises:
        ValueError: If the number of values differs from the declared width.
    """
    parts = [narrow(OUT_OF_CONTEXT[part.name](words, vectors)) for part in features.parts if not part.in_context]
    table: np.ndarray = np.concatenate([*parts, *more], axis=1)
    if table.shape[1] != (width := features.width(language_model)):
        raise ValueError(f"features={features.name!r} have {table.shape[1]} values, expected {width}")
    return table


def _in_context(
    wanted: Mapping[str, Sequence[Sequence[str]]],
    package: Path,
    near_by: Path,
    progress: Callable[[float], None],
    more: Sequence[str] = (),
) -> dict[str, np.ndarray]:
    """Compute contextual parts in a separate process, which frees the memory of the language model and spaCy.

    They are as :func:`narrow` returns them.
    ``wanted`` has the sentences of each part, ``more`` folder, label and projection of a custom model.
    """
    with tempfile.TemporaryDirectory(dir=near_by) as passing:
        made = Path(passing) / "features.npz"
        _separately(wanted, ["parts", str(package)], made, progress, more)
        with np.load(made, allow_pickle=False) as found:
            return {name: found[name] for name in wanted}


def statistics_of(name: str) -> Path:
    """Return the file with the mean [size] and the length of a registered encoder's layer, from public text."""
    return PUBLIC / f"{name}-statistics.npz"


def with_projection(own: OwnInContext | None, features: FeatureSet, progress: Callable[[float], None]) -> Sequence[str]:
    """Return folder, label and projection, or statistics, of a language model; nothing for MiniLM.

    Those of a custom model are fitted once on Wikigold's sentences, like MiniLM's.

    Raises:
        VectorsMissing: If the model is not available.
        CorpusError: If Wikigold is not available.
        StoreError: If the projection cannot be read or written.
        TrainingFailed: If it cannot be computed.
    """
    if own is None:
        return ()
    if own.label in ENCODERS:
        return [str(own.model.folder), own.label, str(statistics_of(own.label))]
    kind = "statistics" if features.any_model else "projection"
    name = f"projections/{own.label}-{'' if kind == 'projection' else f'{kind}-'}{_PROJECTION_FORMAT}.npz"
    told = [str(own.model.folder), own.label]
    if own.artefacts.get(name) is None:
        with own.artefacts.lock(name, lambda: progress(0.0)):
            if own.artefacts.get(name) is None:
                sentences = own.public_sentences()
                with own.artefacts.write(name, "The projection of the language model") as made:
                    _separately(sentences, [kind, "-"], made, progress, [*told, str(made)])
    return [*told, str(own.artefacts.local_path(name))]


def _separately(
    sentences: Sequence[Sequence[str]] | Mapping[str, Sequence[Sequence[str]]],
    what: Sequence[str],
    made: Path,
    progress: Callable[[float], None],
    more: Sequence[str],
) -> None:
    """Run :mod:`engine.embeddings.contextual`, which writes the file ``made``.

    Raises:
        TrainingFailed: If the process fails.
    """
    with tempfile.TemporaryDirectory(dir=made.parent) as passing:
        given = Path(passing) / "sentences.json"
        given.write_text(json.dumps(sentences), encoding="utf-8")
        process = subprocess.Popen(
            [sys.executable, "-m", "engine.embeddings.contextual", *what, str(given), str(made), *more],
            cwd=REPOSITORY,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            for line in process.stdout or ():
                progress(float(line))
            _, said = process.communicate()
        finally:
            process.kill()
            process.wait()
        if process.returncode != 0:
            reason = (said.strip().splitlines() or ["it ended without a message"])[-1]
            raise TrainingFailed(f"The vectors in context could not be computed: {reason}")


@lru_cache(maxsize=2)
def projection(path: Path = PROJECTION) -> dict[str, np.ndarray]:
    """Return mean [size] and directions [size, KEPT] of each used layer, or the statistics of one, from public text."""
    with np.load(path, allow_pickle=False) as found:
        return {name: found[name] for name in found.files}

"""Number of sentences that two corpora have in common, by checksums of all their sentences.

The checksums of a corpus are computed once and cached on disk, so that later comparisons do not read its files.
"""

import zipfile
from functools import lru_cache
from pathlib import Path

import numpy as np

from engine.artifact_store import ArtifactStore
from engine.corpus.deduplication import LEAST_WORDS, checksums, words
from engine.corpus.handle import CorpusHandle
from engine.corpus.sentences import Corpus

_FORMAT = 1
"""Version of the file format; increase it when sentences are compared differently."""
_SHORT_SHARE = 0.1
"""Smallest share of short sentences, of the smaller corpus, that does not coincide by accident."""
Checksums = tuple[np.ndarray, np.ndarray]
"""Distinct checksums of sentences with at least ``LEAST_WORDS`` words, and of shorter ones; uint64, ascending."""


def remember(corpus: CorpusHandle) -> Checksums:
    """Return the checksums of a corpus, computed on first use.

    Raises:
        CorpusError: If the corpus is not available.
        StoreError: If the file cannot be read or written.
    """
    known = remembered(corpus.checksum, corpus.artefacts)
    if known is None:
        long, short = _of(corpus.load())
        with corpus.artefacts.write(_name(corpus.checksum), "The checksums of the sentences") as path:
            np.savez(path, allow_pickle=False, long=long, short=short)
        known = long, short
    return known


def remembered(checksum: str, artefacts: ArtifactStore) -> Checksums | None:
    """Return the checksums of the corpus with this checksum, which need not be available; None if not computed."""
    path = artefacts.get(_name(checksum))
    try:
        return _read(path) if path else None
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None  # damaged: it is computed again


def in_common(first: Checksums, second: Checksums) -> int:
    """Return the number of distinct sentences in both corpora.

    Sentences of fewer than ``LEAST_WORDS`` words coincide by accident. They count with longer ones, or if they are a
    tenth of the smaller corpus.
    """
    long, short = (
        np.intersect1d(one, other, assume_unique=True).size for one, other in zip(first, second, strict=True)
    )
    smaller = min(sum(map(len, first)), sum(map(len, second)))
    return long + short if long or short > _SHORT_SHARE * smaller else 0


def _of(corpus: Corpus) -> Checksums:
    every = [sentence.tokens for part in (corpus.train, corpus.validation, corpus.test) for sentence in part]
    long, short = (
        checksums(tokens for tokens in every if (words(tokens) >= LEAST_WORDS) == is_long) for is_long in (True, False)
    )
    return long, short


def _name(checksum: str) -> str:
    return f"overlaps/{checksum[:16]}-sentences-{_FORMAT}.npz"


@lru_cache(maxsize=32)
def _read(path: Path) -> Checksums:
    with np.load(path, allow_pickle=False) as file:
        return file["long"], file["short"]

"""Sentence fingerprints for deduplication: checksums that reveal nothing else about a sentence."""

import hashlib
import unicodedata
from collections.abc import Iterable, Sequence

import numpy as np

from engine.corpus.sentences import Corpus, Sentence

LEAST_WORDS = 4
"""Fewest words of a sentence that counts as a duplicate between corpora.

Shorter sentences coincide by accident. Among all pairs of eight unrelated corpora the longest coincidence is "I feel
good"; all others are single words and numbers (``python -m benchmarks.corpus_contamination``). A public sentence "5 ."
by another author reveals nothing about the private sentence "5 .": the model learned from the public one without the
private one.
"""


def words(tokens: Iterable[str]) -> int:
    """Return the number of tokens with a letter or a digit."""
    return sum(any(map(str.isalnum, token)) for token in tokens)


def checksum(tokens: Iterable[str]) -> int | None:
    """Return the first 64 bits of SHA-256 over a sentence's letters and digits, or None if it has none.

    Case, white space and punctuation are ignored. A copy in lower case, with other tokens or with other quotation marks
    is the same sentence of the same person. 64 bits suffice: the probability that one of a million sentences collides
    with one of Wikigold's 1,687 is 1e-10.
    """
    text = unicodedata.normalize("NFKC", "".join(tokens)).casefold()
    kept = "".join(filter(str.isalnum, text))
    return int.from_bytes(hashlib.sha256(kept.encode()).digest()[:8], "big") if kept else None


def checksums(sentences: Iterable[Iterable[str]]) -> np.ndarray:
    """Return the distinct checksums of tokenised sentences, uint64, ascending."""
    return np.array(sorted({value for tokens in sentences if (value := checksum(tokens)) is not None}), dtype=np.uint64)


def held_once(corpora: Sequence[Corpus]) -> list[np.ndarray]:
    """Return the training sentences that each client may train on.

    A sentence is excluded if an earlier client trains on it, or if another client validates or tests with it. Sentences
    of fewer than ``LEAST_WORDS`` words are never excluded.

    Args:
        corpora: The corpus of each client.

    Returns:
        For each client, indices of its training sentences, int64, ascending.
    """
    train = [_checksums(corpus.train) for corpus in corpora]
    tests = [_checksums((*corpus.validation, *corpus.test)) for corpus in corpora]
    kept = []
    for client, own in enumerate(train):
        taken = {value for earlier in train[:client] for value in earlier}
        taken |= {value for other, values in enumerate(tests) if other != client for value in values}
        numbers = [number for number, value in enumerate(own) if value is None or value not in taken]
        kept.append(np.array(numbers, dtype=np.int64))
    return kept


def _checksums(sentences: Iterable[Sentence]) -> list[int | None]:
    return [checksum(sentence.tokens) if words(sentence.tokens) >= LEAST_WORDS else None for sentence in sentences]

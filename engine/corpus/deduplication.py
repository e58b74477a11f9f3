"""When two sentences are the same: by checksums, which tell nothing else of them."""

import hashlib
import unicodedata
from collections.abc import Iterable, Sequence

import numpy as np

from engine.corpus.sentences import Corpus, Sentence

LEAST_WORDS = 4
"""Words that a sentence must have for its being in two corpora to count. Shorter ones coincide by chance: among all
pairs of eight corpora that have nothing to do with each other the longest that does is "I feel good", all others are
single words and numbers (``python -m benchmarks.corpus_contamination``). That somebody else wrote "5 ." in public says
nothing of the private sentence "5 .": what was learned from the public one was learned without it."""


def words(tokens: Iterable[str]) -> int:
    """Tokens with a letter or a digit."""
    return sum(any(map(str.isalnum, token)) for token in tokens)


def checksum(tokens: Iterable[str]) -> int | None:
    """The first 64 bits of SHA-256 over the letters and digits of a sentence, None if it has none.

    Case, white space and punctuation are left out: a copy that was lower-cased, cut into other tokens, or has other
    quotation marks is the same sentence of the same person. 64 bits: among a million sentences one agrees by chance
    with one of Wikigold's 1,687 with probability 1e-10.
    """
    text = unicodedata.normalize("NFKC", "".join(tokens)).casefold()
    kept = "".join(filter(str.isalnum, text))
    return int.from_bytes(hashlib.sha256(kept.encode()).digest()[:8], "big") if kept else None


def checksums(sentences: Iterable[Iterable[str]]) -> np.ndarray:
    """Of sentences as tokens: each once, ascending, uint64."""
    return np.array(sorted({found for each in sentences if (found := checksum(each)) is not None}), dtype=np.uint64)


def held_once(corpora: Sequence[Corpus]) -> list[np.ndarray]:
    """Of the training sentences of each of several platforms, numbers of those that it may train on, int64, ascending:
    none that a platform before it trains on, and none that another one validates or tests with. A sentence of fewer
    than ``LEAST_WORDS`` words counts as each platform's own."""
    train = [_checksums(corpus.train) for corpus in corpora]
    tests = [_checksums((*corpus.validation, *corpus.test)) for corpus in corpora]
    kept = []
    for place, own in enumerate(train):
        taken = {each for before in train[:place] for each in before}
        taken |= {each for other, some in enumerate(tests) if other != place for each in some}
        numbers = [number for number, each in enumerate(own) if each is None or each not in taken]
        kept.append(np.array(numbers, dtype=np.int64))
    return kept


def _checksums(sentences: Iterable[Sentence]) -> list[int | None]:
    return [checksum(each.tokens) if words(each.tokens) >= LEAST_WORDS else None for each in sentences]

"""Character ids of words from an alphabet fixed in advance, so that they reveal nothing about any text.

The length of the longest word also stays private.
"""

import unicodedata
from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from engine.corpus.handle import CorpusHandle
from engine.embeddings.encoding import EncodedCorpus
from engine.taggers.char_vocab import ALPHABET, OTHER

LONGEST = 32
"""Number of characters of a word that are read; the rest is cut off."""
_NUMBERS = {character: number for number, character in enumerate(ALPHABET, start=1)}
_SPLITS = ("train", "validation", "test")
_FORMAT = 1
"""Version of the file format; increase it when the files change their meaning."""


def spelt(words: Iterable[str]) -> np.ndarray:
    """Return the character ids of each word, uint8 [words, LONGEST], 0 after its end."""
    every = list(words)
    found = np.zeros((len(every), LONGEST), dtype=np.uint8)
    for row, word in zip(found, every, strict=True):
        plain = (c for c in unicodedata.normalize("NFKD", word) if not unicodedata.combining(c))
        numbers = [_NUMBERS.get(character, OTHER) for character, _ in zip(plain, range(LONGEST), strict=False)]
        row[: len(numbers)] = numbers
    return found


def with_characters(encoded: EncodedCorpus, corpus: CorpusHandle) -> EncodedCorpus:
    """Return the arrays with the characters of each token, computed on first use.

    Raises:
        CorpusError: If the corpus is not available.
        StoreError: If the files cannot be read or written.
    """
    name = f"characters/{corpus.checksum[:16]}-{_FORMAT}"
    if corpus.artefacts.get(name) is None:
        whole = corpus.load()
        numbers: dict[str, int] = {}
        with corpus.artefacts.write(name, "The spelling of the corpus", folder=True) as fresh:
            for split in _SPLITS:
                tokens = (token for sentence in getattr(whole, split) for token in sentence.tokens)
                forms = [numbers.setdefault(token, len(numbers)) for token in tokens]
                np.save(fresh / f"{split}.npy", np.array(forms, dtype=np.int32))
            np.save(fresh / "words.npy", spelt(numbers))
    folder = corpus.artefacts.local_path(name)
    table = np.load(folder / "words.npy", mmap_mode="r", allow_pickle=False)
    train, validation, test = (
        replace(
            getattr(encoded, split),
            forms=np.load(folder / f"{split}.npy", mmap_mode="r", allow_pickle=False),
            spelling=table,
        )
        for split in _SPLITS
    )
    return replace(encoded, train=train, validation=validation, test=test)

"""Output of a public NER model for each token: spaCy's, trained on OntoNotes 5 (MIT licence).

It is part of the package of word vectors. Its entity types are not those of the corpus: they are features, and private
training learns their meaning.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from engine.embeddings.vectors import word_vectors
from engine.errors import VectorsMissing

TYPES = (
    "CARDINAL",
    "DATE",
    "EVENT",
    "FAC",
    "GPE",
    "LANGUAGE",
    "LAW",
    "LOC",
    "MONEY",
    "NORP",
    "ORDINAL",
    "ORG",
    "PERCENT",
    "PERSON",
    "PRODUCT",
    "QUANTITY",
    "TIME",
    "WORK_OF_ART",
)
"""Entity types of OntoNotes 5, in a fixed order."""
SIZE = 2 * len(TYPES)
"""For each type one bit where an entity begins, and one where it continues."""
_PIECE = 512


def found_names(
    package: Path, sentences: Sequence[Sequence[str]], progress: Callable[[float], None] = lambda share: None
) -> np.ndarray:
    """Return the entities found in each sentence separately: float32 [tokens, SIZE], zeros outside entities.

    Args:
        package: Folder of a spaCy model with its NER component.
        sentences: Words of each sentence.
        progress: Called with the share of tokens done, 0 to 1.

    Raises:
        VectorsMissing: If the package has no NER component.
    """
    from spacy.tokens import Doc

    finder, vectors = _finder(package), word_vectors(package)
    place = {kind: number for number, kind in enumerate(TYPES)}
    bits = np.zeros((sum(map(len, sentences)), SIZE), np.float32)
    every, first = iter(sentences), 0
    while piece := list(islice(every, _PIECE)):
        finder.vocab.vectors = vectors.of(word for words in piece for word in words)
        for document in finder.pipe([Doc(finder.vocab, words=list(words)) for words in piece]):
            for name in document.ents:
                bits[first + name.start, 2 * place[name.label_]] = 1
                bits[first + name.start + 1 : first + name.end, 2 * place[name.label_] + 1] = 1
            first += len(document)
        progress(first / max(len(bits), 1))
    return bits


@lru_cache(maxsize=1)
def _finder(package: Path) -> Any:
    """Load the NER model once per process; this takes a second.

    Its own vectors and words would take 250 MB. :func:`found_names` sets the vectors of the words that are read.
    """
    import spacy

    if not (package / "ner").is_dir():
        raise VectorsMissing(f"The package in {package.name} has only word vectors, without spaCy's NER component.")
    return spacy.load(package, enable=["ner"], exclude=["strings", "vectors"])

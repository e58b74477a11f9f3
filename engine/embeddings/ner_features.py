"""What a public name finder says of each token: spaCy's own, trained on OntoNotes 5 (MIT licence), which lies in the
package of the word vectors.

Its types are not those of the corpus: they are told as features, and the private training learns what they mean.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

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
"""Of OntoNotes 5, in a fixed order."""
SIZE = 2 * len(TYPES)
"""For each type one bit where a name begins, and one where it goes on."""
_PIECE = 512


def found_names(
    package: Path, sentences: Sequence[Sequence[str]], progress: Callable[[float], None] = lambda share: None
) -> np.ndarray:
    """The names found in each sentence by itself: float32 [tokens, SIZE], zeros where there is none.

    package: folder of a spaCy model with its name finder. Raises VectorsMissing if it has none.
    """
    from spacy.tokens import Doc

    finder = _finder(package)
    place = {kind: number for number, kind in enumerate(TYPES)}
    told = np.zeros((sum(map(len, sentences)), SIZE), np.float32)
    every, first = iter(sentences), 0
    while piece := list(islice(every, _PIECE)):
        for document in finder.pipe([Doc(finder.vocab, words=list(words)) for words in piece]):
            for name in document.ents:
                told[first + name.start, 2 * place[name.label_]] = 1
                told[first + name.start + 1 : first + name.end, 2 * place[name.label_] + 1] = 1
            first += len(document)
        progress(first / max(len(told), 1))
    return told


@lru_cache(maxsize=1)
def _finder(package: Path) -> Any:
    """It takes a second to load; who tags text after text has it at hand."""
    import spacy

    if not (package / "ner").is_dir():
        raise VectorsMissing(f"The package in {package.name} has word vectors alone, without spaCy's name finder.")
    return spacy.load(package, enable=["ner"])

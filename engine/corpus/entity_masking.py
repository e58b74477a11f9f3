"""A platform's corpus without the words of names that other platforms know too (FedNER, section 4.5).

The paper masks a share of the overlapped entities in the training data and does not say how. Here the words of each
mention are replaced, in the training part, and its tags stay: that there is a name, and of which type, can still be
learned, but not this name. A name is what its mention says, in whatever case and of whatever type.
"""

import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property

from engine.corpus.handle import CorpusHandle
from engine.corpus.sentences import Corpus, Sentence, entities

MASK = "[MASK]"
"""Stands for each word of a masked name."""
_FORMAT = 1
"""Raised when other words are masked: it is part of the checksum."""


class MaskedHandle(CorpusHandle):
    """One of several corpora, with that ``share`` of the names masked that at least two of them train on.

    Which names these are is decided by their letters alone, so a larger share holds those of a smaller one.
    """

    def __init__(self, whole: CorpusHandle, every: Sequence[CorpusHandle], share: float) -> None:
        self.name, self.artefacts, self.expected = whole.name, whole.artefacts, None
        self._whole, self._every, self._share = whole, every, share

    @cached_property
    def checksum(self) -> str:
        """Of what is masked, by which others, and how much of it. Raises CorpusError."""
        others = sorted(each.checksum for each in self._every)
        text = "\n".join([f"masked {_FORMAT}", f"{self._share:g}", self._whole.checksum, *others])
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def synthetic(self) -> bool:
        """Whether it is the embedded one."""
        return self._whole.synthetic

    @cached_property
    def train_sentences(self) -> int:
        """As many as unmasked."""
        return self._whole.train_sentences

    def load(self) -> Corpus:
        """Its sentences. Raises CorpusError with the file and the line."""
        chosen = chosen_names(known_twice([each.load() for each in self._every]), self._share)
        found = self._whole.load()
        return replace(found, train=tuple(masked(sentence, chosen) for sentence in found.train), checksum=self.checksum)

    def share(self) -> None:
        """The corpus as it is, for other machines, which mask it themselves."""
        self._whole.share()


def known_twice(corpora: Sequence[Corpus]) -> set[str]:
    """Names that at least two corpora have in their training parts."""
    each = [{name for sentence in corpus.train for name, _, _ in names(sentence)} for corpus in corpora]
    return {name for number, some in enumerate(each) for other in each[:number] for name in some & other}


def names(sentence: Sentence) -> Iterable[tuple[str, int, int]]:
    """What each mention says, with its first token and the one after its last."""
    for _, start, end in entities(sentence.tags):
        yield " ".join(sentence.tokens[start:end]).casefold(), start, end


def chosen_names(known: Iterable[str], share: float) -> set[str]:
    """That share of the names, rounded up."""
    ordered = sorted(known, key=lambda name: hashlib.sha256(name.encode()).digest())
    return set(ordered[: math.ceil(share * len(ordered))])


def masked(sentence: Sentence, chosen: set[str]) -> Sentence:
    """The sentence with the words of these names replaced."""
    tokens = list(sentence.tokens)
    for name, start, end in names(sentence):
        if name in chosen:
            tokens[start:end] = [MASK] * (end - start)
    return replace(sentence, tokens=tuple(tokens))

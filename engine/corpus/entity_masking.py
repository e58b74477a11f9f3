"""Masking of entities that several clients have in common (FedNER, section 4.5).

The paper masks a share of the overlapped entities in the training data and does not say how. This module replaces the
words of each mention in the training set and keeps its tags. The tagger can still learn that there is an entity, and
its type, but not its words. Two mentions are the same entity if their text agrees, in any case and of any type.
"""

import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property

from engine.corpus.handle import CorpusHandle
from engine.corpus.sentences import Corpus, Sentence, entities

MASK = "[MASK]"
"""Replacement of each word of a masked entity."""
_FORMAT = 1
"""Version of the masking; part of the checksum. Increase it when other words are masked."""


class MaskedHandle(CorpusHandle):
    """One of several corpora, with a share of the entities masked that at least two of them train on.

    The choice depends only on the entities' letters. A larger share therefore includes the entities of a smaller one.

    Args:
        whole: The corpus without masking.
        every: The corpora of all clients.
        share: Share of the common entities to mask, 0 to 1.
    """

    def __init__(self, whole: CorpusHandle, every: Sequence[CorpusHandle], share: float) -> None:
        self.name, self.artefacts, self.expected = whole.name, whole.artefacts, None
        self._whole, self._every, self._share = whole, every, share

    @cached_property
    def checksum(self) -> str:
        """SHA-256 of the corpus, of all clients' corpora, and of the masked share.

        Raises:
            CorpusError: If a corpus is not available.
        """
        others = sorted(handle.checksum for handle in self._every)
        text = "\n".join([f"masked {_FORMAT}", f"{self._share:g}", self._whole.checksum, *others])
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def synthetic(self) -> bool:
        """Whether it is the embedded corpus."""
        return self._whole.synthetic

    @property
    def declared(self) -> bool:
        """Whether its entity types are public or declared. Raises CorpusError."""
        return self._whole.declared

    @cached_property
    def train_sentences(self) -> int:
        """Number of training sentences, the same as without masking."""
        return self._whole.train_sentences

    def load(self) -> Corpus:
        """Return the corpus with its masked sentences.

        Raises:
            CorpusError: If a file is missing or malformed; names the file and the line.
        """
        chosen = chosen_names(known_twice([handle.load() for handle in self._every]), self._share)
        corpus = self._whole.load()
        return replace(
            corpus, train=tuple(masked(sentence, chosen) for sentence in corpus.train), checksum=self.checksum
        )

    def share(self) -> None:
        """Store a copy without masking for other machines, which mask it themselves."""
        self._whole.share()


def known_twice(corpora: Sequence[Corpus]) -> set[str]:
    """Return the entities that at least two corpora have in their training sets."""
    by_corpus = [{name for sentence in corpus.train for name, _, _ in names(sentence)} for corpus in corpora]
    return {name for number, own in enumerate(by_corpus) for other in by_corpus[:number] for name in own & other}


def names(sentence: Sentence) -> Iterable[tuple[str, int, int]]:
    """Yield the case-folded text of each mention, its first token and the token after its last one."""
    for _, start, end in entities(sentence.tags):
        yield " ".join(sentence.tokens[start:end]).casefold(), start, end


def chosen_names(known: Iterable[str], share: float) -> set[str]:
    """Return this share of the entities, rounded up."""
    ordered = sorted(known, key=lambda name: hashlib.sha256(name.encode()).digest())
    return set(ordered[: math.ceil(share * len(ordered))])


def masked(sentence: Sentence, chosen: set[str]) -> Sentence:
    """Return the sentence with the words of these entities replaced."""
    tokens = list(sentence.tokens)
    for name, start, end in names(sentence):
        if name in chosen:
            tokens[start:end] = [MASK] * (end - start)
    return replace(sentence, tokens=tuple(tokens))

"""The corpora of several clients as one: each keeps its own sentences, entity types and checksum.

The name joins their names: ``"wnut17 + btc"``. Their training sentences are numbered consecutively, client by client.
If several clients have the same sentence, only the first can train on it, or none if another client tests with it. With
privacy of whole clients, no sentence is excluded.

Entities that several clients have in common can be masked (FedNER, section 4.5). The paper masks a share of the
overlapped entities in the training data and does not say how. This module replaces the words of each mention in the
training set and keeps its tags. The tagger can still learn that there is an entity, and its type, but not its words.
Two mentions are the same entity if their text agrees, in any case and of any type.
"""

import hashlib
import json
import math
import zipfile
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import numpy as np

from engine.artifact_store import ArtifactStore
from engine.config import JOIN
from engine.corpus.deduplication import held_once
from engine.corpus.handle import COPIES, CorpusHandle
from engine.corpus.sentence_metadata import Layout
from engine.corpus.sentences import Corpus, Sentence, entities
from engine.errors import CorpusError, StoreError
from engine.settings import Settings

_FORMAT = 1
"""Version of the deduplication; part of every checksum. Increase it when other sentences are excluded."""
MASK = "[MASK]"
"""Replacement of each word of a masked entity."""
_MASK_FORMAT = 1
"""Version of the masking; part of the checksum. Increase it when other words are masked."""


class JoinedCorpora:
    """Several corpora with the interface of :class:`CorpusHandle`; ``parts`` has the handle of each.

    If the parts of the expected checksum are known, each part is compared with its own checksum. A missing part is then
    taken from the copy that another machine left.

    Args:
        name: Names or paths, joined by ``JOIN``.
        settings: Folders in which corpora are searched.
        expected: Checksum of all corpora together, or None for any.
        masked: Share of the entities common to several clients that are masked in training.
        deduplicated: Whether sentences are excluded that another client has. Otherwise no client's sentences change
            those of another, as privacy of whole clients requires.
    """

    def __init__(
        self,
        name: str,
        settings: Settings,
        expected: str | None = None,
        masked: float = 0.0,
        deduplicated: bool = True,
    ) -> None:
        self.name, self.expected, self._deduplicated = name, expected, deduplicated
        self.artefacts: ArtifactStore = settings.artefacts
        names, shared = name.split(JOIN), self._shared() if expected else None
        checksums = shared if shared and len(shared) == len(names) else [None] * len(names)
        self._unmasked = tuple(
            CorpusHandle(part, settings, checksum) for part, checksum in zip(names, checksums, strict=True)
        )
        self.parts = self._unmasked
        if masked:
            self.parts = tuple(MaskedHandle(part, self._unmasked, masked) for part in self._unmasked)

    @property
    def synthetic(self) -> bool:
        """Whether all parts are the embedded corpus."""
        return all(part.synthetic for part in self.parts)

    @property
    def declared(self) -> bool:
        """Whether all parts' entity types are public or declared. Raises CorpusError."""
        return all(part.declared for part in self._unmasked)

    @cached_property
    def checksum(self) -> str:
        """SHA-256 of the parts' checksums in their order, in hexadecimal.

        Raises:
            CorpusError: If a part is not available, or the checksum is not the expected one. The message lists the
                problem of every part, so that users can fix all of them at once.
        """
        problems = []
        for part in self._unmasked:
            try:
                _ = part.checksum
            except CorpusError as error:
                problems.append(str(error).removesuffix("."))
        if problems:
            raise CorpusError("; ".join(dict.fromkeys(problems)))
        held_once = self._checksum(str(_FORMAT))
        if self.expected == held_once:  # up to version 0.7.0, clients never kept what another client has
            self._deduplicated = True
        checksum = held_once if self._deduplicated else self._checksum("all sentences")
        if self.expected not in (None, checksum):
            raise CorpusError(f"corpus={self.name!r} was changed since the run was requested; start it again.")
        return checksum

    def _checksum(self, kept: str) -> str:
        parts = [f"platforms {kept}", *(part.checksum for part in self.parts)]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()

    @property
    def split_by_position(self) -> bool:
        """Whether this program splits a part of it; see :attr:`CorpusHandle.split_by_position`."""
        return any(part.split_by_position for part in self._unmasked)

    @cached_property
    def train_sentences(self) -> int:
        """Number of training sentences of all clients.

        Raises:
            CorpusError: If a corpus is not available.
        """
        _ = self.checksum  # some sizes are known without the files, but not which sentences are excluded
        return sum(part.train_sentences for part in self.parts)

    @cached_property
    def own(self) -> tuple[np.ndarray, ...]:
        """For each client, indices of the sentences that it trains on, int64, ascending.

        All, or those of :func:`engine.corpus.deduplication.held_once`, which are computed once and cached.

        Raises:
            CorpusError: If a corpus is not available.
            StoreError: If the cached indices cannot be read or written.
        """
        checksum = self.checksum  # states the problem of every part, and of an earlier version
        if not self._deduplicated:
            borders = np.cumsum([part.train_sentences for part in self.parts])
            return tuple(np.split(np.arange(borders[-1]), borders[:-1]))
        name = f"platforms/{checksum[:16]}-{_FORMAT}.npz"
        path = self.artefacts.get(name)
        try:
            if path:
                return self._read(path)
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
            pass  # damaged: computed again below
        first, indices = 0, []
        for part, own in zip(self._unmasked, held_once([part.load() for part in self._unmasked]), strict=True):
            indices.append(first + own)
            first += part.train_sentences
        with self.artefacts.write(name, "The sentences shared by clients") as target:
            np.savez(target, allow_pickle=False, **{str(number): array for number, array in enumerate(indices)})
        return self._read(self.artefacts.local_path(name))

    def _read(self, path: Path) -> tuple[np.ndarray, ...]:
        with np.load(path, allow_pickle=False) as file:
            return tuple(file[str(number)] for number in range(len(self.parts)))

    @cached_property
    def layout(self) -> Layout:
        """Metadata of all training sentences.

        Entity types are prefixed by their client, since two clients may use one name for different types.

        Raises:
            CorpusError: If a corpus is not available.
            StoreError: If the cached metadata cannot be read or written.
        """
        layouts = [part.layout for part in self.parts]
        types = tuple(
            f"{part.name}: {kind}" for part, layout in zip(self.parts, layouts, strict=True) for kind in layout.types
        )
        entities = np.zeros((sum(map(len, layouts)), len(types)), dtype=np.int32)
        row = column = 0
        for layout in layouts:
            entities[row : row + len(layout), column : column + len(layout.types)] = layout.entities
            row, column = row + len(layout), column + len(layout.types)
        tokens, digests = (np.concatenate([getattr(each, name) for each in layouts]) for name in ("tokens", "digests"))
        return Layout(tokens, entities, types, None, None, (), digests)

    def load(self) -> Corpus:
        """Raise CorpusError: tags of one client have no meaning for another."""
        raise CorpusError(
            f"corpus={self.name!r} joins several corpora with their own tags: they cannot be read as one corpus, "
            "only trained as clients of a federation."
        )

    def share(self) -> None:
        """Store copies for other machines; see :meth:`CorpusHandle.share`.

        Raises:
            CorpusError: If a corpus is not available.
            StoreError: If a copy cannot be written.
        """
        for part in self.parts:
            part.share()
        name = self._list_name(self.checksum)
        if self.artefacts.elsewhere and self.artefacts.get(name) is None:
            with self.artefacts.write(name, "The list of the clients' corpora") as path:
                path.write_text(json.dumps([part.checksum for part in self._unmasked]), encoding="utf-8")

    def _shared(self) -> list[str] | None:
        """Return the checksum of each part, as stored by the machine that requested the run."""
        path = self.artefacts.get(self._list_name(str(self.expected)))
        if path is None:
            return None
        try:
            return [str(checksum) for checksum in json.loads(path.read_text(encoding="utf-8"))]
        except (OSError, ValueError, TypeError) as error:
            raise StoreError(f"The list of the corpora of {self.name!r} is damaged: {error}.") from error

    @staticmethod
    def _list_name(checksum: str) -> str:
        return f"{COPIES}/{checksum[:16]}-platforms.json"


class MaskedHandle(CorpusHandle):
    """One of several corpora, with a share of the entities masked that at least two of them train on.

    The choice depends only on the entities' letters. A larger share therefore includes the entities of a smaller one.

    Args:
        unmasked: The corpus without masking.
        every: The corpora of all clients.
        share: Share of the common entities to mask, 0 to 1.
    """

    def __init__(self, unmasked: CorpusHandle, every: Sequence[CorpusHandle], share: float) -> None:
        self.name, self.artefacts, self.expected = unmasked.name, unmasked.artefacts, None
        self._unmasked, self._every, self._share = unmasked, every, share

    @cached_property
    def checksum(self) -> str:
        """SHA-256 of the corpus, of all clients' corpora, and of the masked share.

        Raises:
            CorpusError: If a corpus is not available.
        """
        others = sorted(handle.checksum for handle in self._every)
        text = "\n".join([f"masked {_MASK_FORMAT}", f"{self._share:g}", self._unmasked.checksum, *others])
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def text_checksum(self) -> str:
        """Its checksum: its sentences are not those of the corpus, and no other corpus may use what they became."""
        return self.checksum

    def readable_texts(self) -> set[str]:
        """Return the text checksums of corpora that every user of this one may use, too."""
        return {self.checksum, *self._unmasked.readable_texts()}

    @property
    def synthetic(self) -> bool:
        """Whether it is the embedded corpus."""
        return self._unmasked.synthetic

    @property
    def declared(self) -> bool:
        """Whether its entity types are public or declared. Raises CorpusError."""
        return self._unmasked.declared

    @cached_property
    def train_sentences(self) -> int:
        """Number of training sentences, the same as without masking."""
        return self._unmasked.train_sentences

    def load(self) -> Corpus:
        """Return the corpus with its masked sentences.

        Raises:
            CorpusError: If a file is missing or malformed; names the file and the line.
        """
        chosen = chosen_names(known_twice([handle.load() for handle in self._every]), self._share)
        corpus = self._unmasked.load()
        return replace(
            corpus, train=tuple(masked(sentence, chosen) for sentence in corpus.train), checksum=self.checksum
        )

    def share(self) -> None:
        """Store a copy without masking for other machines, which mask it themselves."""
        self._unmasked.share()


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

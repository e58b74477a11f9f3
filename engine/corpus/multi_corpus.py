"""The corpora of several platforms, as one: each has its own sentences, its own entity types and its own checksum.

Called by their names, joined: ``"wnut17 + btc"``. Their training sentences are counted through, one platform after
another. A sentence that several have is trained on by the first of them alone, and by none if another tests with it.
"""

import hashlib
import json
import zipfile
from functools import cached_property
from pathlib import Path

import numpy as np

from engine.artifact_store import ArtifactStore
from engine.config import JOIN
from engine.corpus.deduplication import held_once
from engine.corpus.entity_masking import MaskedHandle
from engine.corpus.handle import COPIES, CorpusHandle
from engine.corpus.sentence_metadata import Layout
from engine.corpus.sentences import Corpus
from engine.errors import CorpusError, StoreError
from engine.settings import Settings

_FORMAT = 1
"""Raised when other sentences are kept apart: it is part of every checksum."""


class JoinedCorpora:
    """What is asked of a :class:`CorpusHandle`, of several corpora together; ``parts`` has the handle of each.

    expected: the checksum of all together; where it is known which corpora that was, each of them is held against its
    own, and taken from what another machine left. masked: share of the names known to several platforms that are masked
    in training, see :mod:`engine.corpus.entity_masking`.
    """

    def __init__(self, name: str, settings: Settings, expected: str | None = None, masked: float = 0.0) -> None:
        self.name, self.expected = name, expected
        self.artefacts: ArtifactStore = settings.artefacts
        names, each = name.split(JOIN), self._shared() if expected else None
        checksums = each if each and len(each) == len(names) else [None] * len(names)
        self._whole = tuple(
            CorpusHandle(part, settings, checksum) for part, checksum in zip(names, checksums, strict=True)
        )
        self.parts = self._whole
        if masked:
            self.parts = tuple(MaskedHandle(part, self._whole, masked) for part in self._whole)

    @property
    def synthetic(self) -> bool:
        """Whether all are the embedded one."""
        return all(part.synthetic for part in self.parts)

    @cached_property
    def checksum(self) -> str:
        """SHA-256 in hexadecimal of the parts' checksums, in their order. Raises CorpusError with what is wrong with
        each part: who fetches one that is missing should not be told of the next one only then."""
        problems = []
        for part in self._whole:
            try:
                _ = part.checksum
            except CorpusError as error:
                problems.append(str(error).removesuffix("."))
        if problems:
            raise CorpusError("; ".join(dict.fromkeys(problems)))
        parts = [f"platforms {_FORMAT}", *(part.checksum for part in self.parts)]
        found = hashlib.sha256("\n".join(parts).encode()).hexdigest()
        if self.expected not in (None, found):
            raise CorpusError(f"corpus={self.name!r} was changed since the run was asked for; start it again.")
        return found

    @cached_property
    def train_sentences(self) -> int:
        """How many sentences there are to train on, on all platforms. Raises CorpusError."""
        _ = self.checksum  # some sizes are known without the files, but not what can be trained on
        return sum(part.train_sentences for part in self.parts)

    @cached_property
    def own(self) -> tuple[np.ndarray, ...]:
        """Of each platform, the numbers of those that it trains on, int64, ascending: see
        :func:`engine.corpus.deduplication.held_once`. Worked out once for these corpora. Raises CorpusError,
        StoreError."""
        name = f"platforms/{self.checksum[:16]}-{_FORMAT}.npz"
        path = self.artefacts.get(name)
        try:
            if path:
                return self._read(path)
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
            pass  # made anew
        first, kept = 0, []
        for part, own in zip(self._whole, held_once([part.load() for part in self._whole]), strict=True):
            kept.append(first + own)
            first += part.train_sentences
        with self.artefacts.write(name, "What platforms have in common") as made:
            np.savez(made, **{str(number): each for number, each in enumerate(kept)})
        return self._read(self.artefacts.local_path(name))

    def _read(self, path: Path) -> tuple[np.ndarray, ...]:
        with np.load(path, allow_pickle=False) as file:
            return tuple(file[str(number)] for number in range(len(self.parts)))

    @cached_property
    def layout(self) -> Layout:
        """Of all training sentences; a type is called by its platform too, since two platforms may mean different
        things by one word. Raises CorpusError, StoreError."""
        found = [part.layout for part in self.parts]
        types = tuple(
            f"{part.name}: {kind}" for part, each in zip(self.parts, found, strict=True) for kind in each.types
        )
        entities = np.zeros((sum(map(len, found)), len(types)), dtype=np.int32)
        row = column = 0
        for each in found:
            entities[row : row + len(each), column : column + len(each.types)] = each.entities
            row, column = row + len(each), column + len(each.types)
        return Layout(np.concatenate([each.tokens for each in found]), entities, types, None, None, ())

    def load(self) -> Corpus:
        """Raises CorpusError: tags of one platform mean nothing on another."""
        raise CorpusError(
            f"corpus={self.name!r} are several with tags of their own: they cannot be read as one, only trained as "
            "platforms of a federation."
        )

    def share(self) -> None:
        """See :meth:`CorpusHandle.share`. Raises CorpusError, StoreError."""
        for part in self.parts:
            part.share()
        name = self._list(self.checksum)
        if self.artefacts.elsewhere and self.artefacts.get(name) is None:
            with self.artefacts.write(name, "The list of the platforms' corpora") as path:
                path.write_text(json.dumps([part.checksum for part in self._whole]), encoding="utf-8")

    def _shared(self) -> list[str] | None:
        """The checksum of each part, as the machine that asked for the run left them."""
        path = self.artefacts.get(self._list(str(self.expected)))
        if path is None:
            return None
        try:
            return [str(each) for each in json.loads(path.read_text(encoding="utf-8"))]
        except (OSError, ValueError, TypeError) as error:
            raise StoreError(f"The list of the corpora of {self.name!r} is damaged: {error}.") from error

    @staticmethod
    def _list(checksum: str) -> str:
        return f"{COPIES}/{checksum[:16]}-platforms.json"

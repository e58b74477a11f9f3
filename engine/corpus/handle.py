"""A handle that locates one corpus once and answers all questions about it."""

import json
import shutil
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, replace
from functools import cached_property

import numpy as np

from engine.artifact_store import ArtifactStore
from engine.config import SYNTHETIC
from engine.corpus import files, loader
from engine.corpus.catalogue import NAMED
from engine.corpus.declared_types import DeclaredTypes
from engine.corpus.files import Located, Source
from engine.corpus.sentence_metadata import Layout, kept_layout
from engine.corpus.sentences import Corpus
from engine.errors import CorpusError, StoreError
from engine.settings import Settings

COPIES, _LIST = "corpora-by-checksum", "list.json"


def split_by_program(name: str) -> bool:
    """Return whether this program splits a corpus of the catalogue, or one with the number of a split.

    For other corpora, whose files decide, it returns False; see :attr:`CorpusHandle.split_by_position`.
    """
    base, split = files.base_name_and_split(name)
    entry = NAMED.get(base)
    return split is not None or (entry is not None and _lacks_split(file.part for file in entry.files))


def _lacks_split(parts: Iterable[str]) -> bool:
    """Return whether files with these parts of a corpus leave the validation set to this program."""
    found = set(parts)
    return "whole" in found or "validation" not in found


class CorpusHandle:
    """A corpus by its name, or by the path of a file (split 80/10/10 by a fixed seed) or folder.

    The handle searches for the files on first use and caches the result. It serves one task and does not see later
    changes. If the files are missing, it uses the copy that :meth:`share` left for other machines under the expected
    checksum.

    Args:
        name: Name or path of the corpus.
        settings: Folders in which corpora are searched.
        expected: Checksum that the corpus must have, or None for any.
    """

    def __init__(self, name: str, settings: Settings, expected: str | None = None) -> None:
        self.name, self.expected = name, expected
        self.artefacts: ArtifactStore = settings.artefacts
        self._settings = settings

    @property
    def parts(self) -> "tuple[CorpusHandle, ...]":
        """The corpora that it consists of: itself."""
        return (self,)

    @property
    def synthetic(self) -> bool:
        """Whether it is the embedded corpus."""
        return self.name == SYNTHETIC

    @cached_property
    def _located(self) -> Located:
        try:
            return files.locate(self.name, self._settings)
        except CorpusError:
            shared = self._shared() if self.expected else None
            if shared is None:
                raise
            return shared

    @cached_property
    def checksum(self) -> str:
        """SHA-256 of the content and of how it is read, in hexadecimal; the sentences are not parsed.

        Raises:
            CorpusError: If the corpus is not available, or has another checksum than expected.
        """
        if self.synthetic:
            from engine.corpus import synthetic

            checksum = synthetic.CHECKSUM
        else:
            checksum = files.checksum(self._located)
        if self.expected not in (None, checksum):
            raise CorpusError(f"corpus={self.name!r} was changed since the run was requested; start it again.")
        return checksum

    @cached_property
    def text_checksum(self) -> str:
        """Checksum without the number of the split, which all splits of a corpus share: they have the same sentences.

        Raises:
            CorpusError: If the corpus is not available.
        """
        return self.checksum if self.synthetic else files.checksum(replace(self._located, split=None))

    def readable_texts(self) -> set[str]:
        """Return the text checksums of corpora that every user of this one may use, too: at least of public ones.

        What was derived from their sentences can be used for this corpus. Its users then notice, by the time that this
        saves, which sentences are the same, and that reveals nothing of a corpus that one of them may not use.

        Raises:
            CorpusError: If the corpus is not available.
        """
        name, settings = files.base_name_and_split(self.name)[0], files.unrestricted(self._settings)
        names = {SYNTHETIC, *NAMED}
        if name not in names and settings.shared_with is not None:
            names |= settings.shared_with(name, files.own_files(settings))
        found = {self.text_checksum}
        for other in names:
            with suppress(CorpusError):
                found.add(CorpusHandle(other, settings).text_checksum)
        return found

    @property
    def declared(self) -> bool:
        """Whether its entity types are public or declared, not read from its sentences. Raises CorpusError."""
        named = files.base_name_and_split(self.name)[0] in NAMED
        return self.synthetic or named or self._located.types_are_declared

    @property
    def split_by_position(self) -> bool:
        """Whether this program splits its sentences, so that one more sentence may move others to another part.

        Raises:
            CorpusError: If it has no entry in the catalogue and is not available.
        """
        if self.synthetic:
            return False
        name, split = files.base_name_and_split(self.name)
        if split is not None or name in NAMED:
            return split_by_program(self.name)
        return _lacks_split(file.part for file in self._located.files)

    @cached_property
    def train_sentences(self) -> int:
        """Number of training sentences; also known for named corpora that are not available.

        Raises:
            CorpusError: If it is not known.
        """
        if self.synthetic:
            from engine.corpus import synthetic

            return synthetic.SIZES["train"]
        entry = NAMED.get(self.name)
        return entry.train_sentences if entry else len(self.layout)

    @property
    def own(self) -> tuple[np.ndarray, ...]:
        """Indices of the training sentences that it trains on: all of them.

        Raises:
            CorpusError: If the corpus is not available.
        """
        return (np.arange(self.train_sentences),)

    @cached_property
    def layout(self) -> Layout:
        """Metadata of each training sentence, without its words.

        Raises:
            CorpusError: If the corpus is not available.
            StoreError: If the cached metadata cannot be read or written.
        """
        return kept_layout(self.checksum, self.load, self.artefacts)

    def load(self) -> Corpus:
        """Return the corpus with its sentences.

        Raises:
            CorpusError: If a file is missing or malformed; names the file and the line.
        """
        if self.synthetic:
            from engine.corpus import synthetic

            return synthetic.corpus()
        return loader.read(self._located)

    def share(self) -> None:
        """Store a copy for workers on other machines, by checksum, unless they can find it by its name.

        It does nothing where all runs are computed on this machine.

        Raises:
            CorpusError: If the corpus is not available.
            StoreError: If the copy cannot be written.
        """
        if not self.artefacts.elsewhere or self.synthetic or files.base_name_and_split(self.name)[0] in NAMED:
            return
        name = self._copy_name(self.checksum)
        if self.artefacts.get(name) is not None:
            return
        with self.artefacts.write(name, "The copy of the corpus for other machines", folder=True) as target:
            rows = []
            for number, source in enumerate(self._located.files):
                shutil.copyfile(source.path, target / f"{number}.conll")
                rows.append({name: getattr(source, name) for name in ("part", "title", "form", "section")})
            (target / _LIST).write_text(
                json.dumps(
                    {
                        "name": self._located.name,
                        "files": rows,
                        "split": self._located.split,
                        "declared": self._located.declared and asdict(self._located.declared),
                    }
                ),
                encoding="utf-8",
            )

    def _shared(self) -> Located | None:
        name = self._copy_name(str(self.expected))
        try:
            folder = self.artefacts.get(name)
            if folder is None:
                return None
            contents = json.loads((folder / _LIST).read_text(encoding="utf-8"))
            sources = tuple(
                Source(
                    folder / f"{number}.conll", str(row["part"]), str(row["title"]), str(row["form"]), row["section"]
                )
                for number, row in enumerate(contents["files"])
            )
            declared = contents.get("declared")
            return Located(
                str(contents["name"]),
                "shared by another machine",
                sources,
                split=contents.get("split"),
                declared=declared and DeclaredTypes(tuple(declared["types"]), declared["undeclared"]),
            )
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise StoreError(f"The copy of corpus={self.name!r} for this machine is damaged: {error}.") from error

    @staticmethod
    def _copy_name(checksum: str) -> str:
        return f"{COPIES}/{checksum[:16]}"

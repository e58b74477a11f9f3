"""One corpus, found once: what everybody below asks of it is answered from here."""

import json
import shutil
from functools import cached_property

import numpy as np

from engine.artifact_store import ArtifactStore
from engine.config import SYNTHETIC
from engine.corpus import files, loader
from engine.corpus.catalogue import NAMED
from engine.corpus.files import Located, Source
from engine.corpus.sentence_metadata import Layout, kept_layout
from engine.corpus.sentences import Corpus
from engine.errors import CorpusError, StoreError
from engine.settings import Settings

COPIES, _LIST = "corpora-by-checksum", "list.json"


class CorpusHandle:
    """A corpus by its name, or by the path of a file (split 80/10/10 by a fixed seed) or folder.

    Its files are looked for when they are first needed, and what was found is kept: a handle is made for one task and
    sees no later change. expected: the checksum that it must have; where its files are not here, those that
    :meth:`share` left for other machines under this checksum are taken.
    """

    def __init__(self, name: str, settings: Settings, expected: str | None = None) -> None:
        self.name, self.expected = name, expected
        self.artefacts: ArtifactStore = settings.artefacts
        self._settings = settings

    @property
    def parts(self) -> "tuple[CorpusHandle, ...]":
        """The corpora that it is made of: itself."""
        return (self,)

    @property
    def synthetic(self) -> bool:
        """Whether it is the embedded one."""
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
        """SHA-256 in hexadecimal of what it holds and how it is read, without reading its sentences. Raises CorpusError
        if it is not here, or not the one that is expected."""
        if self.synthetic:
            from engine.corpus import synthetic

            found = synthetic.CHECKSUM
        else:
            found = files.checksum(self._located)
        if self.expected not in (None, found):
            raise CorpusError(f"corpus={self.name!r} was changed since the run was asked for; start it again.")
        return found

    @cached_property
    def train_sentences(self) -> int:
        """How many sentences there are to train on; known of named corpora that are not here too. Raises
        CorpusError."""
        if self.synthetic:
            from engine.corpus import synthetic

            return synthetic.SIZES["train"]
        entry = NAMED.get(self.name)
        return entry.train_sentences if entry else len(self.layout)

    @property
    def own(self) -> tuple[np.ndarray, ...]:
        """The numbers of the training sentences that it trains on, which are all. Raises CorpusError."""
        return (np.arange(self.train_sentences),)

    @cached_property
    def layout(self) -> Layout:
        """What is known of each training sentence without its words. Raises CorpusError, StoreError."""
        return kept_layout(self.checksum, self.load, self.artefacts)

    def load(self) -> Corpus:
        """Its sentences. Raises CorpusError with the file and the line."""
        if self.synthetic:
            from engine.corpus import synthetic

            return synthetic.corpus()
        return loader.read(self._located)

    def share(self) -> None:
        """Leave a copy for workers on other machines, by checksum, unless they have it by its name; nothing happens
        where all runs are computed here. Raises CorpusError, StoreError."""
        if not self.artefacts.elsewhere or self.synthetic or files.base_name_and_split(self.name)[0] in NAMED:
            return
        name = self._copy(self.checksum)
        if self.artefacts.get(name) is not None:
            return
        with self.artefacts.write(name, "The copy of the corpus for other machines", folder=True) as made:
            rows = []
            for number, source in enumerate(self._located.files):
                shutil.copyfile(source.path, made / f"{number}.conll")
                rows.append({name: getattr(source, name) for name in ("part", "title", "form", "section")})
            (made / _LIST).write_text(
                json.dumps({"name": self._located.name, "files": rows, "split": self._located.split}), encoding="utf-8"
            )

    def _shared(self) -> Located | None:
        name = self._copy(str(self.expected))
        try:
            folder = self.artefacts.get(name)
            if folder is None:
                return None
            kept = json.loads((folder / _LIST).read_text(encoding="utf-8"))
            sources = tuple(
                Source(
                    folder / f"{number}.conll", str(row["part"]), str(row["title"]), str(row["form"]), row["section"]
                )
                for number, row in enumerate(kept["files"])
            )
            return Located(str(kept["name"]), "shared by another machine", sources, split=kept.get("split"))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise StoreError(f"The copy of corpus={self.name!r} for this machine is damaged: {error}.") from error

    @staticmethod
    def _copy(checksum: str) -> str:
        return f"{COPIES}/{checksum[:16]}"

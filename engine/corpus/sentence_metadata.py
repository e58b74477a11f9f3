"""What is known of each training sentence without its words: enough to split a corpus among clients, and to show it.

Made once for each corpus and kept on disk, so that neither a page nor a worker parses the files for it again.
"""

import json
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from engine.artifact_store import ArtifactStore
from engine.corpus.sentences import Corpus

_FORMAT = 1
"""Raised when the arrays below change their meaning."""


@dataclass(frozen=True)
class Layout:
    """Training sentences as numbers, [n] each unless said.

    tokens: how many. entities: how many of each type, [n, types]. types: their names. documents: the number of each
    sentence's document, or None. sections: the number of its section, or None; section_names: what they are called.
    """

    tokens: np.ndarray
    entities: np.ndarray
    types: tuple[str, ...]
    documents: np.ndarray | None
    sections: np.ndarray | None
    section_names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.tokens)

    def where(self, chosen: np.ndarray) -> "Layout":
        """The chosen sentences (int [m]) in that order."""
        documents, sections = (None if a is None else a[chosen] for a in (self.documents, self.sections))
        return Layout(self.tokens[chosen], self.entities[chosen], self.types, documents, sections, self.section_names)


def kept_layout(checksum: str, load: Callable[[], Corpus], artefacts: ArtifactStore) -> Layout:
    """The layout of the training part of the corpus with this checksum, made on first use: only then is it loaded.
    Raises CorpusError, StoreError."""
    name = f"layouts/{checksum[:16]}-{_FORMAT}.npz"
    path = artefacts.get(name)
    try:
        if path:
            return _read(path)
    except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile):
        _read.cache_clear()
    _write(of_corpus(load()), name, artefacts)
    return _read(artefacts.local_path(name))


def of_corpus(whole: Corpus) -> Layout:
    """The layout of sentences that are at hand."""
    place = {name: number for number, name in enumerate(whole.entity_types)}
    entities = np.zeros((len(whole.train), len(place)), dtype=np.int32)
    for number, sentence in enumerate(whole.train):
        for tag in sentence.tags:
            if tag.startswith("B-"):
                entities[number, place[tag[2:]]] += 1
    documents = None
    if all(sentence.document is not None for sentence in whole.train):
        documents = np.array([sentence.document for sentence in whole.train], dtype=np.int64)
    names = tuple(sorted(set(whole.sections or ())))
    sections = np.array([names.index(name) for name in whole.sections], dtype=np.int64) if whole.sections else None
    tokens = np.array([len(sentence.tokens) for sentence in whole.train], dtype=np.int64)
    return Layout(tokens, entities, whole.entity_types, documents, sections, names)


def _write(found: Layout, name: str, artefacts: ArtifactStore) -> None:
    arrays = {"tokens": found.tokens, "entities": found.entities}
    arrays |= {} if found.documents is None else {"documents": found.documents}
    arrays |= {} if found.sections is None else {"sections": found.sections}
    names = json.dumps({"types": found.types, "sections": found.section_names})
    with artefacts.write(name, "The layout of the corpus") as path:
        np.savez(path, names=np.array(names), **arrays)


@lru_cache(maxsize=8)
def _read(path: Path) -> Layout:
    with np.load(path, allow_pickle=False) as file:
        names = json.loads(str(file["names"]))
        return Layout(
            tokens=file["tokens"],
            entities=file["entities"],
            types=tuple(names["types"]),
            documents=file["documents"] if "documents" in file.files else None,
            sections=file["sections"] if "sections" in file.files else None,
            section_names=tuple(names["sections"]),
        )

"""Metadata of each training sentence, without its words.

It suffices to split a corpus among clients and to show its structure. It is computed once for each corpus and cached on
disk, so that neither pages nor workers parse the files again.
"""

import hashlib
import json
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from engine.artifact_store import ArtifactStore
from engine.corpus.sentences import Corpus, Sentence

_FORMAT = 2
"""Version of the file format; increase it when the arrays below change their meaning."""


@dataclass(frozen=True)
class Layout:
    """Metadata of n training sentences.

    Attributes:
        tokens: Number of tokens, [n].
        entities: Number of entities of each type, [n, types].
        types: Names of the entity types.
        documents: Number of each sentence's document, [n], or None.
        sections: Number of each sentence's section, [n], or None.
        section_names: Names of the sections.
        digests: Digest of each sentence's content and of how many equal sentences precede it, uint64 [n]. Another
            sentence changes none of these, up to the order of equal sentences.
    """

    tokens: np.ndarray
    entities: np.ndarray
    types: tuple[str, ...]
    documents: np.ndarray | None
    sections: np.ndarray | None
    section_names: tuple[str, ...]
    digests: np.ndarray

    def __len__(self) -> int:
        return len(self.tokens)

    def where(self, chosen: np.ndarray) -> "Layout":
        """Return the metadata of the chosen sentences, int [m], in that order."""
        documents, sections = (None if a is None else a[chosen] for a in (self.documents, self.sections))
        return Layout(
            self.tokens[chosen],
            self.entities[chosen],
            self.types,
            documents,
            sections,
            self.section_names,
            self.digests[chosen],
        )


def kept_layout(checksum: str, load: Callable[[], Corpus], artefacts: ArtifactStore) -> Layout:
    """Return the metadata of the training set of the corpus with this checksum.

    Args:
        checksum: Checksum of the corpus, in hexadecimal.
        load: Function that loads the corpus; it is called only on first use.
        artefacts: Store in which the metadata is cached.

    Raises:
        CorpusError: If the corpus cannot be read.
        StoreError: If the store cannot be read or written.
    """
    name = f"layouts/{checksum[:16]}-{_FORMAT}.npz"
    path = artefacts.get(name)
    try:
        if path:
            return _read(path)
    except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile):
        _read.cache_clear()
    _write(of_corpus(load()), name, artefacts)
    return _read(artefacts.local_path(name))


def of_corpus(corpus: Corpus) -> Layout:
    """Compute the metadata of a loaded corpus."""
    type_index = {name: number for number, name in enumerate(corpus.entity_types)}
    entities = np.zeros((len(corpus.train), len(type_index)), dtype=np.int32)
    for number, sentence in enumerate(corpus.train):
        for tag in sentence.tags:
            if tag.startswith("B-"):
                entities[number, type_index[tag[2:]]] += 1
    documents = None
    if all(sentence.document is not None for sentence in corpus.train):
        documents = np.array([sentence.document for sentence in corpus.train], dtype=np.int64)
    names = tuple(sorted(set(corpus.sections or ())))
    sections = np.array([names.index(name) for name in corpus.sections], dtype=np.int64) if corpus.sections else None
    tokens = np.array([len(sentence.tokens) for sentence in corpus.train], dtype=np.int64)
    return Layout(tokens, entities, corpus.entity_types, documents, sections, names, digests(corpus.train))


def digests(sentences: Iterable[Sentence]) -> np.ndarray:
    """Return a digest of each sentence, different for equal sentences: 64 bits of SHA-256, uint64 [n]."""
    found, earlier = [], Counter[bytes]()
    for sentence in sentences:
        content = json.dumps([sentence.tokens, sentence.tags]).encode()
        found.append(int.from_bytes(hashlib.sha256(b"%s%d" % (content, earlier[content])).digest()[:8], "big"))
        earlier[content] += 1
    return np.array(found, dtype=np.uint64)


def _write(layout: Layout, name: str, artefacts: ArtifactStore) -> None:
    arrays = {"tokens": layout.tokens, "entities": layout.entities, "digests": layout.digests}
    arrays |= {} if layout.documents is None else {"documents": layout.documents}
    arrays |= {} if layout.sections is None else {"sections": layout.sections}
    names = json.dumps({"types": layout.types, "sections": layout.section_names})
    with artefacts.write(name, "The layout of the corpus") as path:
        np.savez(path, allow_pickle=False, names=np.array(names), **arrays)


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
            digests=file["digests"],
        )

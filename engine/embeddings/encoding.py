"""A corpus as arrays: computed once, stored on disk, memory-mapped and shared by all workers.

Tokens are concatenated without padding; a token is the index of its row in the public vector table.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path

import numpy as np

from engine.artifact_store import ArtifactStore
from engine.corpus.handle import CorpusHandle
from engine.corpus.sentences import Corpus, Sentence
from engine.corpus.tag_schemes import PREFIXES, tags_of, to_bioes
from engine.embeddings.vectors import VectorPackage, WordVectors

_SPLITS = ("train", "validation", "test")
_FORMAT = 1
"""Version of the file format; increase it when the files below change their meaning."""


@dataclass(frozen=True)
class EncodedSplit:
    """One part of a corpus.

    Attributes:
        rows: Rows of the vector table, int32 [tokens].
        tags: Indices of the tag names, int16 [tokens].
        offsets: First token of each sentence, and the end, int64 [sentences + 1].
        forms: For taggers that read characters, the index of each token's distinct word, int32 [tokens].
        spelling: Character ids of each distinct word, uint8 [words, longest] (:mod:`engine.embeddings.char_ids`).
    """

    rows: np.ndarray
    tags: np.ndarray
    offsets: np.ndarray
    forms: np.ndarray | None = None
    spelling: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @cached_property
    def lengths(self) -> np.ndarray:
        """Tokens of each sentence, int64 [sentences]."""
        return np.diff(self.offsets)


@dataclass(frozen=True)
class EncodedCorpus:
    """The splits, the shared vector table (float32 [rows + 1, dimensions]) and the public tag names.

    ``copied`` is the number of a token's first features that a window reads from neighbours. Contextual features
    already include the neighbours.
    """

    train: EncodedSplit
    validation: EncodedSplit
    test: EncodedSplit
    vectors: np.ndarray
    tags: tuple[str, ...]
    copied: int


def name_of(checksum: str, package: VectorPackage) -> str:
    """Return the name of a corpus's arrays among the files that runs share."""
    return f"encoded/{checksum[:16]}-{package.label}-{_FORMAT}"


def encode_words(corpus: CorpusHandle, package: VectorPackage) -> EncodedCorpus:
    """Return the arrays of the corpus, computed on first use; only then are its sentences read.

    Raises:
        CorpusError: If the corpus is not available.
        VectorsMissing: If the word vectors are not installed.
        StoreError: If the arrays cannot be written.
    """
    artefacts, name = corpus.artefacts, name_of(corpus.checksum, package)
    table = f"vectors/{package.label}-{_FORMAT}.npy"
    folder, vectors = artefacts.get(name), artefacts.get(table)
    if not (folder and vectors):
        _write(corpus.load(), package, name, table, artefacts)
    return _read(artefacts.local_path(name), artefacts.local_path(table))


def _read(folder: Path, table: Path) -> EncodedCorpus:
    splits = {
        split: EncodedSplit(*(_load(folder / f"{split}-{array}.npy") for array in ("rows", "tags", "offsets")))
        for split in _SPLITS
    }
    tags = tuple(json.loads((folder / "tags.json").read_text(encoding="utf-8")))
    vectors = _load(table)
    return EncodedCorpus(**splits, vectors=vectors, tags=tags, copied=vectors.shape[1])


def _load(path: Path) -> np.ndarray:
    mapped: np.ndarray = np.load(path, mmap_mode="r", allow_pickle=False)
    return mapped


def _write(corpus: Corpus, package: VectorPackage, name: str, table: str, artefacts: ArtifactStore) -> None:
    parts: dict[str, tuple[Sentence, ...]] = {split: getattr(corpus, split) for split in _SPLITS}
    vectors = WordVectors(package.folder)
    row_of = vectors.rows(token for part in parts.values() for s in part for token in s.tokens)
    if artefacts.get(table) is None:
        with artefacts.write(table, "The table of word vectors") as path:
            np.save(path, vectors.table)
    if artefacts.get(name) is not None:
        return
    with artefacts.write(name, "The encoded corpus", folder=True) as fresh:
        index = {tag: number for number, tag in enumerate(corpus.tags)}
        for split, sentences in parts.items():
            tokens = [row_of[token] for s in sentences for token in s.tokens]
            tags = [index[tag] for s in sentences for tag in s.tags]
            offsets = np.cumsum([0, *(len(s.tokens) for s in sentences)], dtype=np.int64)
            np.save(fresh / f"{split}-rows.npy", np.array(tokens, dtype=np.int32))
            np.save(fresh / f"{split}-tags.npy", np.array(tags, dtype=np.int16))
            np.save(fresh / f"{split}-offsets.npy", offsets)
        (fresh / "tags.json").write_text(json.dumps(corpus.tags), encoding="utf-8")


def subset(split: EncodedSplit, sentences: np.ndarray) -> EncodedSplit:
    """Return the chosen sentences (int [m]) as a split, in the given order."""
    lengths = split.lengths[sentences]
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    tokens = token_positions(split, sentences)
    forms = None if split.forms is None else split.forms[tokens]
    return EncodedSplit(split.rows[tokens], split.tags[tokens], offsets, forms, split.spelling)


def token_positions(split: EncodedSplit, sentences: np.ndarray) -> np.ndarray:
    """Return the positions of all tokens of the chosen sentences, one sentence after another."""
    lengths = split.lengths[sentences]
    ends = np.cumsum(lengths)
    places: np.ndarray = np.arange(lengths.sum()) + np.repeat(split.offsets[sentences] - (ends - lengths), lengths)
    return places


def with_tags(encoded: EncodedCorpus, tags: tuple[str, ...]) -> EncodedCorpus:
    """Return the arrays with more tags, which include the corpus's own."""
    if tags == encoded.tags:
        return encoded
    numbers = np.array([tags.index(tag) for tag in encoded.tags], dtype=np.int16)
    splits = {name: replace(each, tags=numbers[each.tags]) for name in _SPLITS if (each := getattr(encoded, name))}
    return replace(encoded, **splits, tags=tags)


def in_scheme(encoded: EncodedCorpus, scheme: str) -> EncodedCorpus:
    """Return the arrays, whose tags are BIO2, with the tags of this scheme.

    It applies :func:`engine.corpus.tag_schemes.to_bioes` to all sentences at once.
    """
    if scheme == "bio2":
        return encoded
    tags = tags_of({tag[2:] for tag in encoded.tags if tag != "O"}, PREFIXES[scheme])
    numbers = {tag: number for number, tag in enumerate(encoded.tags)}
    goes_on = np.array([numbers.get(f"I-{tag[2:]}", len(numbers)) for tag in encoded.tags])
    within = np.array([tags.index(tag) for tag in encoded.tags], dtype=np.int16)
    at_the_end = np.array([tags.index(to_bioes([tag])[0]) for tag in encoded.tags], dtype=np.int16)

    def of(split: EncodedSplit) -> EncodedSplit:
        after = np.append(split.tags, -1)
        after[split.offsets] = -1  # the first token of a sentence has no predecessor
        changed = np.where(after[1:] == goes_on[split.tags], within[split.tags], at_the_end[split.tags])
        return replace(split, tags=changed)

    train, validation, test = map(of, (encoded.train, encoded.validation, encoded.test))
    return replace(encoded, train=train, validation=validation, test=test, tags=tags)


def tag_sequences(split: EncodedSplit, tags: np.ndarray, names: Iterable[str]) -> list[list[str]]:
    """Return the tag names of each sentence from tag indices (int [tokens] in the order of ``split``)."""
    words = np.array(list(names), dtype=object)[tags]
    words, borders = words.tolist(), split.offsets.tolist()
    return [words[start:end] for start, end in pairwise(borders)]

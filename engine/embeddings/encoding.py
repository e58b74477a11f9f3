"""A corpus as arrays: computed once, kept on disk, memory-mapped and shared by all workers.

Tokens stand one after another without padding; a token is the number of its row in the public vector table.
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
from engine.corpus.sentences import Corpus, Sentence, tags_of
from engine.corpus.tag_schemes import PREFIXES, to_bioes
from engine.embeddings.vectors import VectorPackage, look_up

_SPLITS = ("train", "validation", "test")
_FORMAT = 1
"""Raised when the files below change their meaning."""


@dataclass(frozen=True)
class EncodedSplit:
    """One part of a corpus. rows: int32 [tokens], rows of the vector table. tags: int16 [tokens], indices into the
    tag names. offsets: int64 [sentences + 1], where each sentence begins.

    For taggers that read characters: forms, int32 [tokens], which of the corpus's distinct words each token is;
    spelling, uint8 [words, longest], the characters of each (:mod:`engine.embeddings.char_ids`).
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
        """Tokens per sentence, int64 [sentences]."""
        return np.diff(self.offsets)


@dataclass(frozen=True)
class EncodedCorpus:
    """Splits, the shared vector table (float32 [rows + 1, dimensions]) and the public tag names. copied: how many of a
    token's features, the first ones, its neighbours are shown; what comes in context knows the neighbours already."""

    train: EncodedSplit
    validation: EncodedSplit
    test: EncodedSplit
    vectors: np.ndarray
    tags: tuple[str, ...]
    copied: int


def name_of(checksum: str, package: VectorPackage) -> str:
    """What the arrays of a corpus are called among the files that runs share."""
    return f"encoded/{checksum[:16]}-{package.label}-{_FORMAT}"


def encode_words(corpus: CorpusHandle, package: VectorPackage) -> EncodedCorpus:
    """The arrays of the corpus, made on first use: only then are its sentences read.

    Raises CorpusError, VectorsMissing, and StoreError if they cannot be written.
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
    vectors, row_of = look_up(package, (token for part in parts.values() for s in part for token in s.tokens))
    if artefacts.get(table) is None:
        with artefacts.write(table, "The table of word vectors") as path:
            np.save(path, vectors)
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
    """The chosen sentences (int [m]) as a split of their own, in the given order."""
    lengths = split.lengths[sentences]
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    tokens = token_positions(split, sentences)
    forms = None if split.forms is None else split.forms[tokens]
    return EncodedSplit(split.rows[tokens], split.tags[tokens], offsets, forms, split.spelling)


def token_positions(split: EncodedSplit, sentences: np.ndarray) -> np.ndarray:
    """Positions in ``rows`` and ``tags`` of all tokens of the chosen sentences, one sentence after another."""
    lengths = split.lengths[sentences]
    ends = np.cumsum(lengths)
    places: np.ndarray = np.arange(lengths.sum()) + np.repeat(split.offsets[sentences] - (ends - lengths), lengths)
    return places


def with_tags(encoded: EncodedCorpus, tags: tuple[str, ...]) -> EncodedCorpus:
    """The same arrays with more tags, of which the corpus's own are some."""
    if tags == encoded.tags:
        return encoded
    numbers = np.array([tags.index(tag) for tag in encoded.tags], dtype=np.int16)
    splits = {name: replace(each, tags=numbers[each.tags]) for name in _SPLITS if (each := getattr(encoded, name))}
    return replace(encoded, **splits, tags=tags)


def in_scheme(encoded: EncodedCorpus, scheme: str) -> EncodedCorpus:
    """The same arrays, whose tags are BIO2, with the tags of this scheme: for each sentence what
    :func:`engine.corpus.tag_schemes.to_bioes` says, for all tokens at once."""
    if scheme == "bio2":
        return encoded
    tags = tags_of({tag[2:] for tag in encoded.tags if tag != "O"}, PREFIXES[scheme])
    numbers = {tag: number for number, tag in enumerate(encoded.tags)}
    goes_on = np.array([numbers.get(f"I-{tag[2:]}", len(numbers)) for tag in encoded.tags])
    within = np.array([tags.index(tag) for tag in encoded.tags], dtype=np.int16)
    at_the_end = np.array([tags.index(to_bioes([tag])[0]) for tag in encoded.tags], dtype=np.int16)

    def of(split: EncodedSplit) -> EncodedSplit:
        after = np.append(split.tags, -1)
        after[split.offsets] = -1  # what begins a sentence follows nothing
        changed = np.where(after[1:] == goes_on[split.tags], within[split.tags], at_the_end[split.tags])
        return replace(split, tags=changed)

    train, validation, test = map(of, (encoded.train, encoded.validation, encoded.test))
    return replace(encoded, train=train, validation=validation, test=test, tags=tags)


def tag_sequences(split: EncodedSplit, tags: np.ndarray, names: Iterable[str]) -> list[list[str]]:
    """Tag names sentence by sentence from tag indices (int [tokens] in the order of ``split``)."""
    words = np.array(list(names), dtype=object)[tags]
    words, borders = words.tolist(), split.offsets.tolist()
    return [words[start:end] for start, end in pairwise(borders)]

"""Contextual features of sentences that were computed before, for the same corpus or for another one.

They are copied from the files of features of corpora that every user of the corpus may use, too. There is no other
store of them: the files are deleted with their corpus. Beside them, a list has the digest of each sentence, so that
the corpora need not be read.
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np

from engine.artifact_store import ArtifactStore
from engine.config import ENCODERS, FEATURE_SETS, MINILM
from engine.config.feature_registry import FeaturePart
from engine.corpus.derived_files import LISTS, name_of_list
from engine.corpus.handle import CorpusHandle
from engine.embeddings.encoding import name_of
from engine.embeddings.vectors import VectorPackage
from engine.errors import StoreError

FORMAT = 4
"""Version of the files of features; increase it when the meaning or the last digits change.

The order of the sums in the language model affects the last digits too, and a run on other digits is another run.
"""
_ENTRY = np.dtype([("digest", "S16"), ("tokens", "<i4")])
"""A sentence in a list: 128 bits of SHA-256 of its words, and their number."""


def file_name(checksum: str, package: VectorPackage, kind: str, language_model: str) -> str:
    """Return the name of a file of features among the files that runs share."""
    model = "" if language_model == MINILM else f"-{language_model}"
    if model and language_model in ENCODERS and ENCODERS[language_model].int8:
        model += "-int8"  # not those that an earlier version computed in float32
    return f"{name_of(checksum, package)}-{kind}{model}-{FORMAT}.npy"


class KnownSentences:
    """The sentences of a corpus, and those of other corpora whose features are stored.

    Args:
        corpus: The corpus.
        sentences: Its sentences, in the order of the rows of its features.

    Raises:
        CorpusError: If the corpus is not available.
        StoreError: If the files cannot be listed or written.
    """

    def __init__(self, corpus: CorpusHandle, sentences: Sequence[Sequence[str]]) -> None:
        self._artefacts: ArtifactStore = corpus.artefacts
        listed = np.array([(_digest(words), len(words)) for words in sentences], _ENTRY)
        own = name_of_list(corpus.checksum, corpus.text_checksum)
        with self._artefacts.write(own, "The list of the corpus's sentences") as path:
            np.save(path, listed, allow_pickle=False)
        self._files = set(self._artefacts.sizes("encoded"))
        self._digests: list[bytes] = listed["digest"].tolist()
        self._lengths = listed["tokens"].astype(np.int64)
        self._starts = np.cumsum(self._lengths) - self._lengths
        lists = {name: found for name in self._files if (found := LISTS.fullmatch(name))}
        readable = {text[:16] for text in corpus.readable_texts()} if lists.keys() - {own} else set()
        self._lists = [own, *sorted(name for name, found in lists.items() if found["text"] in readable and name != own)]

    def fill(self, rows: np.ndarray, part: FeaturePart, package: VectorPackage, language_model: str) -> list[int]:
        """Copy the known rows of a contextual part.

        Args:
            rows: Values of the part, uint16 [tokens, width], which are set for known sentences.
            part: The part.
            package: Package of word vectors.
            language_model: Name of the language model.

        Returns:
            Numbers of the sentences that are not known, each of equal ones once; :meth:`add` completes the rows.
        """
        wanted = {digest: number for number, digest in reversed(list(enumerate(self._digests)))}
        wanted = {digest: number for digest, number in wanted.items() if self._lengths[number]}
        for name in self._lists:
            if not wanted:
                break
            for columns, listed in self._tables(name, part, package, language_model):
                starts = np.cumsum(listed["tokens"], dtype=np.int64) - listed["tokens"]
                known = dict(zip(listed["digest"].tolist(), starts.tolist(), strict=True))
                pairs = [(number, known[digest]) for digest, number in wanted.items() if digest in known]
                if pairs:
                    numbers, places = np.array(pairs, np.int64).T
                    rows[self._tokens(numbers)] = columns[_ranges(places, self._lengths[numbers])]
                wanted = {digest: number for digest, number in wanted.items() if digest not in known}
        return sorted(wanted.values())

    def add(self, rows: np.ndarray, numbers: Sequence[int], computed: np.ndarray) -> None:
        """Set the rows of the sentences with these numbers, and then those of all equal sentences.

        Args:
            rows: Values of the part, uint16 [tokens, width].
            numbers: Numbers of the sentences that were computed.
            computed: Their rows, one sentence after another.
        """
        rows[self._tokens(np.array(numbers, np.int64))] = computed
        first: dict[bytes, int] = {}
        pairs = [
            (number, earlier)
            for number, digest in enumerate(self._digests)
            if (earlier := first.setdefault(digest, number)) != number
        ]
        if pairs:
            again, before = np.array(pairs, np.int64).T
            rows[self._tokens(again)] = rows[self._tokens(before)]

    def _tokens(self, numbers: np.ndarray) -> np.ndarray:
        return _ranges(self._starts[numbers], self._lengths[numbers])

    def _tables(
        self, name: str, part: FeaturePart, package: VectorPackage, language_model: str
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield the columns of a part in the files of a corpus, and the corpus's list; damaged files are skipped."""
        checksum = LISTS.fullmatch(name)["checksum"]  # type: ignore[index]
        # spaCy's names depend on the package only.
        models = {language_model} if part.width is None or part.fitted else {language_model, *ENCODERS}
        for features in FEATURE_SETS.values():
            for model in sorted(models) if part in features.parts else ():
                file = file_name(checksum, package, features.name, model)
                if file not in self._files:
                    continue
                with suppress(OSError, ValueError, EOFError, StoreError):
                    listed = np.load(self._path(name), allow_pickle=False)
                    table = np.load(self._path(file), mmap_mode="r", allow_pickle=False)
                    if listed.dtype != _ENTRY or table.dtype != np.uint16:
                        continue
                    if table.shape == (listed["tokens"].sum(), features.width(model)):
                        yield table[:, features.columns(part, model)], listed

    def _path(self, name: str) -> Path:
        path = self._artefacts.get(name)
        if path is None:
            raise FileNotFoundError(name)  # deleted meanwhile
        return path


def _digest(words: Sequence[str]) -> bytes:
    return hashlib.sha256(json.dumps(list(words)).encode()).digest()[:16]


def _ranges(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return the rows of sentences, one after another, from their first rows and their numbers of tokens."""
    ends = np.cumsum(lengths)
    rows: np.ndarray = np.arange(ends[-1] if len(ends) else 0) + np.repeat(starts - (ends - lengths), lengths)
    return rows

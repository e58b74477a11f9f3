"""Encoding of words as rows of the public table, and of corpora as arrays on disk."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine import embeddings
from engine.artifact_store import ArtifactStore
from engine.corpus import Corpus, Sentence
from engine.corpus.tag_schemes import from_bioes, tags_of, to_bioes
from engine.embeddings.encoding import (
    EncodedCorpus,
    EncodedSplit,
    encode_words,
    in_scheme,
    name_of,
    subset,
    tag_sequences,
)
from engine.embeddings.vectors import WordVectors
from engine.errors import StoreError, VectorsMissing


@pytest.fixture(scope="module")
def package():
    return embeddings.find("en_core_web_md")


def corpus_of(*words: str) -> Corpus:
    sentences = (Sentence(words, ("B-PER", *["O"] * (len(words) - 1))), Sentence(("Bonn",), ("B-LOC",)))
    return Corpus(
        name="toy", title="toy", licence="none", synthetic=False, train=sentences, validation=sentences[:1],
        test=sentences[1:], entity_types=("LOC", "PER"), checksum="c" * 64,
    )  # fmt: skip


def test_every_word_of_the_package_has_its_vector(package):
    from spacy.strings import StringStore
    from spacy.vectors import Vectors

    theirs, ours = Vectors().from_disk(package.folder / "vocab"), WordVectors(package.folder)
    row_of = ours.rows(["Bonn", "the"])
    for word in ("Bonn", "the"):
        np.testing.assert_array_equal(ours.table[row_of[word]], theirs[StringStore().add(word)])
        assert np.any(ours.table[row_of[word]])
    keys = np.fromiter(theirs.keys(), np.uint64)
    np.testing.assert_array_equal(ours._find(keys), theirs.find(keys=keys))
    np.testing.assert_array_equal(ours.table[:-1], theirs.data)
    assert ours.table.dtype == np.float32
    assert (ours._find(np.array([0, 1, 2**64 - 1], np.uint64)) == len(theirs.data)).all()


def test_unknown_words_share_one_fixed_vector(package):
    """Private words do not change any vector, whichever and however many of them are unknown."""
    vectors = WordVectors(package.folder)
    table, row_of = vectors.table, vectors.rows(["xqzzyblorp", "Wjkwrtzuiop"])
    assert row_of["xqzzyblorp"] == row_of["Wjkwrtzuiop"] == len(table) - 1
    assert not np.any(table[-1])
    before = table.copy()
    vectors.rows(["something", "else", "grmblfx"])
    np.testing.assert_array_equal(table, before)


class FakeHandle:
    """A corpus handle for a corpus in memory, which counts in ``loaded`` how often it is loaded."""

    def __init__(self, corpus: Corpus, home: Path) -> None:
        self.corpus, self.checksum, self.loaded = corpus, corpus.checksum, 0
        self.artefacts = ArtifactStore(str(home), home)

    def load(self) -> Corpus:
        self.loaded += 1
        return self.corpus


def test_a_corpus_is_encoded_once_and_mapped(package, tmp_path):
    corpus = corpus_of("Rosa", "lives", "xqzzyblorp")
    handle = FakeHandle(corpus, tmp_path)
    first, second = (encode_words(handle, package) for _ in range(2))
    assert handle.loaded == 1
    for encoded in (first, second):
        assert isinstance(encoded.train.rows, np.memmap)
        assert isinstance(encoded.vectors, np.memmap)
        assert encoded.tags == ("O", "B-LOC", "I-LOC", "B-PER", "I-PER")
        assert encoded.train.offsets.tolist() == [0, 3, 4]
        assert encoded.train.tags.tolist() == [3, 0, 0, 1]
        assert encoded.train.rows[2] == len(encoded.vectors) - 1
    assert [len(part) for part in (first.train, first.validation, first.test)] == [2, 1, 1]


def test_name_of_differs_by_checksum_and_by_name_and_version_of_the_package(package):
    packages = (package, dataclasses.replace(package, name="other"), dataclasses.replace(package, version="0"))
    assert len({name_of(checksum, each) for checksum in ("a" * 64, "b" * 64) for each in packages}) == 6


def test_subset_keeps_the_order_of_indices(package, tmp_path):
    corpus = corpus_of("Rosa", "lives")
    encoded = encode_words(FakeHandle(corpus, tmp_path), package)
    chosen = subset(encoded.train, np.array([1, 0]))
    assert tag_sequences(chosen, chosen.tags, encoded.tags) == [["B-LOC"], ["B-PER", "O"]]


TAGS = tags_of(["PER", "LOC", "I-LOC", "E"])
"""Tags, with types that look like prefixes."""
SENTENCES = st.lists(st.lists(st.sampled_from(TAGS), min_size=1, max_size=8), max_size=6)
"""Sentences, also ill-formed ones; neighbours often end and begin with the same type."""


def split_of(sentences: list[list[str]]) -> EncodedSplit:
    numbers = np.array([TAGS.index(tag) for tags in sentences for tag in tags], dtype=np.int16)
    offsets = np.cumsum([0, *map(len, sentences)], dtype=np.int64)
    return EncodedSplit(np.arange(len(numbers), dtype=np.int32), numbers, offsets)


@given(SENTENCES, SENTENCES, SENTENCES)
def test_in_scheme_converts_each_sentence_separately(train, validation, test):
    parts = (train, validation, test)
    splits = [split_of(sentences) for sentences in parts]
    before = EncodedCorpus(*splits, vectors=np.zeros((1, 3), np.float32), tags=TAGS, copied=3)
    converted = in_scheme(before, "bioes")
    assert sorted(converted.tags[1:]) == sorted(f"{prefix}-{tag[2:]}" for tag in TAGS[1::2] for prefix in "BIES")
    for split, old, sentences in zip(
        (converted.train, converted.validation, converted.test), splits, parts, strict=True
    ):
        assert split.tags.dtype == np.int16
        assert tag_sequences(split, split.tags, converted.tags) == [to_bioes(tags) for tags in sentences]
        assert tag_sequences(split, split.tags, from_bioes(converted.tags)) == sentences
        assert split.rows is old.rows
        assert split.offsets is old.offsets
    assert converted.vectors is before.vectors
    assert converted.tags[0] == "O"
    assert in_scheme(before, "bio2") is before


def test_stored_encoding_stays_bio2(package, tmp_path):
    handle = FakeHandle(corpus_of("Rosa", "lives"), tmp_path)
    encoded = in_scheme(encode_words(handle, package), "bioes")
    assert tag_sequences(encoded.train, encoded.train.tags, encoded.tags) == [["S-PER", "O"], ["S-LOC"]]
    again = encode_words(handle, package)
    assert again.tags == ("O", "B-LOC", "I-LOC", "B-PER", "I-PER")
    assert again.train.tags.tolist() == [3, 0, 1]


def test_an_unwritable_folder_raises_store_error(package, tmp_path):
    (tmp_path / "encoded").write_text("in the way")
    corpus = corpus_of("Rosa")
    with pytest.raises(StoreError, match="corpus cannot be written"):
        encode_words(FakeHandle(corpus, tmp_path), package)


def test_missing_vectors_name_the_package_to_install():
    with pytest.raises(VectorsMissing, match=r"embeddings='glove' is not installed .*en_core_web_md"):
        embeddings.find("glove")
    assert dataclasses.asdict(embeddings.find("en_core_web_md"))["version"]

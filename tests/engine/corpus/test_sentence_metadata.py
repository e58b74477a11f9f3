"""Sentence metadata counts tokens and entities, and is computed once."""

import numpy as np

from engine import corpus
from engine.corpus import sentence_metadata as layouts
from engine.corpus.conll import read

DOCUMENTS = b"""-DOCSTART- O

Ann B-PER
Bee I-PER
met O
Cy B-PER

x O

-DOCSTART- O

Rome B-LOC
"""


def test_documents_are_numbered_and_their_marks_are_no_sentences() -> None:
    assert [sentence.document for sentence in read(DOCUMENTS, "file")] == [0, 0, 1]
    assert read(b"Ann B-PER\n", "file")[0].document is None


def test_the_embedded_corpus_is_counted(settings) -> None:
    whole, found = corpus.resolve("synthetic", settings).load(), corpus.resolve("synthetic", settings).layout
    assert len(found) == len(whole.train)
    assert found.tokens.tolist() == [len(sentence.tokens) for sentence in whole.train]
    names = sum(tag.startswith("B-") for sentence in whole.train for tag in sentence.tags)
    assert found.entities.sum() == names
    assert found.types == whole.entity_types
    assert found.documents is None
    assert found.sections is None
    np.testing.assert_array_equal(found.where(np.array([5, 2])).tokens, found.tokens[[5, 2]])


def test_it_is_read_from_disk_the_second_time_and_made_again_if_it_is_damaged(settings, monkeypatch) -> None:
    first = corpus.resolve("synthetic", settings).layout
    (path,) = (settings.home / "layouts").iterdir()
    path.write_bytes(b"broken")
    layouts._read.cache_clear()
    np.testing.assert_array_equal(corpus.resolve("synthetic", settings).layout.entities, first.entities)
    monkeypatch.setattr(layouts, "of_corpus", lambda whole: 1 / 0)
    layouts._read.cache_clear()
    np.testing.assert_array_equal(corpus.resolve("synthetic", settings).layout.tokens, first.tokens)


def test_real_corpora_know_their_documents_and_sections(data_dir, settings) -> None:
    import dataclasses

    here = dataclasses.replace(settings, data_dir=data_dir)
    news, tweets = corpus.resolve("conll2003", here).layout, corpus.resolve("btc", here).layout
    assert news.documents is not None
    assert len(np.unique(news.documents)) == 946  # CoNLL-2003's training articles
    assert tweets.section_names == ("a", "b", "e", "f", "g", "h")
    assert tweets.documents is None

"""Sentence metadata: counts, documents and sections, and the cache on disk."""

import numpy as np
import pytest

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


def test_docstart_lines_number_documents_and_are_not_sentences() -> None:
    assert [sentence.document for sentence in read(DOCUMENTS, "file")] == [0, 0, 1]
    assert read(b"Ann B-PER\n", "file")[0].document is None


def test_layout_counts_tokens_and_entities(settings) -> None:
    whole, layout = corpus.resolve("synthetic", settings).load(), corpus.resolve("synthetic", settings).layout
    assert len(layout) == len(whole.train)
    assert layout.tokens.tolist() == [len(sentence.tokens) for sentence in whole.train]
    names = sum(tag.startswith("B-") for sentence in whole.train for tag in sentence.tags)
    assert layout.entities.sum() == names
    assert layout.types == whole.entity_types
    assert layout.documents is None
    assert layout.sections is None
    np.testing.assert_array_equal(layout.where(np.array([5, 2])).tokens, layout.tokens[[5, 2]])


def test_layout_is_cached_on_disk_and_recomputed_if_damaged(settings, monkeypatch) -> None:
    first = corpus.resolve("synthetic", settings).layout
    (path,) = (settings.home / "layouts").iterdir()
    path.write_bytes(b"broken")
    layouts._read.cache_clear()
    np.testing.assert_array_equal(corpus.resolve("synthetic", settings).layout.entities, first.entities)
    monkeypatch.setattr(layouts, "of_corpus", lambda whole: 1 / 0)
    layouts._read.cache_clear()
    np.testing.assert_array_equal(corpus.resolve("synthetic", settings).layout.tokens, first.tokens)


@pytest.mark.repeats
def test_real_corpora_have_documents_or_sections(data_dir, settings) -> None:
    import dataclasses

    with_corpora = dataclasses.replace(settings, data_dir=data_dir)
    news, tweets = corpus.resolve("conll2003", with_corpora).layout, corpus.resolve("btc", with_corpora).layout
    assert news.documents is not None
    assert len(np.unique(news.documents)) == 946  # CoNLL-2003's training articles
    assert tweets.section_names == ("a", "b", "e", "f", "g", "h")
    assert tweets.documents is None

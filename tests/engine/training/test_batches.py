"""Batches without padding contain exactly the requested sentences."""

from dataclasses import replace

import numpy as np
import pytest

from engine.embeddings import EncodedSplit
from engine.embeddings.encoding import subset
from engine.embeddings.features import narrow
from engine.training.batches import MAX_TOKENS, batch_of, physical_batches
from engine.training.row_lookup import rows_of

TABLE = np.random.default_rng(9).standard_normal((20, 7)).astype(np.float32)


def split_of(lengths: list[int]) -> EncodedSplit:
    random, total = np.random.default_rng(0), sum(lengths)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    return EncodedSplit(
        random.integers(0, 20, total).astype(np.int32), random.integers(0, 4, total).astype(np.int16), offsets
    )


def test_sentences_are_concatenated_longest_first() -> None:
    split = split_of([3, 5, 1, 5, 2])
    batch = batch_of(split, TABLE, np.array([2, 1, 3, 3]))
    assert batch.sentences.tolist() == [1, 3, 3, 2]
    assert batch.lengths.tolist() == [5, 5, 5, 1]
    assert batch.offsets.tolist() == [0, 5, 10, 15]
    assert batch.live.tolist() == [4, 3, 3, 3, 3]
    for sentence, start, length in zip(batch.sentences, batch.offsets, batch.lengths, strict=True):
        where = slice(split.offsets[sentence], split.offsets[sentence + 1])
        np.testing.assert_array_equal(batch.vectors[start : start + length], TABLE[split.rows[where]])
        np.testing.assert_array_equal(batch.tags[start : start + length], split.tags[where])


def test_padding_is_zero_and_where_selects_sentences() -> None:
    batch = batch_of(split_of([3, 5, 1]), TABLE, np.arange(3))
    padded = batch.padded(batch.vectors)
    assert padded.shape == (3, 5, 7)
    np.testing.assert_array_equal(padded[1, :3], batch.vectors[5:8])
    assert not padded[1, 3:].any()
    fewer = batch.where(np.array([True, False, True]))
    assert fewer.sentences.tolist() == [1, 2]
    np.testing.assert_array_equal(fewer.vectors, np.vstack([batch.vectors[:5], batch.vectors[8:]]))


def test_physical_batches_contain_exactly_the_sample() -> None:
    lengths = [1, 5, 9000, 3, 700, 800, 2] * 3 + [4] * 5000
    sampled = np.concatenate([[0, 2, 3, 9, 16, 11, 12, 4], np.arange(30, 4000)])
    batches = list(physical_batches(split_of(lengths), TABLE, sampled))
    assert sorted(np.concatenate([b.sentences for b in batches])) == sorted(sampled)
    assert len(batches) > 3
    for b in batches:
        assert len(b.lengths) * b.lengths[0] <= MAX_TOKENS or len(b.lengths) == 1
    assert not list(physical_batches(split_of(lengths), TABLE, np.zeros(0, dtype=np.int64)))


@pytest.mark.parametrize("own_rows", [False, True])
def test_tokens_have_the_characters_of_their_words(own_rows: bool) -> None:
    """Also for words that share a row, since the word vectors do not include them."""
    split, spelling = split_of([3, 5, 1, 5, 2]), np.arange(60, dtype=np.uint8).reshape(12, 5)
    forms = np.random.default_rng(4).integers(0, 12, 16).astype(np.int32)
    rows = np.arange(16, dtype=np.int32) if own_rows else np.minimum(forms, 6)
    table = narrow(TABLE) if own_rows else TABLE
    spelt = replace(split, rows=rows, forms=forms, spelling=spelling)
    batch = batch_of(spelt, table, np.array([2, 1, 3, 3]))
    for sentence, start, length in zip(batch.sentences, batch.offsets, batch.lengths, strict=True):
        where = slice(split.offsets[sentence], split.offsets[sentence + 1])
        np.testing.assert_array_equal(batch.spelt[start : start + length], spelling[forms[where]])
        np.testing.assert_array_equal(batch.vectors[start : start + length], rows_of(table, rows[where]))
    assert len(batch.words) == (16 if own_rows else len(np.unique(rows[3:14])))
    assert len(batch.characters) == len(np.unique(forms[3:14]))
    assert subset(spelt, np.array([4, 1])).forms.tolist() == [*forms[14:16], *forms[3:8]]

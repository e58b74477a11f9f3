"""Arithmetic of the compiled layers: vectorised, and independent of the processor's caches and threads."""

import re
from dataclasses import replace
from typing import Any

import numba
import numpy as np
import pytest
from numba import njit

from engine.gemm import BLOCKS, SUMMED, Blocks, add_product, packed, use
from engine.hardware import Processor
from engine.taggers import KINDS, Sizes
from engine.taggers.char_vocab import NUMBER
from engine.taggers.layers import CHARACTERS, CRF, BidirectionalLSTM, CharacterPool, Dense
from engine.taggers.tagger import FEATURES, Node, Tagger, stack
from engine.training.batches import Batch
from engine.training.compiled import backend, dense, lstm
from engine.training.compiled.arithmetic import ARITHMETIC, PARTS, affine, columns_of_product, squash, tanh


@njit(fastmath=ARITHMETIC)
def along(numbers, tanhs, squashed, half):
    for j in range(numbers.size):
        tanhs[j] = tanh(numbers[j])
    for j in range(numbers.size):
        squashed[j] = squash(numbers[j], half)


def test_gates_are_accurate_and_vectorised():
    """Python's own division checks for division by zero, which prevents vectorisation of a loop."""
    numbers = np.concatenate([np.linspace(-12, 12, 4001), [-1e30, 1e30, 0.0]]).astype(np.float32)
    tanhs, squashed = np.empty_like(numbers), np.empty_like(numbers)
    along(numbers, tanhs, squashed, np.float32(0.5))
    exact = numbers.astype(np.float64)
    np.testing.assert_allclose(tanhs, np.tanh(exact), atol=1e-6)
    np.testing.assert_allclose(squashed, 0.5 + 0.5 * np.tanh(exact / 2), atol=1e-6)
    [code] = along.inspect_llvm().values()
    assert len(re.findall(r"fdiv[^<\n]*<\d+ x float>", code)) >= 2


@pytest.fixture
def batch() -> Batch:
    random = np.random.default_rng(0)
    lengths = np.array([90, 31, 30, 30, *range(20, 0, -1)])
    tokens = int(lengths.sum())
    words = random.standard_normal((tokens, 50)).astype(np.float32)
    tags = random.integers(0, 5, tokens).astype(np.int32)
    return Batch(np.arange(len(lengths)), words, np.arange(tokens), tags, lengths)


def gradient(batch: Batch) -> tuple[bytes, bytes, bytes]:
    tagger = stack(50, (BidirectionalLSTM(50, 36), Dense(72, 5)), CRF(5))
    weights = tagger.initial_weights(np.random.default_rng(0))
    found = backend.CompiledBackend(tagger).clipped_gradient(weights, batch, 0.1)
    assert np.abs(found.total).max() > 0
    return found.total.tobytes(), found.parts.tobytes(), found.losses.tobytes()


def test_gradient_is_bitwise_independent_of_cache_sizes(batch):
    """More tokens than the summation block, so that every block size splits the sums of the weight gradient."""
    assert len(batch.places) > SUMMED
    expected = gradient(batch)
    try:
        for kilobytes in (4, 16, 24, 48, 128):
            blocks = Blocks.that_fit(kilobytes * 2**10, 16 * kilobytes * 2**10)
            assert blocks != BLOCKS
            use(blocks)
            assert gradient(batch) == expected, blocks
    finally:
        use(BLOCKS)


@pytest.mark.parametrize("rows", [1, 47, 48, 49, 200])
def test_affine_is_bitwise_product_plus_bias(rows: int):
    """Many outputs, few of them in the last panel, and more inputs than the summation block."""
    random = np.random.default_rng(rows)
    shapes = ((rows, SUMMED + 3), (SUMMED + 3, 203), (203,))
    inputs, kernel, bias = (random.standard_normal(shape).astype(np.float32) for shape in shapes)
    expected, found = np.tile(bias, (rows, 1)), np.full((rows, 203), np.nan, np.float32)
    add_product(inputs, packed(kernel), expected)
    affine(inputs, kernel, bias, found)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_allclose(found, inputs @ kernel + bias, atol=1e-3)


def test_norms_are_bitwise_independent_of_the_batch():
    """More sentences than parallel parts, of a number that does not divide evenly. One has a vector that is not finite,
    which must not affect the others."""
    random = np.random.default_rng(0)
    lengths = np.sort(random.integers(1, 20, 4 * PARTS * 2 + 5))[::-1].copy()
    tokens, bad = int(lengths.sum()), 20
    letters = random.integers(0, 9, (50, 7)).astype(np.int32) * (np.arange(7) < random.integers(0, 8, 50)[:, None])
    many = Batch(
        np.arange(len(lengths)),
        random.standard_normal((tokens, 5)).astype(np.float32),
        np.arange(tokens),
        random.integers(0, 3, tokens).astype(np.int32),
        lengths,
        np.where(letters.cumprod(1) > 0, letters, 0).astype(np.int32),
        random.integers(0, 50, tokens),
    )
    many.words[many.offsets[bad]] = np.nan
    nodes = (
        Node("letters", CharacterPool(9, 6, 11), (CHARACTERS,)),
        Node("context", BidirectionalLSTM(16, 7), (FEATURES, "letters")),
        Node("scores", Dense(14, 3), ("context",)),
    )
    tagger = Tagger(5, nodes, CRF(3))
    weights, computed = tagger.initial_weights(np.random.default_rng(0)), backend.CompiledBackend(tagger)
    together = computed.clipped_gradient(weights, many, 1.0).parts
    assert (together[0] > 0).mean() > 0.9
    np.testing.assert_array_equal(np.flatnonzero(~np.isfinite(together[0])), [bad])
    for number in range(len(lengths)):
        alone = computed.clipped_gradient(weights, many.where(np.arange(len(lengths)) == number), 1.0).parts
        np.testing.assert_array_equal(alone[:, 0], together[:, number])


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("wanted", [slice(300, 500), slice(0, 3), slice(499, None), slice(None, None, 7), slice(None)])
@pytest.mark.repeats(after=1)
def test_columns_of_product_are_bitwise_those_of_the_whole(kind, wanted):
    """Deeper than the summation block: a column of a narrow panel is rounded elsewhere than one of a full panel."""
    random = np.random.default_rng(0)
    kernels, slopes = (
        random.standard_normal((2, 517, 800)).astype(kind),
        random.standard_normal((2, 40, 800)).astype(kind),
    )
    assert SUMMED < 800
    columns = np.arange(517)[wanted]
    cases: list[Any] = [(dense._input_slope, kernels[:1], slopes[0]), (lstm._input_slope, kernels, slopes)]
    for product, own, slope in cases:
        every = product(*own, slope)
        np.testing.assert_allclose(every, sum(slopes[: len(own)] @ own.transpose(0, 2, 1)), rtol=1e-2, atol=1e-3)
        assert np.array_equal(columns_of_product(product, own, slope, columns), every[:, columns])


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.name)
def test_scores_with_shared_words_are_bitwise_equal(kind):
    random = np.random.default_rng(0)
    lengths = np.array([40, 17, 12, 5, 1])
    spellings = random.integers(0, 30, lengths.sum())
    words = random.standard_normal((20, 30)).astype(np.float32)
    letters = random.integers(1, NUMBER, (30, 9)).astype(np.int32)
    letters[np.arange(9) >= random.integers(0, 10, 30)[:, None]] = 0
    places = random.integers(0, 20, lengths.sum())  # neither determines the other
    tags = np.zeros(lengths.sum(), np.int32)
    shared = Batch(np.arange(5), words, places, tags, lengths, letters, spellings)
    own = replace(shared, words=shared.vectors, places=shared.each, characters=shared.spelt, spellings=shared.each)
    tagger = kind.build(Sizes(dimensions=30, copied=20, tags=5, hidden_size=18, window=1, dropout=0.2))
    weights = tagger.initial_weights(random)
    weights += 0.1 * random.standard_normal(tagger.size).astype(np.float32)
    both = [backend.CompiledBackend(tagger).scores(weights, batch) for batch in (shared, own)]
    assert both[0].std() > 0
    assert np.array_equal(*both)


def test_gradient_with_own_rows_is_bitwise_equal(batch):
    shared = replace(batch, places=batch.places.copy())
    assert batch.places is not batch.each
    own = replace(batch)
    own.__dict__["each"] = own.places
    assert gradient(own) == gradient(shared)


@pytest.fixture
def threads():
    before = numba.get_num_threads()
    yield numba.get_num_threads
    numba.set_num_threads(before)


def test_default_is_one_thread_per_core(monkeypatch, threads, batch):
    most = threads()
    one = Processor(name="Some Processor", cores=1, threads=2, first_cache=2**14, second_cache=2**19)
    monkeypatch.setattr(backend, "processor", lambda: one)
    monkeypatch.setenv("NUMBA_NUM_THREADS", str(most))
    expected = gradient(batch)
    assert threads() == most
    monkeypatch.delenv("NUMBA_NUM_THREADS")
    assert gradient(batch) == expected
    assert threads() == 1

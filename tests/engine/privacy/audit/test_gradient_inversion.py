"""Words from a gradient: subspaces against the singular value decomposition, distances against least squares,
thresholds and shares counted one by one. tests/engine/lessons/test_gradient_leakage.py reads real updates."""

import numpy as np
import pytest

from engine.config import TaggerConfig
from engine.privacy.audit import gradient_inversion
from engine.privacy.audit.gradient_inversion import STRICT, Space
from engine.taggers import build
from engine.taggers.layers import Softmax, Tanh
from engine.taggers.tagger import stack

RANDOM = np.random.default_rng(5)
WORDS = RANDOM.standard_normal((4000, 300)).astype(np.float32)
EMPTY = Space(np.zeros((300, 0), np.float32), np.zeros(300), 0.0)


def gradient_of(words: int, columns: int = 800) -> np.ndarray:
    """Return Σ x δᵀ of the first ``words`` words, some of which occur often."""
    counts = RANDOM.geometric(0.3, words)
    return sum(
        (WORDS[k][:, None] * RANDOM.normal(0, count, columns).astype(np.float32) for k, count in enumerate(counts)),
        np.zeros((300, columns), np.float32),
    )


class TestSpace:
    @pytest.mark.parametrize("words", [1, 17, 150, 299])
    def test_space_equals_left_singular_vectors(self, words):
        found = gradient_inversion.space_of(summed := gradient_of(words))
        left, values, _ = np.linalg.svd(summed.astype(np.float64), full_matrices=False)
        assert found.rank == words
        assert not found.is_full_rank
        np.testing.assert_allclose(found.values[:words], values[:words], rtol=1e-6)
        np.testing.assert_allclose(found.basis @ found.basis.T, left[:, :words] @ left[:, :words].T, atol=2e-5)

    def test_space_keeps_directions_above_noise_only(self):
        noise = RANDOM.standard_normal((300, 800))
        assert gradient_inversion.space_of(3 * noise, 3.0).rank == 0
        summed = gradient_of(20)
        values = np.linalg.svd(summed + 40 * noise, compute_uv=False)
        found = gradient_inversion.space_of(summed + 40 * noise, 40.0)
        assert found.rank == (values > found.floor).sum()
        assert found.floor == pytest.approx(40 * (300**0.5 + 800**0.5), rel=0.03)
        assert 0 < found.rank < 20

    def test_space_of_products_is_equal(self):
        summed = gradient_of(30).astype(np.float64)
        one, two = (
            gradient_inversion.space_of(summed, 0.1),
            gradient_inversion.space_of_products(summed @ summed.T, 800, 0.1),
        )
        np.testing.assert_array_equal(one.basis, two.basis)
        assert one.floor == two.floor

    def test_more_words_than_dimensions_give_full_rank(self):
        found = gradient_inversion.space_of(gradient_of(400))
        assert found.is_full_rank
        assert not gradient_inversion.read(found, WORDS).any()

    def test_zero_gradient_has_rank_zero(self):
        found = gradient_inversion.space_of(np.zeros((300, 800), np.float32))
        assert found.rank == 0
        assert not gradient_inversion.read(found, WORDS).any()


class TestResidualNorm:
    def test_equals_least_squares_residual(self):
        space = gradient_inversion.space_of(gradient_of(40))
        some = WORDS[30:60].astype(np.float64)
        left = [np.linalg.lstsq(WORDS[:40].T.astype(np.float64), word, rcond=None)[1] for word in some]
        lost = [float(each[0]) / float(word @ word) for each, word in zip(left, some, strict=True)]
        np.testing.assert_allclose(gradient_inversion.residual_norm(space, WORDS[30:60]), lost, atol=1e-5)

    def test_is_one_for_empty_space_or_zero_vector(self):
        assert (gradient_inversion.residual_norm(EMPTY, WORDS[:5]) == 1).all()
        assert (
            gradient_inversion.residual_norm(
                gradient_inversion.space_of(gradient_of(3)), np.zeros((1, 300), np.float32)
            )
            == 1
        )

    def test_topk_equals_smaller_space(self):
        space = gradient_inversion.space_of(gradient_of(40))
        found = gradient_inversion.residual_norm_topk(space, WORDS[:100], [40, 0, 7])
        for some, directions in zip(found, (40, 0, 7), strict=True):
            smaller = Space(space.basis[:, :directions], space.values, space.floor)
            np.testing.assert_allclose(some, gradient_inversion.residual_norm(smaller, WORDS[:100]), atol=1e-5)


class TestThreshold:
    @pytest.mark.parametrize("rounded", [6, 1])
    def test_threshold_maximizes_f1(self, rounded):
        for _ in range(20):
            there = RANDOM.random(300) < 0.1
            found = np.round(RANDOM.beta(2, 2, 300) - 0.25 * there, rounded)
            largest, f1 = gradient_inversion.threshold(found, there)
            best = max(self.f1(found <= limit, there) for limit in np.unique(found))
            assert f1 == pytest.approx(best)
            assert self.f1(found <= largest, there) == pytest.approx(best)

    @staticmethod
    def f1(said: np.ndarray, there: np.ndarray) -> float:
        both = sum(1 for one, other in zip(said, there, strict=True) if one and other)
        return 2 * both / (said.sum() + there.sum())

    def test_threshold_is_at_least_rounding_error(self):
        assert gradient_inversion.threshold(np.zeros(3), np.ones(3, dtype=bool)) == (STRICT, 1.0)


def test_read_returns_exactly_the_words():
    said = gradient_inversion.read(gradient_inversion.space_of(gradient_of(120)), WORDS)
    np.testing.assert_array_equal(np.flatnonzero(said), np.arange(120))


def test_precision_and_recall_equal_manual_counts():
    said, there = RANDOM.random(500) < 0.3, RANDOM.random(500) < 0.2
    both = sum(bool(a and b) for a, b in zip(said, there, strict=True))
    assert gradient_inversion.precision_and_recall(said, there) == (both / sum(said), both / sum(there))
    nothing = np.zeros(500, dtype=bool)
    assert gradient_inversion.precision_and_recall(nothing, there) == (0.0, 0.0)
    assert gradient_inversion.precision_and_recall(said, nothing) == (0.0, 0.0)


class TestFirstKernels:
    def test_lstm_gives_kernels_of_both_directions(self):
        tagger = build(TaggerConfig(hidden_size=4), 6, 5)
        flat = np.zeros(tagger.size)
        views = tagger.views(flat)[0]
        views["forward/kernel"][:] = np.arange(6 * 16).reshape(6, 16)
        views["backward/kernel"][:] = -np.arange(6 * 16).reshape(6, 16)
        found = gradient_inversion.first_kernels(tagger, flat)
        np.testing.assert_array_equal(found[:, :16], np.arange(6 * 16).reshape(6, 16))
        np.testing.assert_array_equal(found[:, 16:], -found[:, :16])

    def test_window_gives_kernel_of_the_token_itself(self):
        tagger = build(TaggerConfig(name="linear-softmax", window=1), 6, 5)
        flat = np.zeros(tagger.size)
        tagger.views(flat)[1]["kernel"][:6] = 1.0
        found = gradient_inversion.first_kernels(tagger, flat)
        assert found.shape == (6, 5)
        assert found.all()

    def test_other_first_layers_are_rejected(self):
        with pytest.raises(ValueError, match=r"neither .*LSTM nor dense"):
            gradient_inversion.first_kernels(stack(4, (Tanh(4),), Softmax(4)), np.zeros(0))

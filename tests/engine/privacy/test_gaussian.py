"""The compiled noise against published vectors, against float64, and by statistics."""

import numba
import numpy as np
import pytest
from scipy import stats

from engine.privacy import gaussian

# Counter, key, result: the known answers published with Random123 (kat_vectors, "philox4x32 10").
KNOWN = [
    ("00000000 00000000 00000000 00000000", "00000000 00000000", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0", "d16cfe09 94fdcceb 5001e420 24126ea1"),
]


def words(text: str) -> list[np.uint32]:
    return [np.uint32(int(word, 16)) for word in text.split()]


def normal(size: int, key: tuple[int, int, int, int] = (1, 2, 3, 4), std: float = 1.0) -> np.ndarray:
    total = np.zeros(size, dtype=np.float32)
    gaussian.add_normal(total, np.array(key, dtype=np.uint32), np.float32(std))
    return total


@pytest.mark.parametrize(("counter", "key", "expected"), KNOWN)
def test_philox_gives_the_published_vectors(counter: str, key: str, expected: str) -> None:
    lanes = [np.array([word], dtype=np.uint32) for word in words(counter)]
    gaussian.philox(*lanes, *words(key))
    assert [lane[0] for lane in lanes] == words(expected)


def test_normal_pairs_equal_box_and_muller_in_float64() -> None:
    random = np.random.default_rng(0)
    u, v = (random.integers(0, 2**32, 200_000, dtype=np.uint32) for _ in range(2))
    u[:5], v[:5] = [0, 1, 2**32 - 1, 2**31, 2**31 - 1], [0, 2**29 - 1, 2**29, 2**30 + 2**29, 2**32 - 1]
    x, y = np.empty(u.size, np.float32), np.empty(u.size, np.float32)
    gaussian.normal_pairs(u, v, x, y)
    radius, angle = np.sqrt(-2 * np.log((u + 0.5) / 2**32)), 2 * np.pi * v / 2**32
    # Near u = 2³² float32 tells neighbours apart only to 2⁻²⁴, which moves a radius near 0 by up to 3·10⁻⁴.
    np.testing.assert_allclose(x, radius * np.cos(angle), atol=3e-4)
    np.testing.assert_allclose(y, radius * np.sin(angle), atol=3e-4)
    assert np.abs(x - radius * np.cos(angle)).mean() < 1e-7


def test_draws_are_normal_and_no_other_spread_passes() -> None:
    p_values = [stats.kstest(normal(100_000, (seed, 7, 8, 9)), "norm").pvalue for seed in range(30)]
    assert stats.kstest(p_values, "uniform").pvalue > 0.01
    assert stats.kstest(normal(100_000), "norm", args=(0, 1.02)).pvalue < 1e-3


def test_tails_are_as_heavy_as_they_should_be() -> None:
    draws = np.abs(normal(8_000_000))
    for bound in (3.0, 4.0, 5.0):
        expected = 2 * stats.norm.sf(bound) * draws.size
        assert abs((draws > bound).sum() - expected) < 5 * np.sqrt(expected)


def test_draws_of_one_call_and_of_two_keys_are_uncorrelated() -> None:
    one, other = normal(1_000_000), normal(1_000_000, (1, 2, 3, 5))
    lags = [1, 2, 511, 512, 1024, 2048, 2049]
    pairs = [(one[:-lag], one[lag:]) for lag in lags] + [(one, other), (one, normal(1_000_000, (2, 2, 3, 4)))]
    for a, b in pairs:
        for power in (1, 2):
            assert abs(np.corrcoef(a**power, b**power)[0, 1]) * np.sqrt(a.size) < 5


def test_any_length_and_any_number_of_threads_give_the_same_draws() -> None:
    whole = normal(10_000)
    np.testing.assert_array_equal(normal(5), whole[:5])
    np.testing.assert_array_equal(normal(2049), whole[:2049])
    threads = numba.get_num_threads()
    try:
        numba.set_num_threads(1)
        np.testing.assert_array_equal(normal(10_000), whole)
    finally:
        numba.set_num_threads(threads)
    assert normal(0).size == 0


def test_noise_is_added_to_what_is_there() -> None:
    total = np.full(3000, 5.0, dtype=np.float32)
    gaussian.add_normal(total, np.array([1, 2, 3, 4], dtype=np.uint32), np.float32(0.5))
    np.testing.assert_allclose(total, 5 + 0.5 * normal(3000), rtol=1e-6)

"""The compiled noise compared with published vectors, a second ChaCha20 and float64, and by statistical tests."""

import math

import numba
import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from scipy import stats

from engine.privacy import gaussian_sampler

COUNTING = bytes(range(32)).hex()
ZERO_KEY = "00" * 32

# Key, counter, nonce, key stream block.
RFC = {
    # RFC 8439, section 2.3.2.
    "2.3.2": (COUNTING, 1, "000000090000004a00000000",
        "10f1e7e4d13b5915500fdd1fa32071c4c7d1f4c733c068030422aa9ac3d46c4e"
        "d2826446079faa0914c2d705d98b02a2b5129cd1de164eb9cbd083e8a2503c4e"),
    # Section 2.4.2: the two blocks under the plaintext.
    "2.4.2, first": (COUNTING, 1, "000000000000004a00000000",
        "224f51f3401bd9e12fde276fb8631ded8c131f823d2c06e27e4fcaec9ef3cf78"
        "8a3b0aa372600a92b57974cded2b9334794cba40c63e34cdea212c4cf07d41b7"),
    "2.4.2, second": (COUNTING, 2, "000000000000004a00000000",
        "69a6749f3f630f4122cafe28ec4dc47e26d4346d70b98c73f3e9c53ac40c5945"
        "398b6eda1a832c89c167eacd901d7e2bf363740373201aa188fbbce83991c4ed"),
    # Appendix A.1, test vectors 1 to 5.
    "A.1, 1": (ZERO_KEY, 0, "00" * 12,
        "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7"
        "da41597c5157488d7724e03fb8d84a376a43b8f41518a11cc387b669b2ee6586"),
    "A.1, 2": (ZERO_KEY, 1, "00" * 12,
        "9f07e7be5551387a98ba977c732d080dcb0f29a048e3656912c6533e32ee7aed"
        "29b721769ce64e43d57133b074d839d531ed1f28510afb45ace10a1f4b794d6f"),
    "A.1, 3": ("00" * 31 + "01", 1, "00" * 12,
        "3aeb5224ecf849929b9d828db1ced4dd832025e8018b8160b82284f3c949aa5a"
        "8eca00bbb4a73bdad192b5c42f73f2fd4e273644c8b36125a64addeb006c13a0"),
    "A.1, 4": ("00ff" + "00" * 30, 2, "00" * 12,
        "72d54dfbf12ec44b362692df94137f328fea8da73990265ec1bbbea1ae9af0ca"
        "13b25aa26cb4a648cb9b9d1be65b2c0924a66c54d545ec1b7374f4872e99f096"),
    "A.1, 5": (ZERO_KEY, 0, "00" * 11 + "02",
        "c2c64d378cd536374ae204b9ef933fcd1a8b2288b3dfa49672ab765b54ee27c7"
        "8a970e0e955c14f3a88e741b97c286f75f8fc299e8148362fa198a39531bed6d"),
}  # fmt: skip
KEYS = [bytes(32), bytes(range(32)), bytes([255]) * 32, np.random.default_rng(0).bytes(32)]


def words_of(data: bytes) -> np.ndarray:
    """Return a read-only array, as the engine passes keys: a writable array would compile everything again."""
    return np.frombuffer(data, dtype="<u4")


def blocks(key: bytes, counter: int, nonce: bytes, number: int) -> bytes:
    """Return the engine's key stream, block by block."""
    words = np.empty((16, number), np.uint32)
    gaussian_sampler.chacha20(words, words_of(key), counter, words_of(nonce))
    return words.T.astype("<u4").tobytes()


def key_of(*numbers: int) -> np.ndarray:
    return words_of(np.array([*numbers, *[0] * (8 - len(numbers))], dtype="<u4").tobytes())


def normal(size: int, key: tuple[int, ...] = (1, 2, 3, 4), std: float = 1.0) -> np.ndarray:
    total = np.zeros(size, dtype=np.float32)
    gaussian_sampler.add_normal(total, key_of(*key), np.float32(std))
    return total


def box_muller(u: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Compute Box and Muller (1958) in float64; u in (0, 1), v in [0, 1)."""
    radius = np.sqrt(-2 * np.log(u))
    return radius * np.cos(2 * np.pi * v), radius * np.sin(2 * np.pi * v)


@pytest.mark.parametrize("name", RFC)
def test_key_stream_equals_rfc_vectors(name: str) -> None:
    key, counter, nonce, expected = RFC[name]
    assert blocks(bytes.fromhex(key), counter, bytes.fromhex(nonce), 1).hex() == expected


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("counter", [0, 1, 255, 256, 2**31, 2**32 - 300])
def test_key_stream_equals_cryptography_library(key: bytes, counter: int) -> None:
    for nonce in (bytes(12), b"\1" + bytes(11), bytes(range(12))):
        start = counter.to_bytes(4, "little") + nonce
        theirs = Cipher(algorithms.ChaCha20(key, start), mode=None).encryptor().update(bytes(64 * 300))
        assert blocks(key, counter, nonce, 300) == theirs


def test_draws_equal_box_muller_of_library_key_stream() -> None:
    """The whole path from key to noise: stretches of 256 blocks are interleaved word by word."""
    key, size = np.random.default_rng(1).bytes(32), 3 * 4096
    stream = Cipher(algorithms.ChaCha20(key, bytes(16)), mode=None).encryptor().update(bytes(4 * size))
    words = np.frombuffer(stream, dtype="<u4").reshape(3, 256, 16).transpose(0, 2, 1).astype(np.float64)
    expected = np.empty_like(words)
    expected[:, 0::2], expected[:, 1::2] = box_muller((words[:, 0::2] + 0.5) / 2**32, words[:, 1::2] / 2**32)
    ours = np.zeros(size, dtype=np.float32)
    gaussian_sampler.add_normal(ours, words_of(key), np.float32(1))
    np.testing.assert_allclose(ours, expected.ravel(), atol=3e-4)


def test_normal_pairs_equal_box_and_muller_in_float64() -> None:
    random = np.random.default_rng(0)
    u, v = (random.integers(0, 2**32, 200_000, dtype=np.uint32) for _ in range(2))
    u[:5], v[:5] = [0, 1, 2**32 - 1, 2**31, 2**31 - 1], [0, 2**29 - 1, 2**29, 2**30 + 2**29, 2**32 - 1]
    x, y = np.empty(u.size, np.float32), np.empty(u.size, np.float32)
    gaussian_sampler.normal_pairs(u, v, x, y)
    first, second = box_muller((u + 0.5) / 2**32, v / 2**32)
    # Near u = 2³², float32 resolves only 2⁻²⁴, which moves a radius near 0 by up to 3·10⁻⁴.
    np.testing.assert_allclose(x, first, atol=3e-4)
    np.testing.assert_allclose(y, second, atol=3e-4)
    assert np.abs(x - first).mean() < 1e-7


class TestTail:
    """Radius words below 2¹⁶ get 32 more bits: 32 bits alone would end at 6.8 standard deviations, in coarse steps."""

    @staticmethod
    def refined(words: list[int], counter: int = 5) -> np.ndarray:
        """Return the radii of pairs with these radius words, one per row pair, in one block."""
        block = np.zeros((16, 1), np.uint32)
        block[0 : 2 * len(words) : 2, 0] = words
        block[2 * len(words) :: 2, 0] = 2**31  # rows that remain unchanged
        draws = np.full((16, 1), np.nan, np.float32)
        gaussian_sampler.refine_pairs(block, draws, key_of(1, 2, 3), counter)
        return np.hypot(draws[0::2, 0], draws[1::2, 0])[: len(words)]

    @staticmethod
    def more_bits(number: int, counter: int = 5) -> np.ndarray:
        """Return the additional bits: the same counter under another nonce."""
        stream = blocks(key_of(1, 2, 3).tobytes(), counter, b"\1" + bytes(11), 1)
        return np.frombuffer(stream, dtype="<u4").astype(np.float64)[:number]

    def test_tail_radius_has_64_bits(self) -> None:
        words = [0, 1, 2, 100, 2**15, 2**16 - 1]
        low = self.more_bits(len(words))
        for place, found in enumerate(self.refined(words)):
            uniform = (words[place] + (low[place] + 0.5) / 2**32) / 2**32
            assert found == pytest.approx(math.sqrt(-2 * math.log(uniform)), rel=2e-7)

    def test_pairs_of_a_block_have_different_bits(self) -> None:
        radii = self.refined([0] * 8)
        assert len(set(radii.tolist())) == 8

    def test_tail_reaches_beyond_nine_deviations(self) -> None:
        """A zero word gives a radius of √(−2 ln((k + ½)/2⁶⁴)): at least √(64 ln 2) = 6.66, and up to 9.4."""
        radii = np.array([self.refined([0] * 8, counter) for counter in range(200)])
        assert radii.min() > 6.66
        # The 32 additional bits are uniform: −2 ln of them is exponential above the threshold.
        assert stats.kstest(np.exp(-(radii.ravel() ** 2) / 2) * 2**32, "uniform").pvalue > 1e-3
        assert math.sqrt(-2 * math.log(0.5 / 2**64)) == pytest.approx(9.4926, abs=1e-4)

    def test_tail_is_continuous_at_the_threshold(self) -> None:
        border = 2**16
        assert np.isnan(self.refined([border])[0])
        below = self.refined([border - 1])[0]
        x, y = (np.empty(1, np.float32) for _ in range(2))
        gaussian_sampler.normal_pairs(np.array([border], np.uint32), np.zeros(1, np.uint32), x, y)
        # √(−2 ln 2⁻¹⁶) = 4.7096, where one word is a step of 1/(2¹⁶ · 4.71).
        assert below > x[0] == pytest.approx(4.70964, abs=2e-5)
        assert below - x[0] < 2 / (border * 4.7)

    def test_tail_angle_comes_from_the_other_word(self) -> None:
        block, draws = np.zeros((16, 1), np.uint32), np.zeros((16, 1), np.float32)
        block[0::2, 0], block[1::2, 0] = 7, np.arange(8) * 2**29
        gaussian_sampler.refine_pairs(block, draws, key_of(1, 2, 3), 0)
        found = np.arctan2(draws[1::2, 0], draws[0::2, 0]) % (2 * np.pi)
        np.testing.assert_allclose(found, np.arange(8) * np.pi / 4, atol=1e-6)

    def test_counts_beyond_each_bound_are_binomial(self) -> None:
        """Two-sided, each with a false-alarm rate of 1e-6 for a correct generator."""
        number, bounds = 40_000_000, (3.0, 4.0, 4.8, 5.0, 5.3)
        draws = np.abs(normal(number))
        for bound in bounds:
            low, high = stats.binom.ppf([5e-7, 1 - 5e-7], number, 2 * stats.norm.sf(bound))
            assert low <= (draws > bound).sum() <= high, bound
        assert not np.isnan(draws).any()
        assert draws.max() < 9.5


def test_draws_are_standard_normal() -> None:
    p_values = [stats.kstest(normal(100_000, (seed, 7, 8, 9)), "norm").pvalue for seed in range(30)]
    assert stats.kstest(p_values, "uniform").pvalue > 0.01
    assert stats.kstest(normal(100_000), "norm", args=(0, 1.05)).pvalue < 1e-6


def test_draws_of_one_call_and_of_two_keys_are_uncorrelated() -> None:
    one, other = normal(1_000_000), normal(1_000_000, (1, 2, 3, 5))
    lags = [1, 2, 255, 256, 511, 512, 4095, 4096]
    others = [other, normal(1_000_000, (2, 2, 3, 4)), normal(1_000_000, (1, 2, 3, 4, 0, 0, 0, 1))]
    pairs = [(one[:-lag], one[lag:]) for lag in lags] + [(one, each) for each in others]
    for a, b in pairs:
        for power in (1, 2):
            assert abs(np.corrcoef(a**power, b**power)[0, 1]) * np.sqrt(a.size) < 5


def test_draws_are_independent_of_length_and_threads() -> None:
    whole = normal(10_000)
    np.testing.assert_array_equal(normal(5), whole[:5])
    np.testing.assert_array_equal(normal(4097), whole[:4097])
    numba.set_num_threads(numba.config.NUMBA_NUM_THREADS)  # type: ignore[attr-defined]
    np.testing.assert_array_equal(normal(10_000), whole)
    assert normal(0).size == 0


def test_noise_is_added_to_the_array() -> None:
    total = np.full(3000, 5.0, dtype=np.float32)
    gaussian_sampler.add_normal(total, key_of(1, 2, 3, 4), np.float32(0.5))
    np.testing.assert_allclose(total, 5 + 0.5 * normal(3000), rtol=1e-6)

"""Dropout masks, compared with the same draws in Python integers."""

import numpy as np
import pytest

from engine.training.dropout import chances_of, draw_kept

WORD = 2**64


def mixed(value: int) -> int:
    """The finaliser of SplitMix64 (Steele, Lea and Flood 2014)."""
    value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9 % WORD
    value = (value ^ value >> 27) * 0x94D049BB133111EB % WORD
    return value ^ value >> 31


def pieces(chance: int, tokens: int, width: int) -> list[list[int]]:
    """Return numbers of 16 bits, four per draw, with a new draw for each token."""
    state, found = mixed(chance), []
    for _ in range(tokens):
        line: list[int] = []
        while len(line) < width:
            state = (state + 0x9E3779B97F4A7C15) % WORD
            line += [mixed(state) >> 16 * part & 0xFFFF for part in range(4)]
        found.append(line[:width])
    return found


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("width", [1, 3, 4, 5, 8, 9, 130])
@pytest.mark.parametrize("rate", [0.2, 0.5, 0.75])
def test_dropped_values_match_the_draws(kind: type, width: int, rate: float) -> None:
    lengths = np.array([30, 4, 1])
    chances = np.random.default_rng(0).integers(0, WORD, 3, dtype=np.uint64)
    found = np.ones((lengths.sum(), width), kind)
    draw_kept(chances, np.cumsum(lengths) - lengths, lengths, rate, found)
    drawn = np.concatenate([pieces(int(chance), int(n), width) for chance, n in zip(chances, lengths, strict=True)])
    border = round(rate * 2**16)
    np.testing.assert_array_equal(found, np.where(drawn >= border, kind(2**16 / (2**16 - border)), kind(0)))


def test_chances_depend_on_step_and_sentence() -> None:
    sentences = np.array([0, 3, 2**40])
    expected = [mixed(77 ^ mixed(int(number) * 0x9E3779B97F4A7C15 % WORD)) for number in sentences]
    assert chances_of(77, sentences).tolist() == expected

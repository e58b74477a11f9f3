"""Decoding against every sequence there is."""

import itertools

import numpy as np
import pytest

from engine.scoring import entities
from engine.taggers.decoding import Decoder

TAGS = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")


def well_formed(tags: tuple[str, ...]) -> bool:
    """Whether every I- continues an entity of its type, worked out from the entities that are found."""
    inside = sum(end - start for _, start, end in entities(tags))
    return inside == sum(tag != "O" for tag in tags)


@pytest.mark.parametrize("length", [1, 2, 3, 5])
@pytest.mark.parametrize("forbid", [False, True])
@pytest.mark.parametrize("chain", [False, True])
def test_the_best_of_all_sequences_is_found(length: int, forbid: bool, chain: bool) -> None:
    random = np.random.default_rng(length)
    for _ in range(20):
        scores = random.standard_normal((length, len(TAGS)))
        transitions = 2 * random.standard_normal((len(TAGS), len(TAGS))) if chain else None
        sequences = [
            s
            for s in itertools.product(range(len(TAGS)), repeat=length)
            if not forbid or well_formed(tuple(TAGS[i] for i in s))
        ]

        def value(s: tuple[int, ...], scores: np.ndarray = scores, chain: np.ndarray | None = transitions) -> float:
            pairs = 0.0 if chain is None else sum(chain[i, j] for i, j in itertools.pairwise(s))
            return sum(scores[t, i] for t, i in enumerate(s)) + pairs

        found = Decoder(TAGS, well_formed=forbid).best(scores, np.array([length]), transitions)
        assert tuple(found) == max(sequences, key=value)


def test_sentences_do_not_touch_each_other() -> None:
    random = np.random.default_rng(0)
    scores, transitions = random.standard_normal((9, 5)).astype(np.float32), random.standard_normal((5, 5))
    decoder = Decoder(TAGS, well_formed=True)
    together = decoder.best(scores, np.array([4, 3, 2]), transitions)
    apart = [decoder.best(scores[a:b], np.array([b - a]), transitions) for a, b in itertools.pairwise([0, 4, 7, 9])]
    np.testing.assert_array_equal(together, np.concatenate(apart))

"""Decoding compared with an exhaustive search over all sequences."""

import itertools
import re
from collections.abc import Callable

import numpy as np
import pytest

from engine.corpus.sentences import entities
from engine.taggers.decoding import Decoder

TAGS = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")
BIOES = (*TAGS, "E-PER", "S-PER", "E-LOC", "S-LOC")


def well_formed(tags: tuple[str, ...]) -> bool:
    """Return whether every I- continues an entity of its type, computed from the entities."""
    inside = sum(end - start for _, start, end in entities(tags))
    return inside == sum(tag != "O" for tag in tags)


def well_formed_bioes(tags: tuple[str, ...]) -> bool:
    """Return whether the tags consist of O, S-X, and B-X … E-X with only I-X between."""
    return bool(re.fullmatch(r"(O |S-\w+ |B-(\w+) (I-\2 )*E-\2 )*", "".join(f"{tag} " for tag in tags)))


@pytest.mark.parametrize(
    ("tags", "fits", "length"),
    [(TAGS, well_formed, n) for n in (1, 2, 3, 5)] + [(BIOES, well_formed_bioes, n) for n in (1, 2, 3, 4)],
)
@pytest.mark.parametrize("forbid", [False, True])
@pytest.mark.parametrize("chain", [False, True])
def test_best_equals_exhaustive_search(
    tags: tuple[str, ...], fits: Callable[[tuple[str, ...]], bool], length: int, forbid: bool, chain: bool
) -> None:
    random = np.random.default_rng(length)
    sequences = [
        s for s in itertools.product(range(len(tags)), repeat=length) if not forbid or fits(tuple(tags[i] for i in s))
    ]
    for _ in range(20 if len(sequences) < 5_000 else 3):
        scores = random.standard_normal((length, len(tags)))
        transitions = 2 * random.standard_normal((len(tags), len(tags))) if chain else None

        def value(s: tuple[int, ...], scores: np.ndarray = scores, chain: np.ndarray | None = transitions) -> float:
            pairs = 0.0 if chain is None else sum(chain[i, j] for i, j in itertools.pairwise(s))
            return sum(scores[t, i] for t, i in enumerate(s)) + pairs

        found = Decoder(tags, well_formed=forbid).best(scores, np.array([length]), transitions)
        assert tuple(found) == max(sequences, key=value)


@pytest.mark.parametrize(("tags", "fits"), [(TAGS, well_formed), (BIOES, well_formed_bioes)])
def test_exactly_well_formed_sequences_can_be_decoded(
    tags: tuple[str, ...], fits: Callable[[tuple[str, ...]], bool]
) -> None:
    """Each sequence of up to four tags in turn has the highest scores."""
    names = [tags[i] for i in np.random.default_rng(0).permutation(len(tags))]  # columns in any order
    decoder = Decoder(names, well_formed=True)
    for length in range(1, 5):
        wanted = np.array(list(itertools.product(range(len(tags)), repeat=length)))
        scores = 10 * np.eye(len(tags))[wanted.reshape(-1)]
        found = decoder.best(scores, np.full(len(wanted), length), None).reshape(-1, length)
        for row, best in zip(wanted, found, strict=True):
            assert fits(tuple(names[i] for i in best))
            assert (row == best).all() == fits(tuple(names[i] for i in row))


def test_entity_is_closed_at_sentence_end() -> None:
    decoder = Decoder(("O", "B-X", "I-X", "E-X", "S-X"), well_formed=True)
    scores = np.array([[0, 5, 0, 0, 1], [0, 0, 5, 2, 0], [0, 5, 0, 0, 4], [3.0, 0, 0, 0, 0]])
    assert decoder.best(scores, np.array([2, 1, 1]), None).tolist() == [1, 3, 4, 0]


def test_sentences_are_decoded_independently() -> None:
    random = np.random.default_rng(0)
    scores, transitions = random.standard_normal((9, 5)).astype(np.float32), random.standard_normal((5, 5))
    decoder = Decoder(TAGS, well_formed=True)
    together = decoder.best(scores, np.array([4, 3, 2]), transitions)
    apart = [decoder.best(scores[a:b], np.array([b - a]), transitions) for a, b in itertools.pairwise([0, 4, 7, 9])]
    np.testing.assert_array_equal(together, np.concatenate(apart))

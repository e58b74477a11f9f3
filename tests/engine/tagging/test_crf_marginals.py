"""Confidence compared with a float64 sum over all tag sequences."""

import itertools

import numpy as np
import pytest

from engine.corpus.sentences import entities
from engine.corpus.tag_schemes import from_bioes, tags_of
from engine.taggers.decoding import Decoder
from engine.tagging.crf_marginals import chain, confidences

SCHEMES = {"bio2": tags_of(["A", "B"]), "bioes": tags_of(["A"], "BIES")}


def well_formed(tags, scheme) -> bool:
    """Check the definition of the schemes tag by tag."""
    for before, tag in itertools.pairwise(["O", *tags, "O"]):
        if tag[0] in "IE" and (before[0] not in "BI" or before[2:] != tag[2:]):
            return False
        if scheme == "bioes" and before[0] in "BI" and tag[0] not in "IE":
            return False
    return True


def sequence_probabilities(tags, scores, transitions, scheme):
    """Return the probability of each well-formed sequence, by its tags."""
    log = {}
    for numbers in itertools.product(range(len(tags)), repeat=len(scores)):
        named = [tags[number] for number in numbers]
        if well_formed(named, scheme):
            log[numbers] = sum(scores[t, number] for t, number in enumerate(numbers)) + sum(
                transitions[one, other] for one, other in itertools.pairwise(numbers)
            )
    top = max(log.values())
    total = sum(np.exp(value - top) for value in log.values())
    return {numbers: np.exp(value - top) / total for numbers, value in log.items()}


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("chained", [True, False])
def test_confidences_equal_enumerated_marginals(scheme, chained):
    tags, random = SCHEMES[scheme], np.random.default_rng(3)
    lengths = np.array([4, 1, 3, 2])
    scores = random.normal(0, 2, (lengths.sum(), len(tags))).astype(np.float32)
    transitions = random.normal(0, 1, (len(tags), len(tags))).astype(np.float32) if chained else None
    best = Decoder(tags, well_formed=True).best(scores, lengths, transitions)
    firsts = np.cumsum(lengths) - lengths
    spans, expected_entities, expected_tokens = [], [], []
    for first, length in zip(firsts, lengths, strict=True):
        own = slice(first, first + length)
        weights = np.zeros((len(tags), len(tags))) if transitions is None else transitions.astype(np.float64)
        every = sequence_probabilities(tags, scores[own].astype(np.float64), weights, scheme)
        assert max(every, key=every.get) == tuple(best[own])
        for t in range(length):
            expected_tokens.append(sum(p for numbers, p in every.items() if numbers[t] == best[first + t]))
        named = {numbers: list(entities(from_bioes([tags[n] for n in numbers]))) for numbers in every}
        for name in named[tuple(best[own])]:
            spans.append((first + name[1], first + name[2] - 1))
            expected_entities.append(sum(p for numbers, p in every.items() if name in named[numbers]))
    assert spans
    tokens, names = confidences(chain(tags, transitions), scores, lengths, best, np.array(spans))
    np.testing.assert_allclose(tokens, expected_tokens, rtol=1e-9)
    np.testing.assert_allclose(names, expected_entities, rtol=1e-9)


def test_extreme_scores_give_probabilities():
    tags = SCHEMES["bio2"]
    scores = np.full((3, len(tags)), -1e5, np.float32)
    scores[:, 2] = 1e5  # I-A, which cannot begin a sentence; of the tags that can, B-A allows the others to follow
    best = Decoder(tags, well_formed=True).best(scores, np.array([3]), None)
    tokens, names = confidences(chain(tags, None), scores, np.array([3]), best, np.array([[0, 2]]))
    assert [tags[number] for number in best] == ["B-A", "I-A", "I-A"]
    assert ((tokens >= 0) & (tokens <= 1)).all()
    assert ((names >= 0) & (names <= 1)).all()


def test_confidences_of_no_tokens():
    tokens, names = confidences(
        chain(SCHEMES["bio2"], None), np.zeros((0, 5)), np.zeros(0, int), np.zeros(0, int), np.zeros((0, 2), int)
    )
    assert len(tokens) == len(names) == 0

"""Counting queries with calibrated noise: clipping by hand, composition against dp_accounting and closed forms."""

import math
from collections import Counter

import dp_accounting
import numpy as np
import pytest
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant

from engine.corpus import synthetic
from engine.corpus.sentences import entities
from engine.lessons import counting_queries
from engine.lessons.noise_mechanisms import fitting

DELTA = 1e-6


@pytest.fixture(scope="module")
def letters():
    return counting_queries.letters()


def test_letter_counts_equal_manual_counts(letters):
    corpus = synthetic.corpus()
    families, places = Counter(), Counter()
    for sentence in (*corpus.train, *corpus.validation, *corpus.test):
        named = [sentence.tokens[stop - 1].title() for kind, _, stop in entities(sentence.tags) if kind == "PER"]
        if named:
            families[named[0]] += 1
            places[named[0]] += "B-LOC" in sentence.tags
    assert sorted(letters.each("person")) == sorted(families.values())
    assert sorted(letters.each("place")) == sorted(places[name] for name in families)
    assert letters.families == len(families)
    hospital = letters.each("hospital").sum()
    assert 0 < hospital < letters.each("organisation").sum()


def test_sensitivity_equals_clip_bound(letters):
    each = letters.each("person")
    most = int(np.argmax(each))
    for clip in (1, 4):
        without = np.delete(each, most)
        with_them = counting_queries.clipped(each, clip, "laplace", 1.0, DELTA)
        assert with_them.count - counting_queries.clipped(without, clip, "laplace", 1.0, DELTA).count == clip
        assert with_them.count + with_them.lost == each.sum()
        assert with_them.noise.scale == clip
        assert with_them.error == pytest.approx(math.sqrt(with_them.lost**2 + 2 * clip**2))
        kept = letters.family != most
        fewer = counting_queries.Letters(letters.families, letters.family[kept], letters.kind[kept], {})
        assert np.abs(letters.table(clip) - fewer.table(clip)).sum() == clip
        assert letters.table(clip).sum() == with_them.count


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
@pytest.mark.parametrize("answers", [1, 7, 60])
def test_composition_equals_dp_accounting(kind, answers):
    epsilon = 0.3
    scale = fitting(kind, epsilon, DELTA).scale
    event = {"laplace": dp_accounting.LaplaceDpEvent, "gaussian": dp_accounting.GaussianDpEvent}[kind](scale)
    exact = PLDAccountant().compose(event, answers).get_epsilon(DELTA)
    assert counting_queries.spent("pld", kind, epsilon, DELTA, answers) == pytest.approx(exact, rel=2e-3)
    renyi = RdpAccountant().compose(event, answers).get_epsilon(DELTA)
    ours = counting_queries.spent("renyi", kind, epsilon, DELTA, answers)
    assert exact * 0.998 <= ours <= renyi * 1.001
    assert ours <= counting_queries.spent("basic", kind, epsilon, DELTA, answers) * (
        1.1 if kind == "gaussian" else 1.0001
    )


def test_basic_composition_is_a_sum():
    assert counting_queries.spent("basic", "laplace", 0.2, DELTA, 9) == pytest.approx(1.8)
    one = counting_queries.spent("basic", "gaussian", 0.2, DELTA, 9) / 9
    sigma = fitting("gaussian", 0.2, DELTA).scale
    assert fitting("gaussian", one, DELTA / 9).scale == pytest.approx(sigma, rel=1e-6)


def test_until_returns_largest_count_within_budget():
    asked = []

    def cost(answers):
        asked.append(answers)
        return 0.1 * answers

    assert counting_queries.until(1.05, cost) == 10
    assert len(asked) < 12
    assert counting_queries.until(0.05, cost) == 0
    assert counting_queries.until(math.inf, cost) == counting_queries.MOST_ANSWERS
    for budget in (0.1, 0.15, 0.2, 0.85):
        assert counting_queries.until(budget, cost) == int(budget / 0.1 + 1e-9)


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_noise_of_separate_answers_composes_to_epsilon(kind):
    noise = counting_queries.apart(kind, 1.0, DELTA, 3, 5)
    if kind == "laplace":
        assert 5 * 3 / noise.scale == pytest.approx(1.0)
    else:
        event = dp_accounting.GaussianDpEvent(noise.scale / 3)
        assert PLDAccountant().compose(event, 5).get_epsilon(DELTA) == pytest.approx(1.0, rel=1e-3)

"""The F1 confidence interval: width compared with the bootstrap over sentences, and coverage."""

import numpy as np
import pytest

from engine.records import Counts, EntityScores, Interval, SentenceSums
from engine.records.confidence_intervals import f1_interval
from engine.scoring import score


def sentences(rng: np.random.Generator, number: int, skill: float) -> np.ndarray:
    """Return (correct, predicted + gold) per sentence. Some have no entity, some many; a hard sentence has several
    errors."""
    names = rng.poisson(1.6, number)
    each = rng.beta(3 * skill, 3 * (1 - skill), number)
    right = rng.binomial(names, each)
    invented = rng.binomial(names - right, 0.7) + rng.poisson(0.1, number)
    return np.stack([right, 2 * names - (names - right) + invented], axis=1)


def interval_of(found: np.ndarray) -> Interval:
    right, named = found.T
    sums = SentenceSums(len(found), int(right @ right), int(right @ named), int(named @ named))
    interval = f1_interval(int(right.sum()), int(named.sum()), sums)
    assert interval is not None
    return interval


@pytest.mark.parametrize("number", [100, 1000, 3453])
@pytest.mark.parametrize("skill", [0.1, 0.5, 0.9])
def test_interval_equals_sentence_bootstrap(number, skill):
    rng = np.random.default_rng(7)
    found = sentences(rng, number, skill)
    draws = rng.multinomial(number, np.full(number, 1 / number), size=4000) @ found
    low, high = np.quantile(2 * draws[:, 0] / draws[:, 1], [0.025, 0.975])
    interval = interval_of(found)
    assert (interval.high - interval.low) / (high - low) == pytest.approx(1, abs=0.08)
    assert (interval.low, interval.high) == pytest.approx((low, high), abs=0.15 * (high - low) + 0.2 / number)


@pytest.mark.parametrize("number", [20, 60, 300])
@pytest.mark.parametrize("skill", [0.3, 0.8, 0.97])
def test_interval_has_nominal_coverage(number, skill):
    rng = np.random.default_rng(11)
    every = sentences(rng, 400_000, skill).sum(axis=0)
    truth = 2 * every[0] / every[1]
    held = [low <= truth <= high for low, high in (interval_of(sentences(rng, number, skill)) for _ in range(2000))]
    # 2,000 trials: 0.95 ± 0.015 (three standard deviations); 20 sentences are few to estimate a variance.
    assert np.mean(held) > (0.91 if number == 20 else 0.93)
    assert np.mean(held) < 0.985


def test_perfect_score_has_nonzero_interval():
    tags = [["B-PER", "I-PER", "O", "B-LOC"]] * 16 + [["O", "B-ORG"]] * 4
    scores = score(tags, tags)
    assert (scores.f1, scores.names) == (1.0, 36)
    interval = scores.f1_interval
    assert interval is not None
    # Wilson's for 20 of 20: n ÷ (n + z²). The bootstrap would give [1, 1].
    assert interval.low == pytest.approx(20 / (20 + 1.959964**2), rel=1e-6)
    assert interval.high == 1.0
    nothing = score(tags, [["O"] * len(sentence) for sentence in tags]).f1_interval
    assert nothing is not None
    assert nothing.low == pytest.approx(0, abs=1e-12)
    assert nothing.high == pytest.approx(1 - 18 / (18 + 1.959964**2), rel=1e-6)  # only 18 entities


def test_sums_are_over_sentences():
    gold = [["B-PER", "O", "B-LOC"], ["O", "O"], ["B-ORG", "I-ORG", "O"]]
    found = [["B-PER", "O", "B-PER"], ["B-LOC", "O"], ["B-ORG", "O", "O"]]
    scores = score(gold, found)
    # correct: 1, 0, 0; predicted + gold: 2 + 2, 0 + 1, 1 + 1
    assert scores.sentences == SentenceSums(3, 1, 4, 16 + 1 + 4)
    assert EntityScores.from_dict(scores.to_dict()).sentences == scores.sentences


def test_correlated_errors_reduce_the_effective_number():
    """100 sentences with all ten entities correct or all ten missed: as informative as 100 entities, not as 1,000."""
    sure = np.array([[10, 20]] * 50 + [[0, 10]] * 50)
    together = interval_of(sure)
    apart = f1_interval(500, 1500, None)
    assert apart is not None
    assert (together.high - together.low) / (apart.high - apart.low) > 2.5


def test_without_sums_the_interval_is_wilsons():
    counts = {"PER": Counts(80, 100, 100)}
    scores = EntityScores(strict=counts, relaxed=counts, token={})
    interval = scores.f1_interval
    assert interval is not None
    wilson = (0.8 + 1.96**2 / 200) / (1 + 1.96**2 / 100)
    assert (interval.low + interval.high) / 2 == pytest.approx(wilson, abs=1e-4)
    assert EntityScores({}, {}, {}).f1_interval is None
    assert "sentences" not in scores.to_dict()


def test_pooled_clients_equal_pooled_sentences():
    parts = {"a": np.array([[1, 3], [2, 4]]), "b": np.array([[0, 1], [5, 11], [1, 2]])}
    scores = {}
    for name, found in parts.items():
        right, named = (int(total) for total in found.sum(axis=0))
        counts = {"PER": Counts(right, named - named // 2, named // 2)}
        squares = (int(found[:, 0] @ found[:, 0]), int(found[:, 0] @ found[:, 1]), int(found[:, 1] @ found[:, 1]))
        scores[name] = EntityScores(counts, counts, {}, SentenceSums(len(found), *squares))
    together = EntityScores.together(scores)
    assert together.f1_interval == interval_of(np.concatenate(list(parts.values())))
    without = EntityScores(scores["a"].strict, {}, {})
    assert EntityScores.together({"a": without, "b": scores["b"]}).sentences is None


def test_sums_are_ignored_in_comparisons():
    counts = {"PER": Counts(1, 2, 3)}
    assert EntityScores(counts, {}, {}) == EntityScores(counts, {}, {}, SentenceSums(1, 2, 3, 4))


def test_interval_is_within_0_and_1_and_contains_f1():
    rng = np.random.default_rng(3)
    for _ in range(500):
        found = sentences(rng, int(rng.integers(1, 12)), float(rng.uniform(0.02, 0.98)))
        if not found[:, 1].sum():
            continue
        interval, f1 = interval_of(found), 2 * found[:, 0].sum() / found[:, 1].sum()
        assert 0 <= interval.low <= f1 + 1e-12
        assert f1 - 1e-12 <= interval.high <= 1

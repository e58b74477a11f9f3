"""Attacks on membership, where who was trained on is made up and what can be told is known."""

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.metrics import roc_auc_score, roc_curve

from engine.privacy.audit import membership


def made_up(models: int, sentences: int, gap: float, *, seed: int = 0, common: bool = True):
    """φ of sentences that are harder or easier, moved by ``gap`` where they were trained on. common: whether all vary
    alike."""
    draw = np.random.default_rng(seed)
    inside = draw.random((models, sentences)) < 0.5
    spread = np.ones(sentences) if common else np.exp(draw.normal(0, 0.7, sentences))
    phi = draw.normal(0, 3, sentences) + gap * inside + spread * draw.normal(size=(models, sentences))
    return phi, inside


def area(attack: str, phi: np.ndarray, inside: np.ndarray) -> float:
    scores = membership.ATTACKS[attack]
    return float(np.mean([membership.area(scores(phi, inside, target), inside[target]) for target in range(4)]))


def test_phi_is_the_log_odds_of_the_true_tags():
    chance = np.array([0.999, 0.5, 1e-3])
    np.testing.assert_allclose(membership.phi_of(-np.log(chance)), np.log(chance / (1 - chance)))
    far = membership.phi_of(np.array([0.0, 1e-15, 900.0]))
    assert np.isfinite(far).all()
    assert far[2] == pytest.approx(-900)


@pytest.mark.parametrize("attack", membership.ATTACKS)
def test_where_nothing_was_learned_nothing_is_told(attack):
    assert area(attack, *made_up(9, 4000, 0.0)) == pytest.approx(0.5, abs=0.02)


@pytest.mark.parametrize("attack", ["LiRA", "Bayes"])
def test_with_many_references_nothing_better_can_be_told(attack):
    """Of two normal distributions one apart, the best area is Φ(1 ÷ √2)."""
    assert area(attack, *made_up(129, 4000, 1.0)) == pytest.approx(norm.cdf(2**-0.5), abs=0.015)


def test_references_tell_more_than_the_model_alone():
    phi, inside = made_up(17, 4000, 1.0)
    alone = area("loss", phi, inside)
    assert alone == pytest.approx(norm.cdf(1 / np.sqrt(2 * 10)), abs=0.02), "sentences differ by 3, noise by 1"
    assert all(area(name, phi, inside) > alone + 0.05 for name in ("LiRA", "Bayes"))


@pytest.mark.parametrize("references", [3, 4, 8])
def test_few_references_are_used_better_by_who_knows_how_few_they_are(references):
    phi, inside = made_up(references + 1, 6000, 1.5, common=False)
    assert area("Bayes", phi, inside) > area("LiRA", phi, inside)


@pytest.mark.parametrize("attack", ["LiRA", "RMIA", "Bayes"])
def test_references_without_the_sentence_are_enough(attack):
    """Of a tagger that was kept: only the last model may have been trained on a sentence."""
    draw = np.random.default_rng(1)
    member = draw.random(4000) < 0.5
    phi = draw.normal(0, 3, 4000) + draw.normal(size=(9, 4000))
    phi[-1] += 2 * member
    inside = np.zeros(phi.shape, dtype=bool)
    inside[-1] = member
    found = membership.area(membership.ATTACKS[attack](phi, inside, 8), member)
    assert found > membership.area(phi[-1], member) + 0.05


def test_a_ratio_is_to_the_mean_of_models_with_and_without():
    phi, inside = made_up(7, 50, 1.0, seed=3)
    chance = 1 / (1 + np.exp(-phi))
    for sentence in range(50):
        groups = [chance[1:, sentence][inside[1:, sentence] == there] for there in (True, False)]
        mean = np.mean([group.mean() for group in groups if len(group)])
        found = membership.rmia(phi, inside, 0)[sentence]
        assert found == pytest.approx(np.log(chance[0, sentence] / mean))


def test_the_prior_of_variances_is_found_again():
    draw = np.random.default_rng(0)
    freedom, scale = 8.0, 0.3
    variances = freedom * scale / draw.chisquare(freedom, 40_000)
    phi = draw.normal(size=(9, 40_000)) * np.sqrt(variances)
    group = membership._groups(np.concatenate([phi, phi[:1]]), np.zeros((10, 40_000), dtype=bool), 9)[1]
    found = membership._prior_of_variance(group)
    assert found == (pytest.approx(freedom, rel=0.1), pytest.approx(scale, rel=0.03))


def test_curves_are_those_of_a_second_library():
    phi, inside = made_up(5, 1000, 1.0, seed=2)
    scores, members = membership.lira(phi, inside, 0), inside[0]
    assert membership.area(scores, members) == pytest.approx(roc_auc_score(members, scores))
    false, true, _ = roc_curve(members, scores, drop_intermediate=False)
    for rate in (0.0, 0.01, 0.1, 0.5, 1.0):
        assert membership.tpr_at_fpr(scores, members, np.array([rate]))[0] == pytest.approx(true[false <= rate].max())


def test_equal_scores_are_caught_together_or_not_at_all():
    scores, members = np.zeros(10), np.arange(10) < 5
    assert membership.area(scores, members) == 0.5
    np.testing.assert_array_equal(membership.tpr_at_fpr(scores, members, np.array([0.0, 0.5, 1.0])), [0.0, 0.0, 1.0])


def test_an_interval_is_clopper_and_pearsons():
    assert membership.interval(0.0, 20) == (0.0, pytest.approx(1 - 0.025 ** (1 / 20)))
    assert membership.interval(1.0, 20) == (pytest.approx(0.025 ** (1 / 20)), 1.0)
    low, high = membership.interval(0.5, 10)
    assert (low, high) == (pytest.approx(0.1871, abs=1e-4), pytest.approx(0.8129, abs=1e-4))


def test_what_epsilon_allows_is_reached_by_randomised_response_and_never_passed():
    """Who answers truly with chance e^ε ÷ (1 + e^ε) has (ε, 0), and its one corner lies on the curve."""
    epsilon = 1.5
    truly = np.exp(epsilon) / (1 + np.exp(epsilon))
    assert membership.allowed(np.array([1 - truly]), epsilon, 0.0)[0] == pytest.approx(truly)
    rates = np.linspace(0, 1, 101)
    line = membership.allowed(rates, epsilon, 1e-3)
    assert line[0] == pytest.approx(1e-3)
    assert line[-1] == 1.0
    assert (np.diff(line) >= 0).all()
    mu = 0.5
    assert (norm.cdf(norm.ppf(rates) + mu) <= membership.allowed(rates, 1.0, 0.0133) + 1e-3).all()
    assert membership.allowed(rates, np.inf, 0.0).min() == 1.0

"""Membership inference on made-up data with known optimal attacks."""

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.metrics import roc_auc_score, roc_curve

from engine.privacy.audit import membership


def made_up_phi(models: int, sentences: int, gap: float, *, seed: int = 0, common: bool = True):
    """Return φ of sentences of different difficulty, raised by ``gap`` for members. ``common``: equal variance for
    all."""
    draw = np.random.default_rng(seed)
    inside = draw.random((models, sentences)) < 0.5
    spread = np.ones(sentences) if common else np.exp(draw.normal(0, 0.7, sentences))
    phi = draw.normal(0, 3, sentences) + gap * inside + spread * draw.normal(size=(models, sentences))
    return phi, inside


def area(attack: str, phi: np.ndarray, inside: np.ndarray) -> float:
    scores = membership.ATTACKS[attack]
    return float(np.mean([membership.area(scores(phi, inside, target), inside[target]) for target in range(4)]))


def test_phi_is_log_odds_of_true_tags():
    chance = np.array([0.999, 0.5, 1e-3])
    np.testing.assert_allclose(membership.phi_of(-np.log(chance)), np.log(chance / (1 - chance)))
    far = membership.phi_of(np.array([0.0, 1e-15, 900.0]))
    assert np.isfinite(far).all()
    assert far[2] == pytest.approx(-900)


@pytest.mark.parametrize("attack", membership.ATTACKS)
def test_area_is_half_without_learning(attack):
    assert area(attack, *made_up_phi(9, 4000, 0.0)) == pytest.approx(0.5, abs=0.02)


@pytest.mark.parametrize("attack", ["LiRA", "Bayes"])
def test_attacks_with_many_references_are_optimal(attack):
    """For two normal distributions one standard deviation apart, the best area is Φ(1 ÷ √2)."""
    assert area(attack, *made_up_phi(129, 4000, 1.0)) == pytest.approx(norm.cdf(2**-0.5), abs=0.015)


def test_reference_models_improve_the_attack():
    phi, inside = made_up_phi(17, 4000, 1.0)
    alone = area("loss", phi, inside)
    assert alone == pytest.approx(norm.cdf(1 / np.sqrt(2 * 10)), abs=0.02), "sentences differ by 3, noise by 1"
    assert all(area(name, phi, inside) > alone + 0.05 for name in ("LiRA", "Bayes"))


@pytest.mark.parametrize("references", [3, 4, 8])
def test_bayes_beats_lira_with_few_references(references):
    phi, inside = made_up_phi(references + 1, 6000, 1.5, common=False)
    assert area("Bayes", phi, inside) > area("LiRA", phi, inside)


@pytest.mark.parametrize("attack", ["LiRA", "RMIA", "Bayes"])
def test_references_without_the_sentence_improve_the_attack(attack):
    """Attack on a saved model: only the last model may have been trained on a sentence."""
    draw = np.random.default_rng(1)
    member = draw.random(4000) < 0.5
    phi = draw.normal(0, 3, 4000) + draw.normal(size=(9, 4000))
    phi[-1] += 2 * member
    inside = np.zeros(phi.shape, dtype=bool)
    inside[-1] = member
    found = membership.area(membership.ATTACKS[attack](phi, inside, 8), member)
    assert found > membership.area(phi[-1], member) + 0.05


def test_rmia_divides_by_mean_over_in_and_out_models():
    phi, inside = made_up_phi(7, 50, 1.0, seed=3)
    chance = 1 / (1 + np.exp(-phi))
    for sentence in range(50):
        groups = [chance[1:, sentence][inside[1:, sentence] == there] for there in (True, False)]
        mean = np.mean([group.mean() for group in groups if len(group)])
        found = membership.rmia(phi, inside, 0)[sentence]
        assert found == pytest.approx(np.log(chance[0, sentence] / mean))


def test_prior_of_variance_is_recovered():
    draw = np.random.default_rng(0)
    freedom, scale = 8.0, 0.3
    variances = freedom * scale / draw.chisquare(freedom, 40_000)
    phi = draw.normal(size=(9, 40_000)) * np.sqrt(variances)
    group = membership._groups(np.concatenate([phi, phi[:1]]), np.zeros((10, 40_000), dtype=bool), 9)[1]
    found = membership._prior_of_variance(group)
    assert found == (pytest.approx(freedom, rel=0.1), pytest.approx(scale, rel=0.03))


def test_area_and_tpr_equal_scikit_learn():
    phi, inside = made_up_phi(5, 1000, 1.0, seed=2)
    scores, members = membership.lira(phi, inside, 0), inside[0]
    assert membership.area(scores, members) == pytest.approx(roc_auc_score(members, scores))
    false, true, _ = roc_curve(members, scores, drop_intermediate=False)
    for rate in (0.0, 0.01, 0.1, 0.5, 1.0):
        assert membership.tpr_at_fpr(scores, members, np.array([rate]))[0] == pytest.approx(true[false <= rate].max())


def test_tied_scores_share_one_threshold():
    scores, members = np.zeros(10), np.arange(10) < 5
    assert membership.area(scores, members) == 0.5
    np.testing.assert_array_equal(membership.tpr_at_fpr(scores, members, np.array([0.0, 0.5, 1.0])), [0.0, 0.0, 1.0])


def test_interval_is_clopper_pearson():
    assert membership.interval(0.0, 20) == (0.0, pytest.approx(1 - 0.025 ** (1 / 20)))
    assert membership.interval(1.0, 20) == (pytest.approx(0.025 ** (1 / 20)), 1.0)
    low, high = membership.interval(0.5, 10)
    assert (low, high) == (pytest.approx(0.1871, abs=1e-4), pytest.approx(0.8129, abs=1e-4))


def test_allowed_curve_is_attained_by_randomised_response():
    """Randomised response with truth probability e^ε ÷ (1 + e^ε) is (ε, 0)-DP, and its one corner is on the curve."""
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

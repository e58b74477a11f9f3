"""A privacy claim: success rates against brute force, persons, and ε with a missing fact."""

import math

import pytest
from scipy.stats import norm

from engine.errors import InvalidConfig
from engine.privacy import claim
from engine.privacy.accounting import gaussian_epsilon
from engine.privacy.assumptions import epsilon
from engine.privacy.claim import FACTS, Claim, of_person, right


@pytest.mark.parametrize("value", [0.1, 0.7, 3.0])
def test_randomised_response_reaches_the_success_rate(value) -> None:
    """The mechanism tells the truth with probability e^ε / (1 + e^ε), and an attacker believes it."""
    assert right(value, 0.0) == pytest.approx(math.exp(value) / (1 + math.exp(value)))


@pytest.mark.parametrize("sigma", [0.3, 1.0, 4.0])
@pytest.mark.parametrize("delta", [1e-6, 1e-3, 0.2])
def test_the_best_attack_on_gaussian_noise_stays_below_the_success_rate(sigma, delta) -> None:
    best = norm.cdf(1 / (2 * sigma))  # the likelihood ratio test between N(0, σ²) and N(1, σ²)
    assert best <= right(gaussian_epsilon(1 / sigma, delta), delta)


def test_success_rate_at_the_ends() -> None:
    assert right(0.0, 0.0) == 0.5
    assert right(math.inf, 0.0) == right(1e9, 0.0) == right(0.3, 1.0) == 1.0


@pytest.mark.parametrize("records", [1, 2, 5])
def test_a_person_is_a_group_of_records(records) -> None:
    """With Gaussian noise the sum changes k times as much; its exact δ at kε is below the general rule's."""
    one = gaussian_epsilon(0.4, 1e-5)
    total, delta = of_person(Claim(epsilon=one, delta=1e-5, records=records))
    change = 0.4 * records
    exact = norm.cdf(change / 2 - total / change) - math.exp(total) * norm.cdf(-change / 2 - total / change)
    assert total == pytest.approx(records * one)
    assert exact <= delta * (1 + 1e-6)
    assert of_person(Claim(epsilon=one, unit="person", records=9)) == (one, 1e-5)


def test_large_groups_have_no_limit() -> None:
    assert of_person(Claim(epsilon=8.0, records=10_000)) == (80_000.0, 1.0)
    assert of_person(Claim(epsilon=8.0, delta=0.0, records=10_000)) == (80_000.0, 0.0)


class TestMissingFacts:
    CLAIM = Claim(epsilon=0.7, examples=2000, batch_size=200, epochs=2.0)

    def test_the_assumed_training_has_the_claimed_epsilon(self) -> None:
        made = claim.training(self.CLAIM)
        assert made is not None
        assert epsilon(made, made.promised) == pytest.approx(0.7, rel=1e-3)

    def test_each_missing_fact_raises_epsilon(self) -> None:
        found = {each.fact: each for each in claim.consequences(self.CLAIM)}
        assert set(found) == {name for name, fact in FACTS.items() if fact.changes}
        assert all(each.epsilon > 0.7 for each in found.values())
        assert found["seed"].epsilon == math.inf
        together = claim.together(self.CLAIM)
        assert together.epsilon > max(found[name].epsilon for name in ("sampling", "neighbours", "trainings"))

    def test_stated_facts_have_no_consequence(self) -> None:
        known = Claim(epsilon=0.7, known=frozenset(FACTS))
        assert claim.consequences(known) == ()
        assert claim.together(known) is None
        assert claim.together(Claim(epsilon=0.7, known=frozenset(FACTS) - {"sampling"})) is None

    def test_pure_differential_privacy_has_no_training(self) -> None:
        pure = Claim(epsilon=4.0, delta=0.0)
        assert claim.training(pure) is None
        assert {each.fact: each.epsilon for each in claim.consequences(pure)} == {
            "sampling": None,
            "neighbours": None,
            "trainings": None,
            "seed": math.inf,
        }


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"epsilon": 0.0}, "epsilon=0, expected more than 0"),
        ({"epsilon": math.nan}, "epsilon=nan, expected more than 0"),
        ({"epsilon": 2000.0}, "epsilon=2000, expected more than 0 and at most 1,000"),
        ({"delta": 1.0}, "delta=1, expected 0, or 1e-50 or more and less than 1"),
        ({"delta": 1e-300}, "delta=1e-300, expected 0, or 1e-50 or more"),
        ({"delta": math.nan}, "delta=nan, expected 0"),
        ({"unit": "word"}, "unit='word', expected one of sentence"),
        ({"records": 0}, "records=0, expected 1 to 10,000"),
        ({"known": frozenset({"moon"})}, "known=moon, expected some of sampling"),
    ],
)
def test_invalid_claims_are_refused(changes, message) -> None:
    with pytest.raises(InvalidConfig, match=message):
        Claim(**({"epsilon": 1.0} | changes))


def test_the_smallest_delta_has_consequences() -> None:
    found = claim.consequences(Claim(epsilon=1.0, delta=claim.LEAST_DELTA, examples=2000, batch_size=200, epochs=2.0))
    assert all(each.epsilon > 1 for each in found)


def test_a_batch_larger_than_the_data_is_refused() -> None:
    with pytest.raises(InvalidConfig, match="batch_size=300, expected at most"):
        claim.training(Claim(epsilon=1.0, examples=200, batch_size=300))

"""Lower bounds: closed forms, brute force over thresholds, simulation, and consistency with the upper bounds."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.stats import norm

from engine.privacy import assumptions
from engine.privacy.accounting import gaussian_epsilon
from engine.privacy.assumptions import Choices, Part, Training, has_incomplete_epoch, printed_row
from engine.privacy.assumptions.lower_bounds import shuffled_lower_bound
from engine.reports.assumptions import incomplete_epochs

TRAINING = Training(examples=14_041, batch_size=256, epochs=10, noise_multiplier=1.0)
DELTA = 1e-5


@pytest.mark.parametrize(("neighbours", "moved"), [("zero-out", 1), ("replace", 2)])
@pytest.mark.parametrize("epochs", [1, 4, 30])
@pytest.mark.parametrize("sigma", [0.7, 2.0, 8.0])
def test_one_batch_per_epoch_gives_exact_epsilon(neighbours, moved, epochs, sigma):
    """With one batch, all is one Gaussian mechanism with ε in closed form."""
    found = shuffled_lower_bound(1, epochs, sigma, DELTA, neighbours)
    exact = gaussian_epsilon(moved * math.sqrt(epochs) / sigma, DELTA)
    assert found <= exact + 1e-9
    assert found == pytest.approx(exact, abs=0.025)


@pytest.mark.parametrize(("batches", "sigma"), [(2, 1.0), (55, 0.5), (439, 0.6)])
def test_one_epoch_equals_best_threshold_test(batches, sigma):
    """Compare with δ(ε) of a test of whether the largest value exceeds C, at the best of many C (Chua et al. 2024,
    theorem 4.2)."""
    thresholds = np.linspace(-4 * sigma, 2 + 9 * sigma, 200_001)

    def above(shift):
        return -np.expm1(norm.logcdf(thresholds, shift, sigma) + (batches - 1) * norm.logcdf(thresholds, 0, sigma))

    one, other = above(2.0), above(1.0)
    by_threshold = brentq(lambda epsilon: (one - math.exp(epsilon) * other).max() - DELTA, 0, 60)
    found = shuffled_lower_bound(batches, 1, sigma, DELTA, "zero-out")
    assert found == pytest.approx(by_threshold, abs=0.03)


@pytest.mark.repeats
def test_bound_equals_simulation():
    """Three epochs of four batches: simulate how often the likelihood ratio of the three maxima exceeds e^ε."""
    random, sigma, batches, epochs, draws, delta = np.random.default_rng(5), 1.5, 4, 3, 400_000, 0.1
    found = shuffled_lower_bound(batches, epochs, sigma, delta, "replace")

    def largest(shift):
        seen = random.normal(0, sigma, (draws, epochs, batches))
        place = random.integers(0, batches, (draws, epochs))
        np.put_along_axis(seen, place[..., None], np.take_along_axis(seen, place[..., None], 2) + shift, 2)
        return seen.max(2)

    def density(values, shift):
        others = norm.cdf(values / sigma)
        one = norm.pdf(values - shift, 0, sigma) * others ** (batches - 1)
        rest = (batches - 1) * norm.cdf(values - shift, 0, sigma) * norm.pdf(values, 0, sigma) * others ** (batches - 2)
        return one + rest

    with_it, without = largest(2.0), largest(0.0)
    ratios = [(np.log(density(each, 2.0)) - np.log(density(each, 0.0))).sum(1) for each in (with_it, without)]
    told = (ratios[0] > found).mean() - math.exp(found) * (ratios[1] > found).mean()
    margin = 4 * math.sqrt(((ratios[0] > found).mean() + math.exp(2 * found) * (ratios[1] > found).mean()) / draws)
    assert told == pytest.approx(delta, abs=margin)
    assert margin < delta / 2, "else the test tells nothing"


@settings(max_examples=25, deadline=None)
@given(
    st.integers(1, 60),
    st.integers(1, 12),
    st.floats(0.4, 10),
    st.sampled_from(["zero-out", "replace", "add-or-remove"]),
    st.booleans(),
)
def test_lower_bound_is_at_most_upper_bound(batches, epochs, sigma, neighbours, shuffled):
    made = Training(examples=10 * batches, batch_size=10, epochs=epochs, noise_multiplier=sigma, shuffled=shuffled)
    choices = Choices(sampling="none" if shuffled else "poisson", neighbours=neighbours)
    least, most = assumptions.at_least(made, choices), assumptions.epsilon(made, choices)
    assert least is None or 0 < least <= most + 1e-6


def test_replace_one_with_sampling_is_between_removal_and_upper_bound():
    least = assumptions.at_least(TRAINING, Choices(neighbours="replace"))
    assert (
        assumptions.epsilon(TRAINING, Choices()) < least < assumptions.epsilon(TRAINING, Choices(neighbours="replace"))
    )


def test_replace_one_with_full_batch_equals_gaussian():
    everybody = Training(examples=100, batch_size=100, epochs=4, noise_multiplier=4.0)
    found = assumptions.at_least(everybody, Choices(neighbours="replace"))
    assert found == pytest.approx(gaussian_epsilon(2 * math.sqrt(4) / 4, DELTA), abs=0.025)


def test_incomplete_epochs_are_ignored():
    whole, more = (
        assumptions.at_least(replace(made, shuffled=True), Choices(sampling="none", neighbours="zero-out"))
        for made in (replace(TRAINING, epochs=2), replace(TRAINING, epochs=2.9))
    )
    assert whole == more
    parts = (Part(14_041, 256, 55 * 2 + 54),)
    assert whole == assumptions.at_least(
        replace(TRAINING, parts=parts, shuffled=True), Choices(sampling="none", neighbours="zero-out")
    )


def test_a_run_of_the_paper_settings_ends_within_an_epoch():
    """Its 4,388 steps are ten epochs of batches of 32 on average, but ten complete epochs have 4,390 batches."""
    paper = printed_row(1.0)
    run = replace(paper, parts=(Part(14_041, 32, 4388),))
    assert [has_incomplete_epoch(made, made.own[0]) for made in (paper, run)] == [False, True]
    bounds = [assumptions.at_least(made, made.promised) for made in (paper, run)]
    assert bounds == pytest.approx([6.68, 6.46], abs=0.005)
    assert incomplete_epochs(paper) == ""
    assert all(number in incomplete_epochs(run) for number in ("4,388", "4,390", "9 of 10"))
    assert "not count" in incomplete_epochs(replace(run, parts=(*run.parts, Part(100, 32, 8))))


@pytest.mark.parametrize(
    "choices",
    [
        Choices(),
        Choices(seed_known=True),
        Choices(sampling="none", sentences=2),
        Choices(sampling="as-poisson"),
        Choices(sampling="none", delta=1e-11),
        Choices(neighbours="replace", whole_client=True),
    ],
)
def test_unsupported_choices_have_no_lower_bound(choices):
    assert assumptions.at_least(TRAINING, choices) is None

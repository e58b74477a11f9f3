"""Privacy losses on a grid compared with sums in float64; ``test_pld.py`` compares them with dp_accounting."""

import dataclasses
import math

import numpy as np
import pytest
from scipy.optimize import brentq

from engine.privacy.pld import LossPmf


def losses(first: int, *masses: float, infinite: float = 0.0, width: float = 0.25) -> LossPmf:
    return LossPmf(width, first, np.array(masses), infinite)


def delta_of(found: LossPmf, epsilon: float) -> float:
    """Return infinity mass + Σ mass · (1 − e^(ε − loss)) over losses above ε."""
    at = (found.first + np.arange(len(found.masses))) * found.width
    above = at > epsilon
    return found.infinity_mass + float(found.masses[above] @ -np.expm1(epsilon - at[above]))


def test_distribution_is_immutable() -> None:
    made = losses(0, 1.0)
    for field in dataclasses.fields(made):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(made, field.name, None)


class TestConnectDots:
    WIDTH = 0.25

    def test_delta_is_exact_on_the_grid_and_convex_between(self) -> None:
        """Here of randomised response: δ(ε) = max(0, p − (1 − p)·e^ε) + max(0, (1 − p) − p·e^ε)."""
        chance = 1 / (1 + math.exp(-0.9))
        grid = np.arange(-6, 7)
        exact = [
            max(0.0, chance - (1 - chance) * math.exp(e)) + max(0.0, 1 - chance - chance * math.exp(e))
            for e in grid * self.WIDTH
        ]
        found = LossPmf.connect_dots(self.WIDTH, -6, np.array(exact))
        assert (found.width, found.first, len(found.masses), found.infinity_mass) == (self.WIDTH, -6, 13, exact[-1])
        assert found.masses.sum() + found.infinity_mass == pytest.approx(1.0)
        np.testing.assert_allclose([delta_of(found, e) for e in grid * self.WIDTH], exact, atol=1e-12)
        # The losses ±0.9 are between grid points; each is split between its two neighbours.
        assert np.flatnonzero(found.masses > 1e-12).tolist() == [2, 3, 9, 10]

    def test_remaining_delta_is_an_infinite_loss(self) -> None:
        found = LossPmf.connect_dots(self.WIDTH, 0, np.array([0.5, 0.4, 0.35]))
        assert found.infinity_mass == 0.35
        assert found.masses.sum() == pytest.approx(0.65)

    def test_increase_by_rounding_adds_no_mass(self) -> None:
        deltas = np.array([0.5, 0.4, 0.4 + 1e-16, 0.4])
        found = LossPmf.connect_dots(self.WIDTH, 0, deltas)
        assert (found.masses >= 0).all()
        assert found.masses.sum() + found.infinity_mass == pytest.approx(1.0)

    def test_delta_that_is_not_convex_has_no_negative_mass(self) -> None:
        found = LossPmf.connect_dots(self.WIDTH, 0, np.array([0.5, 0.5, 0.0]))
        assert found.masses.tolist() == [0.5, 0.0, pytest.approx(0.5 / -math.expm1(-self.WIDTH))]


class TestComposition:
    def test_self_composition_is_repeated_convolution(self) -> None:
        one = losses(-1, 0.25, 0.5, 0.125, infinite=0.125)
        once, three = one.self_compose(1), one.self_compose(3)
        np.testing.assert_allclose(once.masses, one.masses, atol=1e-12)
        expected = np.convolve(np.convolve(one.masses, one.masses), one.masses)
        np.testing.assert_allclose(three.masses, expected, atol=1e-12)
        assert (once.first, three.first, three.width) == (-1, -3, 0.25)
        assert once.infinity_mass == pytest.approx(0.125, abs=1e-12)
        assert three.infinity_mass == pytest.approx(1 - 0.875**3, abs=1e-12)

    def test_truncated_mass_is_an_infinite_loss(self) -> None:
        """1e-15, of both tails together."""
        assert losses(0, 0.5, 0.5).self_compose(4).infinity_mass == pytest.approx(1e-15, rel=1e-6)

    @pytest.mark.parametrize("chance", [0.5, 0.9])
    def test_far_tails_are_truncated(self, chance: float) -> None:
        """And no more than 1e-15 of the probability."""
        many = losses(-1, 1 - chance, 0.0, chance).self_compose(10_000)
        assert len(many.masses) < 4500  # of 20,001: those within about 17 standard deviations, of 100 each at most
        at = many.first + np.arange(len(many.masses))
        mean = 10_000 * (2 * chance - 1)
        assert many.masses.sum() == pytest.approx(1, abs=1e-12)
        assert many.masses @ at == pytest.approx(mean, abs=1e-6)
        assert many.masses @ (at - mean) ** 2 == pytest.approx(40_000 * chance * (1 - chance), rel=1e-6)

    def test_composition_is_convolution(self) -> None:
        found = losses(-1, 0.25, 0.5, infinite=0.25).compose(losses(3, 0.5, 0.25, 0.125, infinite=0.125))
        np.testing.assert_allclose(found.masses, np.convolve([0.25, 0.5], [0.5, 0.25, 0.125]), atol=1e-15)
        assert (found.first, found.width) == (2, 0.25)
        assert found.infinity_mass == pytest.approx(1 - 0.75 * 0.875)


class TestDelta:
    @pytest.mark.parametrize("first", [-9, -3, 0, 2])
    @pytest.mark.parametrize("infinite", [0.0, 1e-4])
    def test_delta_equals_sum(self, first: int, infinite: float) -> None:
        found = losses(first, *np.random.default_rng(3).dirichlet(np.ones(8)), infinite=infinite)
        epsilons = [-4.0, -0.3, -0.25, 0.0, 0.1, 0.25, 0.6, 2.25, 40.0]
        expected = [delta_of(found, epsilon) for epsilon in epsilons]
        np.testing.assert_allclose(found.get_delta_for_epsilon(epsilons), expected, rtol=1e-12, atol=1e-16)
        assert found.get_delta_for_epsilon(0.1) == pytest.approx(expected[4], rel=1e-12)
        assert found.get_delta_for_epsilon(math.inf) == infinite

    def test_high_losses_do_not_underflow(self) -> None:
        """e^−1,000 is 0 in float64."""
        assert losses(4000, 0.5, 0.5).get_delta_for_epsilon(999.0) == pytest.approx(delta_of(losses(4, 0.5, 0.5), 0.0))


class TestEpsilon:
    @pytest.mark.parametrize("first", [-9, -7, -3, -1, 0, 1, 2, 20])
    @pytest.mark.parametrize("infinite", [0.0, 1e-4])
    def test_epsilon_is_smallest_for_delta(self, first: int, infinite: float) -> None:
        found = losses(first, *np.random.default_rng(3).dirichlet(np.ones(8)), infinite=infinite)
        for delta in (1e-3, 0.01, 0.1, 0.5, 0.9):
            expected = (
                brentq(lambda epsilon, delta=delta: delta_of(found, epsilon) - delta, 0, 10, xtol=1e-13)
                if delta_of(found, 0.0) > delta
                else 0.0
            )
            assert found.get_epsilon_for_delta(delta) == pytest.approx(expected, abs=1e-11)

    def test_limit_cases(self) -> None:
        assert losses(2, 0.5, 0.25, infinite=0.25).get_epsilon_for_delta(0.2) == math.inf
        assert losses(-5, 0.5, 0.25, infinite=0.25).get_epsilon_for_delta(0.2) == math.inf
        assert losses(-5, 0.5, 0.5).get_epsilon_for_delta(0.0) == 0.0  # all losses are below 0
        assert losses(-5, 0.5, 0.25, infinite=0.25).get_epsilon_for_delta(0.25) == 0.0
        assert losses(4, 1.0).get_epsilon_for_delta(0.5) == pytest.approx(1 + math.log(0.5))
        assert losses(4, 0.5, infinite=0.25).get_epsilon_for_delta(0.8) == 0.0  # more than all mass
        assert losses(0, 0.5, 0.5).get_epsilon_for_delta(1.0) == 0.0  # exactly all mass
        assert losses(0, 1.0).get_epsilon_for_delta(0.1) == 0.0
        # A δ that is attained exactly is not exceeded.
        attained = losses(0, 0.5, 0.5).get_epsilon_for_delta(0.5 * -math.expm1(-0.25))
        assert attained == pytest.approx(0.0, abs=1e-12)
        assert losses(1, 1.0, infinite=0.125).get_epsilon_for_delta(0.125) == pytest.approx(0.25)

    def test_high_losses_do_not_underflow(self) -> None:
        found = losses(4000, 0.5, 0.5).get_epsilon_for_delta(1e-5)
        assert found == pytest.approx(1000 - 1 + losses(4, 0.5, 0.5).get_epsilon_for_delta(1e-5), rel=1e-12)

    @pytest.mark.parametrize("noise", [-1e-18, 0.0])
    def test_rounding_of_high_losses_is_no_error(self, noise: float) -> None:
        """A Fourier transform leaves tiny negative probabilities. The loss itself is then the bound."""
        found = losses(0, 0.5, 0.5, noise, infinite=1e-9).get_epsilon_for_delta(1e-9)
        assert found in (pytest.approx(0.25), pytest.approx(0.5))

"""Parts of group privacy compared with float64 sums and integrals: the mixture of a step and the merging of parts.

``test_group_privacy.py`` compares the whole with another accountant.
"""

import dataclasses
import itertools
import math
from typing import Any

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad
from scipy.optimize import brentq

from engine.errors import InvalidConfig
from engine.privacy import group_privacy
from engine.privacy.group_privacy import _Pair, group_epsilon, side_by_side
from engine.privacy.plan import PrivacyPlan
from engine.privacy.pld import LossPmf

DELTA = 1e-5


def plan_of(examples: int, batch_size: int, sigma: float, steps: int, **more: Any) -> PrivacyPlan:
    known: dict = {"clip_norm": 1.0, "delta": DELTA, "sampling": "poisson"}
    return PrivacyPlan(examples=examples, batch_size=batch_size, steps=steps, noise_multiplier=sigma, **(known | more))


def delta_of(found: LossPmf, epsilon: float) -> float:
    """Return infinity mass + Σ mass · (1 − e^(ε − loss)) over losses above ε."""
    at = (found.first + np.arange(len(found.masses))) * found.width
    above = at > epsilon
    return found.infinity_mass + float(found.masses[above] @ -np.expm1(epsilon - at[above]))


def test_pairs_are_immutable() -> None:
    made = _Pair.of(0.5, 1.0, 2, 1e-6)
    for field in dataclasses.fields(made):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(made, field.name, None)


def mixture(pair: _Pair) -> Any:
    """Return the distribution function of the step with the group, of the retained components."""
    return lambda x: sum(w * stats.norm.cdf(x - s) for w, s in zip(pair.weights, pair.shifts, strict=True))


def beyond(pair: _Pair, x: float) -> float:
    return float(sum(w * stats.norm.sf(x - s) for w, s in zip(pair.weights, pair.shifts, strict=True)))


def loss_at(pair: _Pair, x: np.ndarray) -> np.ndarray:
    density = sum(w * stats.norm.pdf(x - s) for w, s in zip(pair.weights, pair.shifts, strict=True))
    return np.log(density / stats.norm.pdf(x))


PAIRS = {
    "sampled": (0.2, 0.5, 3, 1e-9),
    "rarely": (0.01, 1.0, 5, 1e-7),
    "all": (1.0, 0.7, 2, 1e-6),
    "coarse": (0.3, 1.2, 4, 1e-3),
}


@pytest.mark.parametrize("name", PAIRS)
class TestPair:
    def test_components_are_binomial(self, name: str) -> None:
        q, mu, size, tail = PAIRS[name]
        pair = _Pair.of(q, mu, size, tail)
        exact = [math.comb(size, k) * q**k * (1 - q) ** (size - k) for k in range(size + 1)]
        kept = [k for k in range(size + 1) if exact[k] > tail / (size + 1)]
        np.testing.assert_allclose(pair.weights, [exact[k] for k in kept], rtol=1e-9)
        np.testing.assert_allclose(pair.shifts, [mu * k for k in kept])
        assert pair.dropped == pytest.approx(sum(exact) - sum(exact[k] for k in kept), abs=1e-15)
        assert pair.tail == tail

    def test_points_cover_range_between_tails(self, name: str) -> None:
        q, mu, size, tail = PAIRS[name]
        pair = _Pair.of(q, mu, size, tail)
        low, high = stats.norm.ppf(tail), pair.shifts[-1] + stats.norm.isf(tail)
        number = math.ceil((high - low) / 0.01)
        grid = low + np.arange(number) * (high - low) / (number - 1)
        np.testing.assert_allclose(pair.points, grid[: len(pair.points)], atol=1e-9)
        assert beyond(pair, pair.points[-1]) <= tail * (1 + 1e-9)
        assert beyond(pair, pair.points[-2]) > tail
        np.testing.assert_allclose(pair.losses, loss_at(pair, pair.points), atol=1e-9)

    def test_width_is_a_fiftieth_of_deviation_of_loss(self, name: str) -> None:
        pair = _Pair.of(*PAIRS[name])
        middle = (pair.losses[1:] + pair.losses[:-1]) / 2
        for removed, below in ((True, mixture(pair)), (False, stats.norm.cdf)):
            masses = np.diff(below(pair.points))
            mean = masses @ middle
            spread = math.sqrt(masses @ (middle - mean) ** 2)
            assert pair.width(removed=removed) == pytest.approx(0.02 * spread, rel=1e-6)

    @pytest.mark.parametrize("removed", [True, False])
    def test_delta_is_exact_at_grid_points(self, name: str, removed: bool) -> None:
        """Except for the truncation: no δ is below the exact one, and none above it by more than the truncated
        tails."""
        pair, tail = _Pair.of(*PAIRS[name]), PAIRS[name][3]
        width = 4 * pair.width(removed=removed)
        found = pair.distribution(width, removed=removed)
        assert found.width == width
        assert float(found.masses.sum()) + found.infinity_mass == pytest.approx(1, abs=1e-9)
        assert found.infinity_mass == pytest.approx(pair.dropped + beyond(pair, pair.points[-1]) if removed else tail)
        assert found.infinity_mass <= 2 * tail
        exact = [self.delta(pair, place * width, removed) for place in range(found.first, found.first + 5 * 50, 5)]
        ours = [delta_of(found, place * width) for place in range(found.first, found.first + 5 * 50, 5)]
        assert (np.array(ours) >= np.array(exact) * (1 - 1e-9) - 1e-14).all()
        assert (np.array(ours) <= np.array(exact) + 3 * tail).all()

    @staticmethod
    def delta(pair: _Pair, epsilon: float, removed: bool) -> float:
        """Compute P − e^ε Q above (with the group: P) or below the point where the loss is ±ε."""
        low, high = pair.points[0] - 60, pair.points[-1] + 60

        def loss(x: float) -> float:
            terms = np.log(pair.weights) + x * pair.shifts - pair.shifts**2 / 2
            return float(np.logaddexp.reduce(terms))

        wanted = epsilon if removed else -epsilon
        if loss(low) >= wanted:
            place = -math.inf
        elif loss(high) <= wanted:
            place = math.inf
        else:
            place = brentq(lambda x: loss(x) - wanted, low, high, xtol=1e-13)
        if removed:
            return beyond(pair, place) + pair.dropped - math.exp(epsilon) * stats.norm.sf(place)
        return stats.norm.cdf(place) - math.exp(epsilon) * float(mixture(pair)(place))

    @pytest.mark.parametrize("removed", [True, False])
    def test_mass_moved_up_is_at_most_the_tail(self, name: str, removed: bool) -> None:
        """The lowest losses are collected in one grid point: as many as a tail may have, and no more."""
        pair, tail = _Pair.of(*PAIRS[name]), PAIRS[name][3]
        width = pair.width(removed=removed)
        found = pair.distribution(width, removed=removed)
        lowest = pair.losses[0] if removed else -pair.losses[-1]
        assert found.first >= math.floor(lowest / width)
        assert found.masses[0] >= tail
        # Nothing with mass above the first point was moved onto it: δ just below it is exact.
        place = found.first + 1
        assert delta_of(found, place * width) == pytest.approx(
            self.delta(pair, place * width, removed), abs=3 * tail, rel=1e-6
        )

    @pytest.mark.parametrize("removed", [True, False])
    def test_grid_extends_beyond_highest_loss(self, name: str, removed: bool) -> None:
        """Also if a grid point is between the two highest losses."""
        pair = _Pair.of(*PAIRS[name])
        highest, next_to_it = (pair.losses[-1], pair.losses[-2]) if removed else (-pair.losses[0], -pair.losses[1])
        width = (highest + next_to_it) / 2 / 40
        found = pair.distribution(width, removed=removed)
        assert found.first + len(found.masses) - 1 == 41
        assert 41 * width > highest > 40 * width > next_to_it

    def test_points_of_inverts_losses(self, name: str) -> None:
        pair = _Pair.of(*PAIRS[name])
        wanted = np.linspace(pair.losses[0], pair.losses[-1], 57)[1:-1]
        found = pair._points_of(wanted)
        np.testing.assert_allclose(loss_at(pair, found), wanted, atol=1e-9)
        assert (np.diff(found) > 0).all()
        ends = pair._points_of(np.array([pair.losses[0] - 1, pair.losses[-1] + 1]))
        np.testing.assert_allclose(ends, [pair.points[0], pair.points[-1]])

    def test_masses_between_edges_equal_cdf_differences(self, name: str) -> None:
        pair, edges = _Pair.of(*PAIRS[name]), np.array([-2.0, -0.5, 0.0, 0.3, 4.0])
        with_them, without = pair._masses(edges)
        np.testing.assert_allclose(with_them, np.diff(mixture(pair)(edges)), rtol=1e-9)
        np.testing.assert_allclose(without, np.diff(stats.norm.cdf(edges)), rtol=1e-9)


def test_negligible_components_are_dropped() -> None:
    """Each may have its share of the tail, among the possible ones: here two."""
    assert _Pair.of(1e-3, 1.0, 1, 2.5e-3).dropped == pytest.approx(1e-3)
    assert _Pair.of(1e-3, 1.0, 1, 1.5e-3).dropped == 0


def test_points_of_flat_loss() -> None:
    pair = _Pair.of(0.5, 400.0, 1, 1e-6)
    assert pair.losses[10] == pair.losses[0] == pytest.approx(math.log(0.5))
    with np.errstate(all="raise", under="ignore"):
        assert pair.points[0] <= pair._points_of(pair.losses[:1])[0] <= pair.points[20]


def test_direction_is_keyword_only() -> None:
    pair: Any = _Pair.of(0.5, 1.0, 2, 1e-6)
    with pytest.raises(TypeError):
        pair.width(True)
    with pytest.raises(TypeError):
        pair.distribution(0.1, True)


def test_number_of_points_is_limited() -> None:
    """With distant means, 50,000 points are more than a hundredth apart."""
    pair = _Pair.of(1.0, 800.0, 1, 1e-6)
    low, high = stats.norm.ppf(1e-6), 800 + stats.norm.isf(1e-6)
    np.testing.assert_allclose(np.diff(pair.points), (high - low) / 49_999, rtol=1e-6)
    assert len(pair.points) in (49_999, 50_000)


def test_connected_preserves_both_distributions() -> None:
    """Mass a on the lower and b on the upper end: a + b of one distribution, and e^−loss times that of the other."""
    width, lower = 0.5, np.array([-1.0, -0.5, 0.0, 0.5])
    masses = np.array([0.1, 0.2, 0.3, 0.4])
    others = masses * np.exp(-(lower + width * np.array([0.1, 0.5, 0.9, 0.0])))
    found = group_privacy._connected(masses, others, lower, width)
    at = np.append(lower, 1.0)
    assert found.sum() == pytest.approx(1.0)
    assert found @ np.exp(-at) == pytest.approx(others.sum())
    assert found[0] == pytest.approx(0.1 * (math.exp(-0.05) - math.exp(-0.5)) / (1 - math.exp(-0.5)))
    assert found[4] == pytest.approx(0.0, abs=1e-12)


def test_connected_puts_inconsistent_mass_on_upper_end() -> None:
    width, lower = 0.5, np.array([0.0, 0.5])
    for others in (np.array([0.0, 0.0]), np.array([0.5 * math.exp(-0.9), 0.5 * math.exp(-1.9)])):
        assert group_privacy._connected(np.array([0.5, 0.5]), others, lower, width).tolist() == [0, 0.5, 0.5]
    too_much = group_privacy._connected(np.array([0.5, 0.5]), np.array([9.0, 9.0]), lower, width)
    assert too_much.tolist() == [0.5, 0.5, 0.0]
    assert group_privacy._connected(np.array([0.0, 0.5]), np.array([0.0, 0.0]), lower, width).tolist() == [0, 0, 0.5]


def test_loss_and_its_derivative() -> None:
    weights, shifts = np.array([0.7, 0.2, 0.1]), np.array([0.0, 0.5, 3.0])
    points = np.array([-30.0, -1.0, 0.0, 2.5, 400.0])
    value, slope = group_privacy._loss(points, weights, shifts)
    for x, found, rising in zip(points, value, slope, strict=True):
        terms = [math.log(w) + s * x - s * s / 2 for w, s in zip(weights, shifts, strict=True)]
        top = max(terms)
        total = math.fsum(math.exp(term - top) for term in terms)
        assert found == pytest.approx(top + math.log(total), rel=1e-12)
        each = math.fsum(s * math.exp(term - top) for term, s in zip(terms, shifts, strict=True))
        assert rising == pytest.approx(each / total, rel=1e-12, abs=1e-15)


def test_probabilities_are_precise_in_both_tails() -> None:
    edges = np.array([-20.0, -19.0, -1.0, 0.0, 1.0, 19.0, 20.0])
    found = group_privacy._between(edges)
    expected = [quad(stats.norm.pdf, low, high, epsabs=0, epsrel=1e-12)[0] for low, high in itertools.pairwise(edges)]
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    above = group_privacy._above(np.array([-1.0, 0.5, 30.0]), np.array([0.25, 0.75]), np.array([0.0, 2.0]))
    exact = [0.25 * stats.norm.sf(x) + 0.75 * stats.norm.sf(x - 2) for x in (-1.0, 0.5, 30.0)]
    np.testing.assert_allclose(above, exact, rtol=1e-12)


def delta_by_sum(levels: list[tuple[float, int]], mu: float, size: int, epsilon: float, removed: bool) -> float:
    """Return δ of one or two steps, over a fine grid of the output of each, in float64."""
    qs = [q for q, steps in levels for _ in range(steps)]
    x = np.linspace(-9, 9 + size * mu, 1601)
    cell = x[1] - x[0]
    parts = []
    for q in qs:
        weights = stats.binom.pmf(np.arange(size + 1), size, q)
        with_them = sum(w * stats.norm.pdf(x - mu * k) for k, w in enumerate(weights))
        parts.append((with_them, stats.norm.pdf(x)) if removed else (stats.norm.pdf(x), with_them))
    p, q = parts[0]
    for more, other in parts[1:]:
        p, q = np.multiply.outer(p, more), np.multiply.outer(q, other)
    return float(np.maximum(0, p - math.exp(epsilon) * q).sum() * cell ** len(qs))


@pytest.mark.parametrize(
    ("levels", "sigma", "size"), [([(0.3, 1)], 1.5, 3), ([(0.1, 2)], 2.0, 2), ([(0.4, 1), (0.1, 1)], 2.0, 4)]
)
def test_epsilon_of_one_or_two_steps_equals_integral(levels: list, sigma: float, size: int) -> None:
    """In the worse direction, to within a thousandth."""
    delta = 1e-4
    found = group_privacy._mixture_epsilon.__wrapped__(tuple(levels), 1 / sigma, delta, size)
    exact = [delta_by_sum(levels, 1 / sigma, size, found, removed) for removed in (True, False)]
    assert max(exact) <= delta * 1.0005
    below = [delta_by_sum(levels, 1 / sigma, size, found * 0.999, removed) for removed in (True, False)]
    assert max(below) > delta * 0.9995


@pytest.mark.parametrize(
    ("spans", "steps", "expected"),
    [
        ((1.0, 2.0), (3, 4), 0.002),  # the finest that one of them requires
        ((1.0, 900.0), (3, 4), 1800 / 300_000),  # limited by the number of cells
        ((1e-9, 1e-9), (3, 4), 1e-6 / 7),  # limited by the smallest useful width
    ],
)
def test_width_of_shared_grid(spans: tuple, steps: tuple, expected: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Losses from −span to span, in cells of a 500th, if nothing else limits it."""
    asked, widths, made = [], [], []

    class Known:
        def __init__(self, q: float) -> None:
            self.span = q
            self.losses = np.array([-q, 0.0, q])

        def width(self, *, removed: bool) -> float:
            return self.span / 500

        def distribution(self, width: float, *, removed: bool) -> LossPmf:
            widths.append(width)
            made.append(removed)
            return LossPmf(width, 1, np.ones(1), 0.0)

    monkeypatch.setattr(group_privacy._Pair, "of", lambda *given: asked.append(given) or Known(given[0]))
    levels = tuple(zip(spans, steps, strict=True))
    group_privacy._mixture_epsilon.__wrapped__(levels, 0.5, 1e-3, 6)
    assert asked == [(span, 0.5, 6, pytest.approx(1e-4 * 1e-3 / 7)) for span in spans]
    assert widths == [pytest.approx(expected)] * 4
    assert made == [True, True, False, False]


class TestGroupEpsilon:
    """Which costs are computed for which parts, with known values."""

    @staticmethod
    def priced(monkeypatch: pytest.MonkeyPatch, exact: dict[int, float], rough: dict[int, float]) -> list[tuple]:
        asked: list[tuple] = []

        def epsilon(plan: PrivacyPlan, steps: int, accountant: str = "pld") -> float:
            asked.append((plan.examples, steps, accountant))
            return (exact if accountant == "pld" else rough)[plan.examples]

        monkeypatch.setattr(group_privacy, "epsilon", epsilon)
        return asked

    def test_group_of_one_takes_the_worst_part(self, monkeypatch: pytest.MonkeyPatch) -> None:
        asked = self.priced(monkeypatch, {40: 1.0, 50: 2.0, 60: 0.5}, {40: 3.0, 50: 2.5, 60: 1.9})
        parts = [(plan_of(n, 10, 2.0, 9), n // 10) for n in (60, 40, 50)]
        assert group_epsilon(parts, 1) == 2.0
        # The upper bound of the third does not reach 2.
        assert asked[:3] == [(60, 6, "rdp"), (40, 4, "rdp"), (50, 5, "rdp")]
        assert asked[3:] == [(40, 4, "pld"), (50, 5, "pld")]

    def test_first_part_may_be_the_worst(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.priced(monkeypatch, {40: 0.2, 50: 0.1}, {40: 0.3, 50: 0.25})
        assert group_epsilon([(plan_of(n, 10, 2.0, 9), 5) for n in (40, 50)], 1) == 0.2

    def test_equal_parts_are_computed_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        asked = self.priced(monkeypatch, {40: 2.0}, {})
        assert group_epsilon([(plan_of(40, 10, 2.0, 9), 5)] * 3 + [(plan_of(40, 10, 2.0, 9), 0)], 1) == 2.0
        assert asked == [(40, 5, "pld")]

    def test_larger_group_uses_the_mixture(self, monkeypatch: pytest.MonkeyPatch) -> None:
        asked: list[tuple] = []
        monkeypatch.setattr(group_privacy, "_mixture_epsilon", lambda *given: asked.append(given) or 7.0)
        parts = [(plan_of(40, 10, 4.0, 9), 5), (plan_of(50, 10, 4.0, 9), 8), (plan_of(60, 10, 4.0, 9), 0)]
        assert group_epsilon(parts, 2) == 7.0
        assert asked == [(((0.2, 3), (0.25, 5)), 0.25, DELTA, 2)]

    @pytest.mark.parametrize("size", [1, 2])
    def test_limit_cases(self, size: int) -> None:
        plan = plan_of(40, 10, 4.0, 9)
        assert group_epsilon([], size) == group_epsilon([(plan, 0)], size) == 0.0
        assert group_epsilon([(dataclasses.replace(plan, noise_multiplier=0.0), 1)], size) == math.inf
        with pytest.raises(InvalidConfig, match="sampling='shuffle'"):
            group_epsilon([(plan, 3), (dataclasses.replace(plan, sampling="shuffle"), 2)], size)

    def test_check_size(self) -> None:
        for size in (1, 1000):
            group_privacy.check_size(size)
        for size in (0, 1001):
            with pytest.raises(InvalidConfig, match=rf"group_size={size:,},.* 1 to 1,000\b"):
                group_privacy.check_size(size)


class TestSideBySide:
    @pytest.mark.parametrize(
        ("parts", "levels"),
        [
            ([(0.1, 100), (0.1, 100)], [(0.1, 100)]),
            ([(0.1, 100), (0.3, 40)], [(0.1, 60), (0.3, 40)]),
            ([(0.3, 100), (0.1, 40)], [(0.3, 100)]),
            ([(0.2, 100), (0.3, 100)], [(0.3, 100)]),
            ([(0.3, 100), (0.2, 100)], [(0.3, 100)]),
            ([(0.1, 90), (0.2, 60), (0.15, 50), (0.4, 10)], [(0.1, 30), (0.2, 50), (0.4, 10)]),
            ([(0.1, 5), (0.5, 5), (0.3, 5), (0.6, 5), (0.2, 5)], [(0.6, 5)]),
            ([(0.1, 1)], [(0.1, 1)]),
            ([(0.1, 2), (0.2, 1)], [(0.1, 1), (0.2, 1)]),
        ],
    )
    def test_equals_manual_results(self, parts: list, levels: list) -> None:
        for order in itertools.permutations(parts):
            assert side_by_side(order) == levels

    def test_up_to_six_levels_are_exact(self) -> None:
        parts = [(0.1 * level, 70 - 10 * level) for level in range(1, 7)]
        found = side_by_side(parts)
        assert found == [(q, 10) for q, _ in parts]

    @pytest.mark.parametrize("seed", range(60))
    def test_more_levels_are_merged_at_least_cost(self, seed: int) -> None:
        """A step's loss varies about as q²."""
        random = np.random.default_rng(seed)
        qs, steps = np.sort(random.random(7)), random.integers(1, 50, 7)
        ends = np.cumsum(steps[::-1])[::-1]
        found = side_by_side(zip(qs.tolist(), ends.tolist(), strict=True))
        added = [(qs[i + 1] ** 2 - qs[i] ** 2) * steps[i] for i in range(6)]
        place = int(np.argmin(added))
        expected = list(zip(qs.tolist(), steps.tolist(), strict=True))
        expected[place : place + 2] = [(qs[place + 1], steps[place] + steps[place + 1])]
        assert found == expected

    def test_many_levels_are_merged_to_six(self) -> None:
        parts = [(0.01 * level, 10 * (20 - level)) for level in range(1, 20)]
        found = side_by_side(parts)
        assert len(found) == 6
        assert sum(steps for _, steps in found) == 190
        for q, steps in parts:
            assert sum(taken for level, taken in found if level >= q) >= steps

"""Group privacy (k sentences) compared with an independent accountant, a closed form and k · ε."""

import dataclasses
import functools
import itertools
import math

import numpy as np
import pytest
from dp_accounting import dp_event
from dp_accounting.pld.pld_privacy_accountant import PLDAccountant
from scipy.optimize import brentq
from scipy.special import logsumexp, ndtr
from scipy.stats import binom

from engine.config import PrivacyConfig
from engine.errors import InvalidConfig
from engine.experiments.papers import jana_biemann_2021
from engine.federated.plan import federated_plan
from engine.privacy import group_privacy
from engine.privacy.accounting import epsilon, gaussian_epsilon
from engine.privacy.group_privacy import LARGEST_GROUP, group_epsilon, side_by_side
from engine.privacy.plan import PrivacyPlan
from engine.privacy.pld import LossPmf
from engine.seeds import Secrets

DELTA = 1e-5
SECRETS = Secrets.seeded(0, "run")


def plan_of(examples: int, batch_size: int, sigma: float, steps: int, **more: object) -> PrivacyPlan:
    known = {"clip_norm": 1.0, "delta": DELTA, "sampling": "poisson"} | more
    return PrivacyPlan(
        examples=examples,
        batch_size=batch_size,
        steps=steps,
        noise_multiplier=sigma,
        **known,
    )


SETTINGS = {
    "the paper": plan_of(14_041, 32, 1.0, 4388),
    "recommended, ε = 1": plan_of(14_041, 1024, 3.39, 137),
    "recommended, ε = 3": plan_of(14_041, 1024, 1.48, 137),
    "a piece of Table 6": plan_of(281, 32, 1.0, 88),
}
EPSILON_OF_TEN = {
    "the paper": 10.47,
    "recommended, ε = 1": 14.50,
    "recommended, ε = 3": 53.71,
    "a piece of Table 6": 159.5,
}


def by_fft(q: float, sigma: float, steps: int, size: int, *, removed: bool, cell: float, span: float) -> float:
    """Compute the same by another method: the loss's CDF on cell centers in float64, one circular FFT, δ(ε) by
    summation."""
    count = np.arange(size + 1)
    x = np.linspace(-12, 12 + size / sigma, 60_001)
    loss = logsumexp(
        binom.logpmf(count, size, q) + x[:, None] * count / sigma - (count / sigma) ** 2 / 2, axis=1
    )  # ln(mixture ÷ N(0, 1)), increasing
    middles = np.arange(-round(span / cell), round(span / cell)) * cell
    edges = np.append(middles - cell / 2, middles[-1] + cell / 2)
    if removed:
        at = np.interp(edges, loss, x, left=-np.inf, right=np.inf)
        below = sum(weight * ndtr(at - j / sigma) for j, weight in enumerate(binom.pmf(count, size, q)))
    else:
        below = ndtr(-np.interp(-edges, loss, x, left=-np.inf, right=np.inf))
    masses = np.fft.irfft(np.fft.rfft(np.fft.ifftshift(np.diff(below))) ** steps, len(middles))
    masses, middles = masses[: len(masses) // 2], np.fft.ifftshift(middles)[: len(masses) // 2]  # losses from 0 up

    def excess(value: float) -> float:
        above = middles > value
        return float(masses[above] @ -np.expm1(value - middles[above])) - DELTA

    return float(brentq(excess, 0.0, 0.9 * span, xtol=1e-6))


@pytest.mark.parametrize("name", SETTINGS)
def test_group_of_ten_equals_fft_accountant(name: str) -> None:
    """At most 0.1 % above the other value and 0.03 % below it; the other one rounds to the nearest cell and is no
    bound."""
    plan = SETTINGS[name]
    found = group_epsilon([(plan, plan.steps)], 10)
    grid = {"cell": 5e-4, "span": 100.0} if name != "a piece of Table 6" else {"cell": 2e-3, "span": 400.0}
    other = max(
        by_fft(plan.sampling_probability, plan.noise_multiplier, plan.steps, 10, removed=removed, **grid)
        for removed in (True, False)
    )
    assert 0.9997 * other <= found <= 1.001 * other
    assert found == pytest.approx(EPSILON_OF_TEN[name], rel=1e-3)
    assert found > 1.3 * 10 * epsilon(plan, plan.steps)


def test_group_of_ten_equals_dp_accounting_mixture() -> None:
    """On a coarse grid, since dp_accounting takes seconds to a minute on its default grid."""
    plan, count = SETTINGS["recommended, ε = 1"], np.arange(11)
    weights = binom.pmf(count, 10, plan.sampling_probability)
    step = dp_event.MixtureOfGaussiansDpEvent(plan.noise_multiplier, count.tolist(), weights.tolist())
    accountant = PLDAccountant(value_discretization_interval=1e-2)
    accountant.compose(dp_event.SelfComposedDpEvent(step, plan.steps))
    assert group_epsilon([(plan, plan.steps)], 10) == pytest.approx(accountant.get_epsilon(DELTA), rel=1e-3)


@pytest.mark.parametrize(("size", "sigma", "steps"), [(2, 3.0, 1), (10, 5.0, 30), (50, 20.0, 4), (7, 0.5, 100)])
def test_without_sampling_equals_gaussian_of_k_sensitivity(size: int, sigma: float, steps: int) -> None:
    exact = gaussian_epsilon(size * math.sqrt(steps) / sigma, DELTA)
    found = group_epsilon([(plan_of(32, 32, sigma, steps), steps)], size)
    assert exact <= found <= exact * 1.001


@pytest.mark.parametrize("name", SETTINGS)
def test_group_of_one_has_epsilon_of_plan(name: str) -> None:
    plan = SETTINGS[name]
    assert group_epsilon([(plan, plan.steps)], 1) == epsilon(plan, plan.steps)
    level = ((plan.sampling_probability, plan.steps),)
    mixture = group_privacy._mixture_epsilon(level, 1 / plan.noise_multiplier, DELTA, 1)
    assert mixture == pytest.approx(epsilon(plan, plan.steps), rel=5e-4)


@pytest.mark.parametrize("name", SETTINGS)
def test_epsilon_increases_with_group_size(name: str) -> None:
    plan = SETTINGS[name]
    found = [group_epsilon([(plan, plan.steps)], size) for size in (1, 2, 3, 5, 10, 11, 20, 35, 50)]
    assert all(less < more for less, more in itertools.pairwise(found))


@pytest.mark.parametrize("name", SETTINGS)
def test_finer_grid_changes_at_most_a_thousandth(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = SETTINGS[name]
    coarse = {size: group_epsilon([(plan, plan.steps)], size) for size in (2, 50)}
    monkeypatch.setattr(group_privacy, "_FINENESS", 0.005)
    for size, found in coarse.items():
        finer = group_privacy._mixture_epsilon.__wrapped__(
            ((plan.sampling_probability, plan.steps),), 1 / plan.noise_multiplier, DELTA, size
        )
        assert finer <= found <= 1.001 * finer


@pytest.mark.parametrize(
    "plan",
    [plan_of(1_000_000, 1, 0.3, 100), plan_of(10, 1, 0.2, 100), plan_of(10_000, 1, 100.0, 100_000)],
    ids=["rarely drawn", "little noise", "much noise"],
)
@pytest.mark.repeats(after=1)
def test_extreme_settings_have_finite_epsilon(plan: PrivacyPlan) -> None:
    size = 50
    found = group_epsilon([(plan, plan.steps)], size)
    assert (
        group_privacy._mixture_epsilon(((plan.sampling_probability, plan.steps),), 1 / plan.noise_multiplier, DELTA, 1)
        < found
    )
    assert found <= gaussian_epsilon(size * math.sqrt(plan.steps) / plan.noise_multiplier, DELTA) * 1.001


def test_no_steps_is_zero_and_no_noise_is_infinite() -> None:
    plan = SETTINGS["the paper"]
    assert group_epsilon([(plan, 0)], 10) == 0
    assert group_epsilon([(dataclasses.replace(plan, noise_multiplier=0.0), 5)], 10) == math.inf


@pytest.mark.parametrize("size", [0, -1, LARGEST_GROUP + 1])
def test_invalid_group_size_is_rejected(size: int) -> None:
    with pytest.raises(InvalidConfig, match=rf"group_size={size:,},.* 1 to 1,000\b"):
        group_epsilon([(SETTINGS["the paper"], 1)], size)


def test_shuffled_batches_are_rejected() -> None:
    with pytest.raises(InvalidConfig, match="sampling='shuffle'"):
        group_epsilon([(dataclasses.replace(SETTINGS["the paper"], sampling="shuffle"), 10)], 2)


class TestSeveralParts:
    def test_equal_parts_cost_as_much_as_one(self) -> None:
        plan = SETTINGS["a piece of Table 6"]
        assert group_epsilon([(plan, plan.steps)] * 7, 10) == group_epsilon([(plan, plan.steps)], 10)

    @pytest.mark.parametrize("spread", [(10, 0), (9, 1), (5, 5)], ids=str)
    def test_group_in_one_part_is_the_worst_case(self, spread: tuple[int, int]) -> None:
        """Composition of both parts, each with its share of the sentences, on the pairs that bound a step."""
        plan = SETTINGS["a piece of Table 6"]
        q, mu, tail = plan.sampling_probability, 1 / plan.noise_multiplier, 1e-12
        pairs = [group_privacy._Pair.of(q, mu, size, tail) for size in spread if size]
        found = []
        for removed in (True, False):
            width = min(pair.width(removed=removed) for pair in pairs)
            parts = [pair.distribution(width, removed=removed).self_compose(plan.steps) for pair in pairs]
            found.append(functools.reduce(LossPmf.compose, parts).get_epsilon_for_delta(DELTA))
        whole = group_epsilon([(plan, plan.steps)] * 2, 10)
        assert max(found) <= whole * 1.001
        if spread == (5, 5):
            assert max(found) < 0.8 * whole

    def test_side_by_side_merges_steps(self) -> None:
        assert side_by_side([(0.1, 100)]) == [(0.1, 100)]
        # The part with more steps continues alone; while both train, the larger probability counts.
        assert side_by_side([(0.1, 100), (0.3, 40)]) == [(0.1, 60), (0.3, 40)]
        assert side_by_side([(0.3, 100), (0.1, 40)]) == [(0.3, 100)]
        many = [(1 / n, 10 * n) for n in range(2, 60)]
        few = side_by_side(many)
        assert len(few) <= 6
        assert sum(steps for _, steps in few) == 590
        for q, steps in many:  # as many of the steps as the part has are at its probability or more
            assert sum(taken for level, taken in few if level >= q) >= steps

    def test_different_parts_cost_at_least_the_worst(self) -> None:
        parts = [(plan_of(n, 32, 2.0, 10 * n // 32), 10 * n // 32) for n in (400, 800, 1600)]
        found = group_epsilon(parts, 5)
        alone = [group_epsilon([part], 5) for part in parts]
        assert max(alone) <= found <= 1.5 * max(alone)

    def test_table_6_of_the_paper(self) -> None:
        """Its smallest pieces have 280 sentences: ε = 7.60 for one of them, 160 for ten, for any distribution over
        pieces."""
        config = next(cell.config for cell in jana_biemann_2021.cells() if cell.table == "table6")
        plan = federated_plan(
            config, 14_041, lambda: pytest.fail("the layout is not needed"), lambda: Secrets.seeded(config.seed, "run")
        )
        parts = list(zip(plan.parts, plan.taken(plan.steps), strict=True))
        assert len(parts) == 50
        assert group_epsilon(parts, 1) == pytest.approx(7.60, abs=0.005)
        assert group_epsilon(parts, 10) == pytest.approx(160.3, rel=1e-3)


def test_delta_of_config_is_used() -> None:
    plan = dataclasses.replace(SETTINGS["the paper"], delta=PrivacyConfig().delta / 100)
    assert group_epsilon([(plan, plan.steps)], 10) > EPSILON_OF_TEN["the paper"] + 0.5

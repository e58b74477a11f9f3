"""ε of a person with k sentences, against an accountant of its own, a closed form and what k · ε would have said."""

import dataclasses
import itertools
import math

import numpy as np
import pytest
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
    "the ladder at ε = 1": plan_of(14_041, 1024, 3.39, 137),
    "the ladder at ε = 3": plan_of(14_041, 1024, 1.48, 137),
    "a piece of Table 6": plan_of(281, 32, 1.0, 88),
}
TEN = {"the paper": 10.47, "the ladder at ε = 1": 14.50, "the ladder at ε = 3": 53.71, "a piece of Table 6": 159.5}


def by_fft(q: float, sigma: float, steps: int, size: int, *, removed: bool, cell: float, span: float) -> float:
    """The same by another road: the loss's CDF on the middles of cells in float64, one circular FFT, δ(ε) summed."""
    count = np.arange(size + 1)
    x = np.linspace(-12, 12 + size / sigma, 60_001)
    loss = logsumexp(
        binom.logpmf(count, size, q) + x[:, None] * count / sigma - (count / sigma) ** 2 / 2, axis=1
    )  # ln(mixture ÷ N(0, 1)), rising
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
def test_ten_sentences_cost_what_another_accountant_says_and_not_ten_times_epsilon(name: str) -> None:
    """Within 0.1 % above the other and 0.03 % below it, which rounds to the nearest cell and bounds nothing."""
    plan = SETTINGS[name]
    found = group_epsilon([(plan, plan.steps)], 10)
    grid = {"cell": 5e-4, "span": 100.0} if name != "a piece of Table 6" else {"cell": 2e-3, "span": 400.0}
    other = max(
        by_fft(plan.sampling_probability, plan.noise_multiplier, plan.steps, 10, removed=removed, **grid)
        for removed in (True, False)
    )
    assert 0.9997 * other <= found <= 1.001 * other
    assert found == pytest.approx(TEN[name], rel=1e-3)
    assert found > 1.3 * 10 * epsilon(plan, plan.steps)


@pytest.mark.parametrize(("size", "sigma", "steps"), [(2, 3.0, 1), (10, 5.0, 30), (50, 20.0, 4), (7, 0.5, 100)])
def test_without_sampling_it_is_a_gaussian_of_k_times_the_sensitivity(size: int, sigma: float, steps: int) -> None:
    exact = gaussian_epsilon(size * math.sqrt(steps) / sigma, DELTA)
    found = group_epsilon([(plan_of(32, 32, sigma, steps), steps)], size)
    assert exact <= found <= exact * 1.001


@pytest.mark.parametrize("name", SETTINGS)
def test_one_sentence_has_the_epsilon_of_the_plan(name: str) -> None:
    plan = SETTINGS[name]
    assert group_epsilon([(plan, plan.steps)], 1) == epsilon(plan, plan.steps)
    level = ((plan.sampling_probability, plan.steps),)
    mixture = group_privacy._mixture_epsilon(level, 1 / plan.noise_multiplier, DELTA, 1)
    assert mixture == pytest.approx(epsilon(plan, plan.steps), rel=5e-4)


@pytest.mark.parametrize("name", SETTINGS)
def test_more_sentences_cost_more(name: str) -> None:
    plan = SETTINGS[name]
    found = [group_epsilon([(plan, plan.steps)], size) for size in (1, 2, 3, 5, 10, 11, 20, 35, 50)]
    assert all(less < more for less, more in itertools.pairwise(found))


@pytest.mark.parametrize("name", SETTINGS)
def test_a_finer_grid_lowers_it_by_a_thousandth_at_most(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
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
def test_settings_at_the_edge_have_an_answer(plan: PrivacyPlan) -> None:
    size = 50
    found = group_epsilon([(plan, plan.steps)], size)
    assert (
        group_privacy._mixture_epsilon(((plan.sampling_probability, plan.steps),), 1 / plan.noise_multiplier, DELTA, 1)
        < found
    )
    assert found <= gaussian_epsilon(size * math.sqrt(plan.steps) / plan.noise_multiplier, DELTA) * 1.001


def test_nothing_done_and_nothing_added() -> None:
    plan = SETTINGS["the paper"]
    assert group_epsilon([(plan, 0)], 10) == 0
    assert group_epsilon([(dataclasses.replace(plan, noise_multiplier=0.0), 5)], 10) == math.inf


@pytest.mark.parametrize("size", [0, -1, LARGEST_GROUP + 1])
def test_a_size_out_of_range_is_refused(size: int) -> None:
    with pytest.raises(InvalidConfig, match=rf"group_size={size:,},.* 1 to 1,000\b"):
        group_epsilon([(SETTINGS["the paper"], 1)], size)


def test_shuffled_batches_have_no_figure() -> None:
    with pytest.raises(InvalidConfig, match="sampling='shuffle'"):
        group_epsilon([(dataclasses.replace(SETTINGS["the paper"], sampling="shuffle"), 10)], 2)


class TestSeveralParts:
    def test_alike_parts_cost_what_one_does(self) -> None:
        plan = SETTINGS["a piece of Table 6"]
        assert group_epsilon([(plan, plan.steps)] * 7, 10) == group_epsilon([(plan, plan.steps)], 10)

    @pytest.mark.parametrize("spread", [(10, 0), (9, 1), (5, 5)], ids=str)
    def test_no_spread_over_two_parts_costs_more_than_all_in_the_costlier(self, spread: tuple[int, int]) -> None:
        """Composition of both parts, each with its share of the sentences, on the pairs that bound a step."""
        plan = SETTINGS["a piece of Table 6"]
        q, mu, tail = plan.sampling_probability, 1 / plan.noise_multiplier, 1e-12
        pairs = [group_privacy._Pair.of(q, mu, size, tail) for size in spread if size]
        found = []
        for removed in (True, False):
            width = min(pair.width(removed=removed) for pair in pairs)
            spent = group_privacy._nothing(width)
            for pair in pairs:
                spent = spent.then(pair.distribution(width, removed=removed).times(plan.steps))
            found.append(spent.epsilon(DELTA))
        whole = group_epsilon([(plan, plan.steps)] * 2, 10)
        assert max(found) <= whole * 1.001
        if spread == (5, 5):
            assert max(found) < 0.8 * whole

    def test_steps_are_laid_side_by_side(self) -> None:
        assert side_by_side([(0.1, 100)]) == [(0.1, 100)]
        # The part with more steps goes on alone, and the dearer one counts while both train.
        assert side_by_side([(0.1, 100), (0.3, 40)]) == [(0.1, 60), (0.3, 40)]
        assert side_by_side([(0.3, 100), (0.1, 40)]) == [(0.3, 100)]
        many = [(1 / n, 10 * n) for n in range(2, 60)]
        few = side_by_side(many)
        assert len(few) <= 6
        assert sum(steps for _, steps in few) == 590
        for q, steps in many:  # as many of the steps as the part has are at its probability or more
            assert sum(taken for level, taken in few if level >= q) >= steps

    def test_unlike_parts_cost_at_least_what_the_costliest_does(self) -> None:
        parts = [(plan_of(n, 32, 2.0, 10 * n // 32), 10 * n // 32) for n in (400, 800, 1600)]
        found = group_epsilon(parts, 5)
        alone = [group_epsilon([part], 5) for part in parts]
        assert max(alone) <= found <= 1.5 * max(alone)

    def test_table_6_as_it_is_planned(self) -> None:
        """Its smallest pieces have 280 sentences: 7.60 for one of them, 160 for ten, wherever they lie."""
        config = next(cell.config for cell in jana_biemann_2021.cells() if cell.table == "table6")
        plan = federated_plan(
            config, 14_041, lambda: pytest.fail("the layout is not needed"), lambda: Secrets.seeded(config.seed, "run")
        )
        parts = list(zip(plan.parts, plan.taken(plan.steps), strict=True))
        assert len(parts) == 50
        assert group_epsilon(parts, 1) == pytest.approx(7.60, abs=0.005)
        assert group_epsilon(parts, 10) == pytest.approx(160.3, rel=1e-3)


def test_the_delta_of_a_configuration_counts() -> None:
    plan = dataclasses.replace(SETTINGS["the paper"], delta=PrivacyConfig().delta / 100)
    assert group_epsilon([(plan, plan.steps)], 10) > TEN["the paper"] + 0.5

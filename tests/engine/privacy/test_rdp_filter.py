"""RDP filter and composition of several trainings, compared with closed forms and the library's conversion."""

import dataclasses
import math

import pytest
from dp_accounting.rdp import RdpAccountant, rdp_privacy_accountant

from engine.errors import InvalidConfig
from engine.privacy import pld, rdp_filter
from engine.privacy.accounting import gaussian_epsilon, smallest_delta
from engine.privacy.plan import PrivacyPlan
from engine.privacy.rdp_filter import RdpFilter, filter_for, pld_composition

DELTA = 1e-5


def plan_of(examples: int, batch_size: int, sigma: float, steps: int) -> PrivacyPlan:
    return PrivacyPlan(
        examples=examples,
        batch_size=batch_size,
        steps=steps,
        noise_multiplier=sigma,
        clip_norm=1.0,
        delta=DELTA,
        sampling="poisson",
    )


WHOLE = plan_of(100, 100, 20.0, 8)
"""Without sampling: a step costs α ÷ (2σ²) at order α."""


def test_orders_equal_dp_accounting() -> None:
    theirs = {order for order in RdpAccountant()._orders if order <= 512}
    assert list(rdp_filter.ORDERS) == sorted({*theirs, 64})


@pytest.mark.parametrize("order", [1.1, 2.0, 7.5, 64, 512])
@pytest.mark.parametrize(("epsilon", "delta"), [(8.0, 1e-5), (100.0, 1e-2)])
def test_capacity_converts_to_total_epsilon(order: float, epsilon: float, delta: float) -> None:
    allowance = RdpFilter(epsilon, delta, order).capacity
    if allowance < 0:
        assert rdp_privacy_accountant.compute_epsilon([order], [0.0], delta)[0] in (0.0, pytest.approx(math.inf))
        return
    assert rdp_privacy_accountant.compute_epsilon([order], [allowance], delta)[0] == pytest.approx(epsilon)


@pytest.mark.parametrize("order", [2, 3, 8])
def test_cost_of_sampled_step_is_binomial_sum(order: int) -> None:
    """Mironov, Talwar and Zhang 2019: ln(Σ_k Binomial(α, q)[k] · exp(k(k − 1) ÷ 2σ²)) ÷ (α − 1)."""
    plan = plan_of(50, 10, 1.5, 6)
    q, sigma = 0.2, 1.5
    terms = [
        math.comb(order, k) * q**k * (1 - q) ** (order - k) * math.exp(k * (k - 1) / (2 * sigma**2))
        for k in range(order + 1)
    ]
    step = math.log(sum(terms)) / (order - 1)
    kept = RdpFilter(3.0, DELTA, order)
    assert kept.cost(plan) == pytest.approx(6 * step)
    assert kept.cost(plan, 5) == pytest.approx(5 * 6 * step)
    assert kept.cost(dataclasses.replace(plan, noise_multiplier=0.0)) == math.inf


def test_filter_admits_up_to_its_capacity() -> None:
    kept = RdpFilter(8.0, DELTA, 10.0)
    half = kept.capacity / 2
    assert kept.admits(half, half)
    assert not kept.admits(half, math.nextafter(half, math.inf) + 1e-12)
    assert not kept.admits(math.inf, 0.0)
    assert not kept.admits(0.0, math.inf)


def test_filter_is_immutable() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        RdpFilter(8.0, DELTA, 10.0).epsilon = 9.0


@pytest.mark.parametrize("total", [0.8, 2.0, 9.0])
def test_filter_for_takes_order_with_most_trainings(total: float) -> None:
    """By closed form, over the library's orders: (ε + (ln δ + ln α) ÷ (α − 1) − ln((α − 1) ÷ α)) ÷ (α ÷ 2σ²)."""

    def fitting(order: float) -> float:
        allowance = total + (math.log(DELTA) + math.log(order)) / (order - 1) - math.log1p(-1 / order)
        return allowance / (8 * order / (2 * 20.0**2))

    found = filter_for(total, DELTA, WHOLE)
    assert (found.epsilon, found.delta) == (total, DELTA)
    assert fitting(found.order) == pytest.approx(max(map(fitting, RdpAccountant()._orders[:-1])), rel=1e-9)


def just_enough(steps: int) -> tuple[PrivacyPlan, RdpFilter]:
    """Return a training and the smallest total that admits it, up to the last digit."""
    plan, total = dataclasses.replace(WHOLE, steps=steps), 1.0
    for _ in range(40):  # the best order depends on the total
        best = max(
            (RdpFilter(total, DELTA, order) for order in rdp_filter.ORDERS), key=lambda f: f.capacity / f.cost(plan)
        )
        total -= best.capacity - best.cost(plan)
    return plan, best


def test_total_must_admit_one_training() -> None:
    exactly = [(plan, kept) for plan, kept in map(just_enough, range(12, 24)) if kept.capacity == kept.cost(plan)]
    assert exactly
    for plan, kept in exactly:
        assert filter_for(kept.epsilon, DELTA, plan) == kept
        with pytest.raises(InvalidConfig, match=r"^budget=.* less than .*delta=1e-05\b"):
            filter_for(kept.epsilon - 1e-9, DELTA, plan)
    with pytest.raises(InvalidConfig, match=r"budget=0\.5 is less"):
        filter_for(0.5, DELTA, dataclasses.replace(WHOLE, noise_multiplier=5.0))


def test_composition_without_sampling_equals_gaussian() -> None:
    """μ² = Σ steps ÷ σ² (Dong, Roth and Su 2022)."""
    other = plan_of(50, 50, 8.0, 3)
    exact = gaussian_epsilon(math.sqrt(2 * 8 / 20**2 + 3 / 8**2), DELTA)
    assert exact <= pld_composition([(WHOLE, 2), (other, 1)], DELTA) <= exact + 2e-3
    alone = gaussian_epsilon(math.sqrt(8) / 20, DELTA)
    assert alone <= pld_composition([(WHOLE, 1)], DELTA) <= alone + 2e-3
    assert pld_composition(
        [(WHOLE, 1), (dataclasses.replace(WHOLE, noise_multiplier=0.0), 0)], DELTA
    ) == pld_composition([(WHOLE, 1)], DELTA)


def test_composition_is_exact_down_to_the_smallest_delta() -> None:
    """Below it, Rényi accounting of all runs together applies, which is looser."""
    other, limit = plan_of(50, 50, 8.0, 3), smallest_delta(2 * 8 + 3)
    exact = gaussian_epsilon(math.sqrt(2 * 8 / 20**2 + 3 / 8**2), limit)
    assert exact <= pld_composition([(WHOLE, 2), (other, 1)], limit) <= 1.01 * exact
    assert pld_composition([(WHOLE, 2), (other, 1)], math.nextafter(limit, 0)) > 1.03 * exact


def test_no_training_is_zero_and_no_noise_is_infinite() -> None:
    silent = dataclasses.replace(WHOLE, noise_multiplier=0.0)
    assert pld_composition([], DELTA) == pld_composition([(WHOLE, 0)], DELTA) == 0.0
    assert pld_composition([(WHOLE, 1), (silent, 1)], DELTA) == math.inf


@pytest.mark.parametrize(
    ("sigmas", "width"), [((0.5, 4.0), 1e-4), ((0.25, 4.0), 4e-4), ((0.125, 0.25), 16e-4), ((0.4,), 1e-4 / 0.64)]
)
def test_grid_width_depends_on_smallest_noise(
    sigmas: tuple[float, ...], width: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest, asked = pld.on_grid, []

    def recording(probability: float, sigma: float, interval: float) -> object:
        asked.append((probability, sigma, interval))
        return honest(1.0, 100.0, 1e-2)  # for speed

    monkeypatch.setattr(pld, "on_grid", recording)
    pld_composition([(plan_of(10, 2, sigma, 1), 1) for sigma in sigmas], 1e-3)
    assert asked == [(0.2, sigma, pytest.approx(width)) for sigma in sigmas]

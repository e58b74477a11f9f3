"""Privacy accounting: ε of a plan at its δ after a number of steps.

Three accountants are available. All assume the Poisson-subsampled Gaussian mechanism, composed over the steps, with
add-or-remove adjacency:

* ``pld``: privacy loss distributions by dp_accounting (Koskela et al. 2020, Doroshenko et al. 2022), rounded
  pessimistically. This is the tightest of the three at the noise multipliers used in practice.
* ``rdp``: Rényi accounting (Mironov, Talwar, Zhang 2019) with dp_accounting's orders and improved conversion.
* ``rdp-classic``: the orders of early TensorFlow Privacy and the classic conversion ε = RDP(α) + ln(1/δ)/(α − 1)
  (Mironov 2017, proposition 3). With batch size 1 and n = 14,987 it returns the ε that dp-fl-ner reports in Table 2.

dp_accounting takes a second to import, so it is imported at the first request for an ε.
"""

import dataclasses
import math
from collections.abc import Callable, Iterable
from functools import lru_cache

import numpy as np

from engine.errors import InvalidConfig
from engine.privacy import events, rdp
from engine.privacy.events import Event
from engine.privacy.plan import PrivacyPlan
from engine.records import PrivacySpent
from engine.records.assumption_texts import FLOATING, POISSON, PUBLIC, SECRET_SAMPLE, SEEDED, SHUFFLE, SYSTEM, WITHHELD
from engine.records.rounds import SMALLEST_DELTA

ACCOUNTANTS = ("pld", "rdp", "rdp-classic")
CLASSIC_ORDERS = (1.25, 1.5, 1.75, 2, 2.25, 2.5, 3, 3.5, 4, 4.5, *range(5, 64), 128, 256, 512)
LARGEST_NOISE_MULTIPLIER = 10_000.0
"""Upper end of the search for a noise multiplier; a configuration has the same limit."""
_COARSE, _WIDEST = 16, 0.4
"""Largest grid width of the upper bound of an ε, relative to that of the ε itself and to the loss of a step, q/σ."""
_ROUNDING = 1e-4
"""Relative rounding of an ε by Fourier transforms at :func:`smallest_delta`."""


def smallest_delta(steps: int) -> float:
    """Return the smallest δ at which ``pld`` decides ε; below it, Rényi accounting does, which is valid at any δ.

    ``pld`` composes by Fourier transform. Its rounding changes δ by up to 5e-14 after 4,388 steps, 5e-13 after 100,000
    and 5e-11 after a million (docs/metrics.md). At this limit it changes ε by less than 0.01 %.
    """
    return max(SMALLEST_DELTA, 1e-14 * steps)


def source(plan: PrivacyPlan) -> tuple[str, ...]:
    """Return the assumptions on which ε depends because of the plan's noise source."""
    return (SYSTEM if plan.noise_source == "system" else SEEDED, FLOATING)


def privacy_spent(plan: PrivacyPlan, steps_taken: int) -> PrivacySpent:
    """Return the privacy loss of the training sentences after ``steps_taken`` steps of ``plan``; ε = 0 before the
    first.
    """
    if not plan.private:
        return PrivacySpent(epsilon=math.inf if steps_taken else 0.0, delta=plan.delta)
    if plan.sampling == "shuffle":
        fixed = shuffled_epsilon(plan, steps_taken)
        return PrivacySpent(
            epsilon=fixed,
            delta=plan.delta,
            accountant="exact",
            assumptions=(SHUFFLE, *source(plan), PUBLIC),
            rdp_epsilon=fixed,
            poisson_epsilon=epsilon(plan, steps_taken),
        )
    if plan.sampling == "all":
        return PrivacySpent(
            epsilon=event_epsilon(events.of(plan, steps_taken), plan.delta),
            delta=plan.delta,
            accountant="exact",
            assumptions=(*source(plan), PUBLIC),
        )
    return PrivacySpent(
        rdp_epsilon=epsilon(plan, steps_taken, "rdp"),
        epsilon=epsilon(plan, steps_taken),
        delta=plan.delta,
        accountant="rdp" if plan.delta < smallest_delta(steps_taken) else "pld",
        assumptions=(POISSON, SECRET_SAMPLE if plan.noise_source == "seeded" else WITHHELD, *source(plan), PUBLIC),
    )


def epsilon(plan: PrivacyPlan, steps: int, accountant: str = "pld") -> float:
    """Return ε after ``steps`` steps at the plan's δ and sampling probability.

    Args:
        plan: The plan; its own number of steps is not used.
        steps: Number of steps taken, 0 or more.
        accountant: One of ``ACCOUNTANTS``. For ``pld`` and a δ below :func:`smallest_delta`, ``rdp`` computes ε.

    Returns:
        ε; ∞ without noise, 0 without steps.

    Raises:
        InvalidConfig: For an unknown accountant or a negative number of steps.
    """
    if accountant not in ACCOUNTANTS:
        raise InvalidConfig(f"accountant={accountant!r}, expected one of {', '.join(ACCOUNTANTS)}")
    if steps < 0:
        raise InvalidConfig(f"steps={steps}, expected 0 or more")
    if steps == 0:
        return 0.0
    if not plan.private:
        return math.inf
    compute = {"pld": _pld_epsilon, "rdp": _rdp_epsilon, "rdp-classic": _rdp_classic_epsilon}[accountant]
    return compute(plan.sampling_probability, plan.noise_multiplier, steps, plan.delta)


def max_cost_candidates(parts: Iterable[tuple[PrivacyPlan, int]]) -> list[tuple[PrivacyPlan, int]]:
    """Return the plans among which the one with the largest ε is.

    A plan is left out if an upper bound of its ε is below the ε of another plan.

    Args:
        parts: Plans with Poisson sampling, each with its number of steps taken.

    Returns:
        The candidates with their steps; empty if no steps were taken.
    """
    distinct = {(dataclasses.replace(plan, steps=1), taken): (plan, taken) for plan, taken in parts if taken}
    if len(distinct) == 1:
        return list(distinct.values())
    bounded = [(_upper_bound(plan, taken), plan, taken) for plan, taken in distinct.values()]
    candidates: list[tuple[PrivacyPlan, int]] = []
    largest = -math.inf
    for bound, plan, taken in sorted(bounded, key=lambda one: -one[0]):
        if (1 + _ROUNDING) * bound < largest:
            break
        candidates.append((plan, taken))
        largest = max(largest, epsilon(plan, taken))
    return candidates


def _upper_bound(plan: PrivacyPlan, steps: int) -> float:
    """Return an upper bound of ε, mostly within 0.1 %, at about a tenth of the cost of ε.

    Its grid of losses has every k-th point of the grid for ε, for an integer k. By connecting fewer dots, δ is nowhere
    smaller (Doroshenko et al. 2022).
    """
    if not plan.private:
        return math.inf
    return _coarse_epsilon(plan.sampling_probability, plan.noise_multiplier, steps, plan.delta)


def event_epsilon(event: Event, delta: float) -> float:
    """Return ε at δ of an event (:mod:`engine.privacy.events`), whatever its composition.

    Gaussian releases have an exact ε; other events use privacy loss distributions. Raises InvalidConfig for an
    unsupported event.
    """
    import dp_accounting

    if isinstance(event, dp_accounting.NoOpDpEvent):
        return 0.0
    if isinstance(event, dp_accounting.NonPrivateDpEvent):
        return math.inf
    once, times = (event.event, event.count) if isinstance(event, dp_accounting.SelfComposedDpEvent) else (event, 1)
    if isinstance(once, dp_accounting.GaussianDpEvent):
        return gaussian_epsilon(math.sqrt(times) / once.noise_multiplier, delta)
    if delta < smallest_delta(sum(times for _, _, times in _gaussian_steps(event, 1))):
        return composed_epsilon(_gaussian_steps(event, 1), delta)
    from engine.privacy import pld

    return float(pld.distribution(event).get_epsilon_for_delta(delta))


def _gaussian_steps(event: Event, times: int) -> list[tuple[float, float, int]]:
    """Return sampling probability, noise multiplier and number of each kind of step of an event."""
    if hasattr(event, "events"):
        return [step for part in event.events for step in _gaussian_steps(part, times)]
    if hasattr(event, "count"):
        return _gaussian_steps(event.event, times * event.count)
    probability = getattr(event, "sampling_probability", 1.0)
    noise = getattr(getattr(event, "event", event), "noise_multiplier", None)
    if noise is None:
        raise InvalidConfig(f"event={type(event).__name__}, expected Gaussian noise, sampled or not")
    return [(probability, noise, times)]


def rdp_composition(plans: Iterable[PrivacyPlan], delta: float) -> float:
    """Return ε of the sequential composition of these plans on the same sentences, by Rényi accounting.

    The plans must be fixed beforehand. Where later settings depend on earlier results, see
    :mod:`engine.privacy.rdp_filter`.
    """
    run = list(plans)
    if not all(plan.private for plan in run):
        return math.inf
    return composed_epsilon(
        ((plan.sampling_probability, plan.noise_multiplier, plan.steps) for plan in run if plan.steps), delta
    )


def composed_epsilon(steps: Iterable[tuple[float, float, int]], delta: float) -> float:
    """Return ε of Gaussian steps by Rényi accounting, 0 without steps.

    Args:
        steps: Sampling probability, noise multiplier and number of each kind of step.
        delta: δ; ε is valid at any.
    """
    from dp_accounting.rdp import rdp_privacy_accountant

    total: np.ndarray | float = 0.0
    orders = np.zeros(0)
    for probability, sigma, times in steps:
        orders, divergences = _one_step_rdp(probability, sigma, None)
        total = total + times * divergences
    return float(rdp_privacy_accountant.compute_epsilon(orders, total, delta)[0]) if len(orders) else 0.0


def shuffled_epsilon(plan: PrivacyPlan, steps: int) -> float:
    """Return ε of shuffled batches without amplification by subsampling, under add-or-remove adjacency.

    Let the added sentence replace another, which moves to the end: a random permutation of n becomes one of n + 1. In
    an epoch one batch then changes by up to 2C and the last one by up to C. Over E epochs this is a Gaussian mechanism
    of sensitivity √(5E)·C. Epochs that have started count as whole epochs.
    """
    return event_epsilon(events.of(plan, steps), plan.delta)


def gaussian_epsilon(mu: float, delta: float) -> float:
    """Return the exact ε ≥ 0 of the Gaussian mechanism (Balle and Wang 2018, theorem 8).

    Solves δ(ε) = Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ) for ε.

    Args:
        mu: μ, the ratio of sensitivity to noise standard deviation.
        delta: δ.
    """
    from scipy.optimize import brentq
    from scipy.special import log_ndtr, ndtr

    def excess(value: float) -> float:
        return float(ndtr(mu / 2 - value / mu) - math.exp(value + log_ndtr(-mu / 2 - value / mu))) - delta

    if excess(0.0) <= 0:
        return 0.0
    # Beyond this bound the first term alone is below δ: Φ(−t) ≤ exp(−t²/2) with t = √(2 ln(1/δ)).
    upper = mu * (mu / 2 + math.sqrt(2 * math.log(1 / delta)))
    return float(brentq(excess, 0.0, upper, xtol=1e-10))


def noise_multiplier_for(target_epsilon: float, plan: PrivacyPlan, accountant: str = "pld") -> float:
    """Return the smallest noise multiplier, to 0.0001, whose ε over the whole plan is at most ``target_epsilon``.

    Args:
        target_epsilon: The largest ε allowed at the plan's δ.
        plan: The plan; its own noise multiplier is not used.
        accountant: One of ``ACCOUNTANTS``.

    Raises:
        InvalidConfig: If the target is not positive and finite, or no noise multiplier that a configuration allows
            reaches it.
    """
    if not (isinstance(target_epsilon, (int, float)) and math.isfinite(target_epsilon) and target_epsilon > 0):
        raise InvalidConfig(f"target_epsilon={target_epsilon!r}, expected a positive number")

    def cost(sigma: float, accountant: str) -> float:
        return epsilon(dataclasses.replace(plan, noise_multiplier=sigma), plan.steps, accountant)

    # An exact ε takes up to a second. Rényi accounting is fast and never below it, so it narrows the search.
    quick = "rdp" if accountant == "pld" else accountant
    low, high = 0.0, 1.0
    while cost(high, quick) > target_epsilon:
        if high >= LARGEST_NOISE_MULTIPLIER:
            raise InvalidConfig(
                f"ε = {target_epsilon:g} cannot be reached at δ = {plan.delta:g} with any noise multiplier up to "
                f"{LARGEST_NOISE_MULTIPLIER:,.0f} (accountant: {accountant})"
            )
        low, high = high, min(2 * high, LARGEST_NOISE_MULTIPLIER)
    # ε falls as σ grows, so bisection finds the border; tiny σ are slow to account for and not used in practice. The
    # search for an exact σ starts from 0.9 times this border, which need not be fine.
    width = 1e-4 if accountant == quick else 0.02 * high
    while high - low > width:
        middle = (low + high) / 2
        low, high = (low, middle) if cost(middle, quick) <= target_epsilon else (middle, high)
    if accountant == quick:
        return math.ceil(high * 10_000) / 10_000
    return _exact_noise_multiplier(lambda sigma: cost(sigma, accountant), target_epsilon, high)


def _exact_noise_multiplier(cost: Callable[[float], float], target: float, high: float) -> float:
    """Return the border below ``high``, rounded up to the grid of 0.0001, at which the cost is at most the target.

    The cost at ``high`` is at most the target.
    """
    from scipy.optimize import brentq

    low = 0.9 * high
    while cost(low) <= target:
        low, high = 0.9 * low, low
    while cost(high) > target:  # because of the grid's rounding, which Rényi accounting does not have
        low, high = high, 1.01 * high
    border = brentq(lambda sigma: math.log(cost(sigma) / target), low, high, xtol=2e-5) if cost(high) < target else high
    sigma = math.ceil(border * 10_000) / 10_000
    while cost(sigma) > target:
        sigma = round(sigma + 1e-4, 4)
    return sigma


@lru_cache(maxsize=4096)
def _pld_epsilon(probability: float, sigma: float, steps: int, delta: float) -> float:
    if delta < smallest_delta(steps):
        return _rdp_epsilon(probability, sigma, steps, delta)
    from engine.privacy import pld

    return float(pld.one_step(probability, sigma).self_compose(steps).get_epsilon_for_delta(delta))


@lru_cache(maxsize=4096)
def _coarse_epsilon(probability: float, sigma: float, steps: int, delta: float) -> float:
    if delta < smallest_delta(steps):
        return _rdp_epsilon(probability, sigma, steps, delta)
    from engine.privacy import pld

    width = pld.grid_width(probability, sigma)
    every = max(1, min(_COARSE, int(_WIDEST * probability / sigma / width)))
    return float(pld.on_grid(probability, sigma, every * width).self_compose(steps).get_epsilon_for_delta(delta))


@lru_cache(maxsize=4096)
def _rdp_epsilon(probability: float, sigma: float, steps: int, delta: float) -> float:
    from dp_accounting.rdp import rdp_privacy_accountant

    orders, divergences = _one_step_rdp(probability, sigma, None)
    return float(rdp_privacy_accountant.compute_epsilon(orders, steps * divergences, delta)[0])


@lru_cache(maxsize=4096)
def _rdp_classic_epsilon(probability: float, sigma: float, steps: int, delta: float) -> float:
    orders, divergences = _one_step_rdp(probability, sigma, CLASSIC_ORDERS)
    return float(np.min(steps * divergences + math.log(1 / delta) / (orders - 1)))


@lru_cache(maxsize=64)
def _one_step_rdp(probability: float, sigma: float, orders: tuple[float, ...] | None) -> tuple[np.ndarray, np.ndarray]:
    """Return the orders and the Rényi divergences of one step; divergences of several steps add up.

    ``orders=None`` takes dp_accounting's orders.
    """
    from dp_accounting.rdp import RdpAccountant

    chosen = np.asarray(orders or RdpAccountant().orders, dtype=np.float64)
    return chosen, rdp.divergences(probability, sigma, chosen.tolist())


def warm_up() -> None:
    """Import dp_accounting now, so that the first request for an ε does not wait a second."""
    import dp_accounting.rdp  # noqa: F401

    import engine.privacy.pld  # noqa: F401

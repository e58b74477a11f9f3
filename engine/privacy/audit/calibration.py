"""Audit calibration: audits of mechanisms with known ε, to check that the bound stays below it and how tight it is."""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq

from engine.errors import InvalidConfig
from engine.privacy.accounting import gaussian_epsilon
from engine.privacy.audit import multi_run
from engine.privacy.audit.bound_inversion import of_gaussians, of_noise
from engine.privacy.audit.canary_bounds import ERROR, log_likelihood_ratio
from engine.privacy.audit.one_run import best, epsilon_bound, gaussian_bound, guesses_of, steps_bound
from engine.privacy.audit.tradeoff_functions import delta_of_gaussian
from engine.privacy.plan import PrivacyPlan

_LARGEST = 50.0

BOUNDS = {"gaussian": gaussian_bound, "any": epsilon_bound}
TRIALS = "trials"
FAMILIES = (*BOUNDS, TRIALS)
"""Bounds by their assumption on the mechanism: a Gaussian mechanism; none; or a Gaussian mechanism with independent
canaries.
"""


@dataclass(frozen=True)
class Repetitions:
    """Bounds of repeated audits.

    Attributes:
        epsilon: True ε at ``delta``.
        delta: δ.
        bounds: Lower bounds, float [repetitions].
    """

    epsilon: float
    delta: float
    bounds: np.ndarray

    @property
    def coverage(self) -> float:
        """Share of the bounds that are at most the true ε."""
        return float((self.bounds <= self.epsilon).mean())

    @property
    def median(self) -> float:
        """Median of the bounds."""
        return float(np.median(self.bounds))


def gaussian_mechanism(
    epsilon: float,
    *,
    repetitions: int,
    canaries: int = 100_000,
    delta: float = 1e-5,
    family: str = "gaussian",
    seed: int = 0,
) -> Repetitions:
    """Audit the Gaussian mechanism with this ε at δ repeatedly.

    Canaries are orthogonal directions of length 1. The attacker sees the noisy sum along each, like a white-box
    attacker who reads every step (the strongest attacker).

    Args:
        epsilon: True ε.
        repetitions: Number of audits.
        canaries: Canaries in each audit.
        delta: δ.
        family: Bound, one of :data:`FAMILIES`.
        seed: Seed of memberships and noise.

    Raises:
        InvalidConfig: For values out of range.
    """
    for name, value, least in (("repetitions", repetitions, 1), ("canaries", canaries, 1)):
        if value < least:
            raise InvalidConfig(f"{name}={value}, expected at least {least}")
    if family not in FAMILIES:
        raise InvalidConfig(f"family={family!r}, expected one of {', '.join(FAMILIES)}")
    std = sigma(epsilon, delta)
    random = np.random.default_rng([seed, repetitions, canaries])
    bounds = np.empty(repetitions)
    for repetition in range(repetitions):
        members = random.random(canaries) < 0.5
        seen = members + std * random.standard_normal(canaries)
        bounds[repetition] = _bound((seen - 0.5) / std**2, members, delta, family)
    return Repetitions(epsilon, delta, bounds)


def _bound(scores: np.ndarray, members: np.ndarray, delta: float, family: str) -> float:
    if family != TRIALS:
        return best(guesses_of(scores, members), BOUNDS[family], delta)
    rates = multi_run.errors(scores, members)
    return of_gaussians(lambda curve: multi_run.ruled_out(rates, curve), delta)


def sigma(epsilon: float, delta: float) -> float:
    """Return σ of the Gaussian mechanism of sensitivity 1 with this ε at δ. Raises InvalidConfig for values out of
    range.
    """
    if not 0 < epsilon <= _LARGEST:
        raise InvalidConfig(f"epsilon={epsilon:g}, expected above 0 and at most {_LARGEST:g}")
    if not 0 < delta < 1:
        raise InvalidConfig(f"delta={delta:g}, expected between 0 and 1")
    return float(1 / brentq(lambda mu: delta_of_gaussian(epsilon, mu) - delta, 1e-6, 100.0, xtol=1e-12))


def epsilon_at(epsilon: float, delta: float, *, noise: float) -> float:
    """Return ε at δ if a Gaussian mechanism with this ε has only the share ``noise`` of its noise."""
    return gaussian_epsilon(1 / (noise * sigma(epsilon, delta)), delta)


def dp_sgd_steps(plan: PrivacyPlan, canaries: int, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return the scores of canaries in correct DP-SGD steps, and which of them were in.

    Only the canaries are simulated: a white-box attacker subtracts the sum of the sentences from each release. Each
    canary has its own direction, so its projection of a release depends on no other canary.

    Args:
        plan: The plan of the steps, canaries included.
        canaries: Number of canaries.
        random: Source of memberships, samples and noise.
    """
    members, scores = random.random(canaries) < 0.5, np.zeros(canaries)
    for _ in range(plan.steps):
        sampled = members & (random.random(canaries) < plan.sampling_probability)
        release = sampled + plan.noise_multiplier * random.standard_normal(canaries)
        scores += log_likelihood_ratio(release, plan)
    return scores, members


def error_rate_bound(scores: np.ndarray, members: np.ndarray, plan: PrivacyPlan) -> float:
    """Return the highest bound of a white-box attacker by the rules of older audits.

    Three bounds share the error equally, and that of independent canaries uses error rates.
    """
    tried, error = guesses_of(scores, members), ERROR / 3
    rates = multi_run.errors(scores, members, error)
    return max(
        best(tried, epsilon_bound, plan.delta, error),
        steps_bound(tried, plan, error),
        of_noise(plan, lambda curve: multi_run.ruled_out(rates, curve)),
    )

"""What several trainings on the same sentences cost together.

* Settings that were fixed beforehand, run one after another: privacy losses are convolved (:func:`rdp_composition`),
exact but
  for the grid's rounding against us.
* Settings that follow from earlier results: a *filter*. A total is fixed before the first training, each is admitted
  only if the sum of Rényi divergences stays within what the total allows at one order, and that order is fixed
  beforehand too (the Rényi filter of Feldman and Zrnic 2021). What is then said is the total, whatever was used of it.
  A sum that is taken afterwards, at the order where it happens to be smallest, has no such theorem.

dp_accounting is imported when the first cost is asked for.
"""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from engine.errors import InvalidConfig
from engine.privacy.plan import PrivacyPlan

ORDERS = (*(1 + tenth / 10 for tenth in range(1, 100)), *range(11, 65), 128, 256, 512)
"""Of which a filter takes one: dp_accounting's own up to 512, and 64."""


@dataclass(frozen=True)
class RdpFilter:
    """A total (ε, δ) and the order α at which what is admitted adds up."""

    epsilon: float
    delta: float
    order: float

    @property
    def capacity(self) -> float:
        """The largest sum of Rényi divergences of order α from which (ε, δ) follows (Canonne, Kamath and Steinke 2020,
        proposition 12): ε + (ln δ + ln α) ÷ (α − 1) − ln((α − 1) ÷ α). Negative where nothing can be admitted."""
        past = self.order - 1
        return self.epsilon + (math.log(self.delta) + math.log(self.order)) / past - math.log(past / self.order)

    def cost(self, plan: PrivacyPlan, times: int = 1) -> float:
        """Rényi divergence of order α of a whole plan, run so often with noise of its own each time."""
        if not plan.private:
            return math.inf
        return times * plan.steps * _divergence(plan.sampling_probability, plan.noise_multiplier, self.order)

    def admits(self, spent: float, more: float) -> bool:
        """Whether what was spent and what is to come stay within the total."""
        return spent + more <= self.capacity


def filter_for(epsilon: float, delta: float, usual: PrivacyPlan) -> RdpFilter:
    """The filter of a total, with the order at which the most trainings like ``usual`` fit: settings and a size alone
    decide it. Raises InvalidConfig if not one of them fits at any order."""
    best = best_order_filter(epsilon, delta, usual)
    if best.capacity < best.cost(usual):
        raise InvalidConfig(f"budget={epsilon:g} is less than a single training takes at delta={delta:g}")
    return best


def best_order_filter(epsilon: float, delta: float, usual: PrivacyPlan) -> RdpFilter:
    """The filter of a total, with the order at which the most trainings like ``usual`` fit, even where that is less
    than one."""
    filters = [RdpFilter(epsilon, delta, order) for order in ORDERS]
    return max(filters, key=lambda each: each.capacity / each.cost(usual))


@lru_cache(maxsize=4096)
def _divergence(probability: float, sigma: float, order: float) -> float:
    """Of one step of the Poisson-subsampled Gaussian mechanism (Mironov, Talwar and Zhang 2019)."""
    import dp_accounting
    from dp_accounting.rdp import RdpAccountant

    accountant = RdpAccountant([order])
    accountant.compose(dp_accounting.PoissonSampledDpEvent(probability, dp_accounting.GaussianDpEvent(sigma)))
    return float(accountant.rdp[0])


def rdp_composition(plans: Sequence[tuple[PrivacyPlan, int]], delta: float) -> float:
    """ε at ``delta`` of all these plans, each run so often with noise of its own, settings fixed beforehand: by privacy
    loss distributions."""
    run = [(plan, times) for plan, times in plans if times]
    if not run:
        return 0.0
    if not all(plan.private for plan, _ in run):
        return math.inf
    return _together(
        tuple((plan.sampling_probability, plan.noise_multiplier, times * plan.steps) for plan, times in run), delta
    )


@lru_cache(maxsize=64)
def _together(mechanisms: tuple[tuple[float, float, int], ...], delta: float) -> float:
    from engine.privacy import pld

    # One grid for all, since losses are added on it: the accountant's, as wide as the least noisy asks for.
    interval = 1e-4 * max(1.0, *((0.5 / sigma) ** 2 for _, sigma, _ in mechanisms))
    runs = [pld.on_grid(probability, sigma, interval).self_compose(steps) for probability, sigma, steps in mechanisms]
    whole = functools.reduce(lambda one, other: one.compose(other), runs)
    return float(whole.get_epsilon_for_delta(delta))

"""Composition of several trainings on the same sentences.

* Settings fixed beforehand, run one after another: privacy loss distributions are convolved (:func:`pld_composition`).
  The result is exact except for the grid's pessimistic rounding.
* Settings that depend on earlier results: a *filter*. A total is fixed before the first training. Each training is
  admitted only if the sum of Rényi divergences stays within the total's capacity at one order. That order is also fixed
  beforehand (the Rényi filter of Feldman and Zrnic 2021). The guarantee is the total, however much of it was used. A
  sum taken afterwards, at the order where it happens to be smallest, has no such theorem.

dp_accounting is imported at the first request for a composition.
"""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from engine.errors import InvalidConfig
from engine.privacy import accounting, rdp
from engine.privacy.plan import PrivacyPlan

ORDERS = (*(1 + tenth / 10 for tenth in range(1, 100)), *range(11, 65), 128, 256, 512)
"""Orders available to a filter: dp_accounting's own up to 512, and 64."""


@dataclass(frozen=True)
class RdpFilter:
    """A total (ε, δ) and the order α at which admitted Rényi divergences are summed."""

    epsilon: float
    delta: float
    order: float

    @property
    def capacity(self) -> float:
        """The largest sum of Rényi divergences of order α that implies (ε, δ); negative if no run can be admitted.

        It is ε + (ln δ + ln α) ÷ (α − 1) − ln((α − 1) ÷ α) (Canonne, Kamath and Steinke 2020, proposition 12).
        """
        past = self.order - 1
        return self.epsilon + (math.log(self.delta) + math.log(self.order)) / past - math.log(past / self.order)

    def cost(self, plan: PrivacyPlan, times: int = 1) -> float:
        """Return the Rényi divergence of order α of a whole plan, run ``times`` times with fresh noise each time."""
        if not plan.private:
            return math.inf
        return times * plan.steps * _divergence(plan.sampling_probability, plan.noise_multiplier, self.order)

    def admits(self, spent: float, more: float) -> bool:
        """Return whether the charged and the additional divergence stay within the capacity."""
        return spent + more <= self.capacity


def filter_for(epsilon: float, delta: float, usual: PrivacyPlan) -> RdpFilter:
    """Return the filter of a total at the order that admits the most trainings like ``usual``.

    The order depends on the settings and a size alone. Raises InvalidConfig if no training fits at any order.
    """
    best = best_order_filter(epsilon, delta, usual)
    if best.capacity < best.cost(usual):
        raise InvalidConfig(f"budget={epsilon:g} is less than the cost of a single training at delta={delta:g}")
    return best


def best_order_filter(epsilon: float, delta: float, usual: PrivacyPlan) -> RdpFilter:
    """Return the filter of a total at the order that admits the most trainings like ``usual``, even if less than one
    fits.
    """
    filters = [RdpFilter(epsilon, delta, order) for order in ORDERS]
    return max(filters, key=lambda candidate: candidate.capacity / candidate.cost(usual))


@lru_cache(maxsize=4096)
def _divergence(probability: float, sigma: float, order: float) -> float:
    """Return the Rényi divergence of one step of the Poisson-subsampled Gaussian mechanism (Mironov, Talwar and Zhang
    2019).
    """
    return float(rdp.divergences(probability, sigma, [order])[0])


def pld_composition(plans: Sequence[tuple[PrivacyPlan, int]], delta: float) -> float:
    """Return ε at ``delta`` of the composition of these plans, by privacy loss distributions.

    Args:
        plans: Plans with settings fixed beforehand, each with its number of runs with fresh noise.
        delta: δ.
    """
    run = [(plan, times) for plan, times in plans if times]
    if not run:
        return 0.0
    if not all(plan.private for plan, _ in run):
        return math.inf
    return _composed_epsilon(
        tuple((plan.sampling_probability, plan.noise_multiplier, times * plan.steps) for plan, times in run), delta
    )


@lru_cache(maxsize=64)
def _composed_epsilon(mechanisms: tuple[tuple[float, float, int], ...], delta: float) -> float:
    if delta < accounting.smallest_delta(sum(steps for _, _, steps in mechanisms)):
        return accounting.composed_epsilon(mechanisms, delta)
    from engine.privacy import pld

    # One grid for all mechanisms, since their losses add up on it: as wide as the one with the least noise needs.
    interval = 1e-4 * max(1.0, *((0.5 / sigma) ** 2 for _, sigma, _ in mechanisms))
    runs = [pld.on_grid(probability, sigma, interval).self_compose(steps) for probability, sigma, steps in mechanisms]
    whole = functools.reduce(lambda one, other: one.compose(other), runs)
    return float(whole.get_epsilon_for_delta(delta))

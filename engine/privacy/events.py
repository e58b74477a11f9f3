"""What happened to one sentence, or to one client, as a composable event of dp_accounting, kept apart from its price.

An event says which noise was added to what share of the data and how often; accountants price it
(:func:`engine.privacy.accounting.event_epsilon`), and so could any other that reads dp_accounting's events. It holds
for the unit and the neighbours of the mechanism (:mod:`engine.privacy.mechanism_registry`).

dp_accounting takes a second to import and is therefore imported when the first event is asked for.
"""

import math
from typing import Any

from engine.privacy.plan import PrivacyPlan

Event = Any
"""A dp_accounting.DpEvent; the library ships no types."""


def none() -> Event:
    """Nothing was released."""
    import dp_accounting

    return dp_accounting.NoOpDpEvent()


def unprotected() -> Event:
    """Something was released without noise."""
    import dp_accounting

    return dp_accounting.NonPrivateDpEvent()


def gaussian(apart: float, times: int = 1) -> Event:
    """So many releases whose sums differ by ``apart`` standard deviations of the noise at most."""
    import dp_accounting

    return _repeated(dp_accounting.GaussianDpEvent(1 / apart), times)


def of(plan: PrivacyPlan, steps: int) -> Event:
    """What ``steps`` steps of a plan do to one of its units."""
    import dp_accounting

    if steps == 0:
        return none()
    if not plan.private:
        return unprotected()
    if plan.sampling == "poisson":
        once = dp_accounting.GaussianDpEvent(plan.noise_multiplier)
        return _repeated(dp_accounting.PoissonSampledDpEvent(plan.sampling_probability, once), steps)
    if plan.sampling == "shuffle":
        # A sentence more changes one batch of an epoch by up to 2C and the last one by up to C; see accounting.SHUFFLE.
        return gaussian(math.sqrt(5) / plan.noise_multiplier, math.ceil(steps / plan.steps_per_epoch))
    # Each of whole clients takes part; its message may turn into any other one, at most 2C away.
    return gaussian(2 / plan.noise_multiplier, steps)


def _repeated(event: Event, times: int) -> Event:
    import dp_accounting

    return event if times == 1 else dp_accounting.SelfComposedDpEvent(event, times)

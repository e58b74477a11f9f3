"""Privacy events of one sentence or one client, as composable dp_accounting events, separate from their accounting.

An event records the noise, the sampling rate and the number of repetitions. Accountants compute its ε
(:func:`engine.privacy.accounting.event_epsilon`), as can any other accountant of dp_accounting events. It is valid for
the protected unit and the adjacency of the mechanism (:mod:`engine.config.mechanism_registry`).

dp_accounting takes a second to import, so it is imported at the first request for an event.
"""

import math
from typing import Any

from engine.privacy.plan import PrivacyPlan

Event = Any
"""A dp_accounting.DpEvent; the library has no type annotations."""


def none() -> Event:
    """Return the event of no release."""
    import dp_accounting

    return dp_accounting.NoOpDpEvent()


def unprotected() -> Event:
    """Return the event of a release without noise."""
    import dp_accounting

    return dp_accounting.NonPrivateDpEvent()


def gaussian(apart: float, times: int = 1) -> Event:
    """Return ``times`` releases whose sums differ by at most ``apart`` standard deviations of the noise."""
    import dp_accounting

    return _repeated(dp_accounting.GaussianDpEvent(1 / apart), times)


def of(plan: PrivacyPlan, steps: int) -> Event:
    """Return the event of ``steps`` steps of a plan for one protected unit."""
    import dp_accounting

    if steps == 0:
        return none()
    if not plan.private:
        return unprotected()
    if plan.sampling == "poisson":
        once = dp_accounting.GaussianDpEvent(plan.noise_multiplier)
        return _repeated(dp_accounting.PoissonSampledDpEvent(plan.sampling_probability, once), steps)
    if plan.sampling == "shuffle":
        # Adding a sentence changes one batch of an epoch by up to 2C and the last by up to C: assumption_texts.SHUFFLE.
        return gaussian(math.sqrt(5) / plan.noise_multiplier, math.ceil(steps / plan.steps_per_epoch))
    # Every client takes part; its message may be replaced by any other one, at most 2C away.
    return gaussian(2 / plan.noise_multiplier, steps)


def _repeated(event: Event, times: int) -> Event:
    import dp_accounting

    return event if times == 1 else dp_accounting.SelfComposedDpEvent(event, times)

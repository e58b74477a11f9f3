"""Lower bounds on ε from the scores of canaries: of one run, and of several seeds together."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from engine.privacy.audit import multi_run, one_run
from engine.privacy.audit.bound_inversion import of_noise
from engine.privacy.audit.one_run import Guesses
from engine.privacy.plan import PrivacyPlan

ERROR = 0.05
"""Probability that an attacker's highest bound on a correct run is too high, divided among that attacker's bounds."""
OTHERS = 0.005
"""Share of ``ERROR`` of each bound beside that of independent canaries, which is nearly always the highest."""


@dataclass(frozen=True)
class CanaryBounds:
    """Lower bounds on ε of one attacker, jointly at confidence 1 − ``ERROR``.

    Attributes:
        guesses: Guesses on all canaries.
        any: Bound without any assumption on the mechanism.
        of_steps: Bound for DP-SGD steps with unknown noise; 0 without Poisson sampling.
        of_trials: The same for independent canaries; None where they are not.
        trials: Correct guesses and guesses behind ``of_trials``.
    """

    guesses: Guesses
    any: float
    of_steps: float
    of_trials: float | None = None
    trials: tuple[int, int] | None = None

    @property
    def best(self) -> float:
        """The highest of the bounds."""
        return max(self.any, self.of_steps, self.of_trials or 0.0)


def log_likelihood_ratio(release: np.ndarray, plan: PrivacyPlan) -> np.ndarray:
    """Return the log likelihood ratio of a step's release with and without each canary, [m].

    Args:
        release: Projection of the release on each direction, ÷ C, [m].
        plan: Noise multiplier and sampling probability.
    """
    if not plan.private:
        return release
    probability, variance = plan.sampling_probability, plan.noise_multiplier**2
    with np.errstate(divide="ignore"):
        ratio: np.ndarray = np.logaddexp(np.log1p(-probability), np.log(probability) + (release - 0.5) / variance)
    return ratio


def of_one_run(scores: np.ndarray, members: np.ndarray, plan: PrivacyPlan, *, independent: bool) -> CanaryBounds:
    """Return the bounds of one run.

    Args:
        scores: Score of each canary, float [m]; log likelihood ratios if they are independent.
        members: Whether each canary was in, bool [m].
        plan: Plan of the run, canaries included.
        independent: Whether the output for a canary does not depend on the other canaries.
    """
    tried = one_run.guesses_of(scores, members)
    if not (plan.private and plan.sampling == "poisson"):  # the other bounds assume Poisson sampling
        return CanaryBounds(tried[-1], one_run.best(tried, one_run.epsilon_bound, plan.delta, ERROR), 0.0)
    error = OTHERS if independent else ERROR / 2
    found = CanaryBounds(
        tried[-1],
        one_run.best(tried, one_run.epsilon_bound, plan.delta, error),
        one_run.steps_bound(tried, plan, error),
    )
    if not independent:
        return found
    trials = multi_run.correct(scores, members)
    return CanaryBounds(found.guesses, found.any, found.of_steps, _of_count(trials, plan, ERROR - 2 * OTHERS), trials)


def of_seeds(guesses: Sequence[Guesses], trials: Sequence[tuple[int, int] | None], plan: PrivacyPlan) -> float:
    """Return one joint lower bound on ε of runs with different seeds, at confidence 1 − ``ERROR``.

    The runs together are one mechanism. A canary is in one of the runs only, and the runs are independent. So the
    trade-off function of adding a canary is that of one run, and the guesses of all runs count as those of one.

    Args:
        guesses: Guesses of each run on all of its canaries.
        trials: For independent canaries, the correct guesses and the guesses of each run; None otherwise.
        plan: Plan of each run; they differ in their seed alone.
    """
    counts = [each for each in trials if each is not None]
    if len(counts) == len(guesses):
        return _of_count((sum(right for right, _ in counts), sum(made for _, made in counts)), plan, ERROR)
    canaries, made, right = (sum(getattr(each, name) for each in guesses) for name in ("canaries", "made", "right"))
    pooled = Guesses(canaries, made, right)
    if not (plan.private and plan.sampling == "poisson"):
        return one_run.epsilon_bound(pooled, plan.delta, ERROR)
    return one_run.steps_bound([pooled], plan, ERROR)


def _of_count(trials: tuple[int, int], plan: PrivacyPlan, error: float) -> float:
    return of_noise(plan, lambda curve: multi_run.count_ruled_out(*trials, curve, error))

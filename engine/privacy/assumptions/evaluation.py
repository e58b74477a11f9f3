"""ε of a training under assumptions: an upper bound, or None where no sound bound is known."""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from engine.privacy import accounting
from engine.privacy.assumptions.scenario import Choices, Part, Training, plans
from engine.privacy.group_privacy import group_epsilon
from engine.privacy.plan import PrivacyPlan

_MAX_CHANGE = {"zero-out": 1.0, "replace": 2.0, "add-or-remove": math.sqrt(5)}
"""Largest L2 change of an epoch of shuffled batches, in clip norms C, by adjacency.

Zeroing out a sentence changes the sum of its batch by up to C; replacing it, by up to 2C. Adding one changes one batch
by up to 2C and the last by up to C (:func:`engine.privacy.accounting.shuffled_epsilon`).
"""


def epsilon(training: Training, choices: Choices) -> float | None:
    """Return ε of a training under these choices.

    Returns ∞ without protection. Returns None where no sound value is known: for several sentences in shuffled batches
    under add-or-remove adjacency, or under replace-one adjacency with Poisson sampling.
    """
    if choices.seed_known or training.noise_multiplier == 0 or choices.whole_client:
        return math.inf
    return _epsilon(training, choices)


@lru_cache(maxsize=4096)
def _epsilon(training: Training, choices: Choices) -> float | None:
    if choices.sampling == "none":
        return _shuffled_epsilon(training, choices)
    parts = plans(training, choices)
    if choices.sentences > 1:
        if choices.accountant != "pld" or choices.neighbours == "replace":
            return None
        return group_epsilon([(plan, plan.steps) for plan in parts], choices.sentences)
    if choices.neighbours == "replace":
        return _replacement_epsilon(parts, choices.delta, choices.accountant)
    # Zero-out and add-or-remove give the same two distributions of a step (Kairouz et al. 2021, definition 2.1).
    return _max_epsilon(parts, choices.delta, choices.accountant)


def _max_epsilon(parts: Sequence[PrivacyPlan], delta: float, accountant: str) -> float:
    """Return ε of the part with the largest ε."""
    candidates = accounting.max_cost_candidates((replace(plan, delta=delta), plan.steps) for plan in parts)
    return max(accounting.epsilon(plan, steps, accountant) for plan, steps in candidates)


def _shuffled_epsilon(training: Training, choices: Choices) -> float | None:
    """Return ε if each unit is in one batch of each epoch, or in each message or round.

    k sentences of one person change the sum by at most k times as much, if they are all in one batch.
    """
    change = _max_change(training, choices.neighbours)
    if choices.sentences > 1 and choices.neighbours == "add-or-remove":
        return None
    change *= choices.sentences
    epochs = max(passes(training, part) for part in training.own) * choices.trainings
    if choices.accountant == "pld":
        return accounting.gaussian_epsilon(math.sqrt(epochs) * change / training.noise_multiplier, choices.delta)
    plan = PrivacyPlan(
        examples=1,
        batch_size=1,
        steps=epochs,
        noise_multiplier=training.noise_multiplier / change,
        clip_norm=1.0,
        delta=choices.delta,
        sampling="poisson",
    )
    return accounting.epsilon(plan, epochs, choices.accountant)


def _max_change(training: Training, neighbours: str) -> float:
    """Return the largest change of the sum in clip norms.

    For whole clients a round is one sum or one message: adding or removing one client changes it by C.
    """
    return 1.0 if training.unit == "client" and neighbours == "add-or-remove" else _MAX_CHANGE[neighbours]


def passes(training: Training, part: Part) -> int:
    """Return how often one unit's data can appear in the output.

    For sentences these are the epochs that have started. For whole clients these are the rounds or messages, each of
    which a client may join.
    """
    if training.unit == "client":
        return part.steps
    if not training.parts:
        return math.ceil(training.epochs)
    return math.ceil(part.steps / math.ceil(part.examples / part.batch_size))


def _replacement_epsilon(parts: Sequence[PrivacyPlan], delta: float, accountant: str) -> float:
    """Return an upper bound for replace-one adjacency: a removal and an addition.

    Each is (ε, δ′); together they are (2ε, (1 + e^ε)·δ′) (Dwork and Roth 2014, theorem 2.2). δ′ makes this equal to δ;
    the search starts where the accountant has an ε.
    """
    low, high = delta * 1e-30, delta / 2
    for _ in range(60):
        middle = math.sqrt(low * high)
        removal = _max_epsilon(parts, middle, accountant)
        fits = math.isinf(removal) or math.log(middle) + removal + math.log1p(math.exp(-removal)) <= math.log(delta)
        low, high = (middle, high) if fits else (low, middle)
        if high / low < 1.01:
            break
    return 2 * _max_epsilon(parts, low, accountant)

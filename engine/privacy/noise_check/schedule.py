"""Schedule of the noise check: what it measures and when, fixed before the run from the plan and at random."""

import math
from collections.abc import Sequence

import numpy as np

from engine.privacy.noise_check import critical_values
from engine.privacy.plan import PrivacyPlan
from engine.seeds import Secrets

_STRETCH = 1024
"""Fewest weights to measure at each step if sentences are protected. For whole clients all weights are measured."""
_VISITS = 16
"""Fewest measurements of each weight in a run with enough steps."""
_WHOLE = 32
"""Number of steps of a run at which all weights are measured."""
SKETCH = 64
"""Number of weights, of all parts of the model, that are measured at each step beside a range."""
LOOKS, ALONE, GROUP = 6, 12, (16, 64)
"""Most steps at which the sum is recomputed; sentences that are then checked individually; least and largest size of
the other groups.
"""


class Watch:
    """The schedule of one run.

    Steps are numbered in the order in which they are taken, over all parts. So a key that two clients share is found
    like one that is used twice.

    Args:
        plans: Plans of the disjoint parts of the data, equal except for examples, batch sizes and steps; one plan for
            central training.
        size: Number of weights.
        layers: Title and slice of each layer that has weights.
        unit: Unit that is clipped and sampled, "sentence" or "client".
        secrets: Random streams of the run, from which the check draws what it measures.
        checks: Number of checks of the run, including this one, that share its false-alarm probability.
        verdicts: Most evaluations, if more than usual.

    Attributes:
        steps: Steps of all parts.
        fixed: Indices of the weights that are measured at each step, [64].
        first: First sentence of each part, in the numbering over all parts, [parts + 1].
    """

    def __init__(
        self,
        plans: Sequence[PrivacyPlan],
        size: int,
        *,
        layers: Sequence[tuple[str, slice]] = (),
        unit: str = "sentence",
        secrets: Secrets | None = None,
        checks: int = 1,
        verdicts: int = 0,
    ) -> None:
        self._checks, self._verdicts = checks, verdicts
        self.plans, self.size, self.unit = tuple(plans), size, unit
        self.layers = tuple(layers) or (("all weights", slice(0, size)),)
        self.steps = sum(plan.steps for plan in plans)
        self.fixed = np.linspace(0, size - 1, min(SKETCH, size)).astype(np.int64)
        self.first = np.cumsum([0, *(plan.examples for plan in plans)])
        least = _STRETCH if unit == "sentence" else size  # cheap compared with the training of a client
        length = min(size, max(least, math.ceil(_VISITS * size / self.steps)))
        self.borders = np.rint(np.linspace(0, size, math.ceil(size / length) + 1)).astype(np.int64)
        """Borders of the ranges of weights, [ranges + 1]."""
        self._whole = max(1, self.steps // _WHOLE)
        self._secrets = secrets or Secrets.seeded(0, "")
        self._looks = self._look_steps()
        self.ties = tuple(
            self._secrets.stream(f"ties of {name}").random(number)
            for name, number in (("steps", self.steps), ("sentences", int(self.first[-1])))
        )
        """Uniform draws for each step and for each sentence, which break ties between whole numbers.

        Each run has its own draws: a probability bound says nothing about one sequence that all runs share.
        """

    def share(self, asked: int) -> float:
        """Return the part of the run's false-alarm probability for each of ``asked`` tests of one family."""
        return critical_values.share(self._checks * max(1, asked))

    @property
    def verdicts(self) -> int:
        """Most evaluations of the check."""
        return max(critical_values.VERDICTS, self._verdicts)

    def is_whole(self, step: int) -> bool:
        """Return whether ``step`` (from 0) measures all weights."""
        return len(self.borders) == 2 or step % self._whole == self._whole - 1

    def stretch_number(self, step: int) -> int:
        """Return the range of a step that does not measure all weights; ranges take turns and are measured equally
        often.
        """
        return (step - step // self._whole) % (len(self.borders) - 1)

    def stretch(self, step: int) -> slice:
        """Return the weights to measure before and after ``step``."""
        if self.is_whole(step):
            return slice(0, self.size)
        number = self.stretch_number(step)
        return slice(int(self.borders[number]), int(self.borders[number + 1]))

    def _look_steps(self) -> frozenset[int]:
        """Return one random step of each of several equal sections of the run; the first of several is step 0."""
        number = min(self.steps, LOOKS, max(1, self.steps // 40))
        borders = np.linspace(0, self.steps, number + 1)
        steps = (borders[:-1] + self._secrets.stream("looks").random(number) * np.diff(borders)).astype(int).tolist()
        return frozenset(steps if number == 1 else [0, *steps[1:]])

    def looks_closely(self, step: int) -> bool:
        """Return whether the sum of ``step`` is recomputed."""
        return step in self._looks

    def groups(self, step: int, sentences: np.ndarray) -> list[np.ndarray]:
        """Return the sentences in random groups of at most half of them.

        The sentences of the first group are checked individually.
        """
        stream = self._secrets.stream("groups", step=step)
        order = sentences[stream.permutation(len(sentences))]
        high = min(GROUP[1], max(1, len(order) // 2))
        low = min(GROUP[0], max(1, high // 2))
        sizes = low + (stream.random(len(order) // low + 1) * (high + 1 - low)).astype(np.int64)
        return [group for group in np.split(order, np.cumsum([min(ALONE, high), *sizes])) if len(group)]


def drawn(plan: PrivacyPlan) -> bool:
    """Return whether a plan samples at random."""
    return plan.sampling == "poisson" and plan.sampling_probability < 1

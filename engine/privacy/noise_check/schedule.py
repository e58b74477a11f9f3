"""What the noise check looks at, and when: fixed before the run begins, from the plan and from chance."""

import math
from collections.abc import Sequence

import numpy as np

from engine.privacy.noise_check import critical_values
from engine.privacy.plan import PrivacyPlan
from engine.seeds import Secrets

_STRETCH = 1024
"""Weights whose noise is measured at each step, at least, where sentences are protected; of whole clients all are."""
_VISITS = 16
"""How often each weight is measured in a run, at least, where it has so many steps."""
_WHOLE = 32
"""At so many steps of a run all weights are measured."""
SKETCH = 64
"""Coordinates by which directions are compared."""
_KEPT = 1024
"""Steps whose direction is remembered; with more steps, every so many of them and always the last."""
LOOKS, ALONE, GROUP = 6, 12, (16, 64)
"""How many steps of a run look at sums, at most; sentences that are then looked at alone; size of groups of others."""


class Watch:
    """The schedule of one run.

    plans: of the disjoint parts of the data, alike but for their examples, batch sizes and steps; one of them if the
    data is in one hand. Steps are numbered in the order in which they are taken, over all parts: noise that one client
    has from another is found like noise that comes again. size: weights. layers: title and stretch of each layer that
    has weights. unit: what is clipped and sampled, "sentence" or "client". secrets: of the run, from which the check
    draws where it looks. checks: of the run, this one among them, which share its chance of a false alarm. verdicts:
    how often it is asked at most, where that is more than usual.

    steps: of all parts. fixed: the weights, [64], whose noise is compared from step to step. first: where each part's
    sentences begin when all are counted through, [parts + 1]. stride: of how many steps one direction is kept.
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
        self.stride = math.ceil(self.steps / _KEPT)
        least = _STRETCH if unit == "sentence" else size  # beside a client's training all of them cost little
        length = min(size, max(least, math.ceil(_VISITS * size / self.steps)))
        self.borders = np.rint(np.linspace(0, size, math.ceil(size / length) + 1)).astype(np.int64)
        """Of the stretches, [stretches + 1]."""
        self._whole = max(1, self.steps // _WHOLE)
        self._secrets = secrets or Secrets.seeded(0, "")
        self._looks = self._look_steps()
        self.ties = tuple(
            self._secrets.stream(f"ties of {name}").random(number)
            for name, number in (("steps", self.steps), ("sentences", int(self.first[-1])))
        )
        """Uniform draws for each step and for each sentence, which break ties between whole numbers; of the run's own,
        since a bound over chance says nothing about one sequence of draws that all runs share."""

    def share(self, asked: int) -> float:
        """The part of the run's chance of a false alarm of each of so many questions of one family."""
        return critical_values.share(self._checks * max(1, asked))

    @property
    def verdicts(self) -> int:
        """How often the check is asked, at most."""
        return max(critical_values.VERDICTS, self._verdicts)

    @property
    def rows(self) -> int:
        """How many directions are kept."""
        return -(-self.steps // self.stride)

    @property
    def compares(self) -> bool:
        """Whether there are weights enough to tell one direction from another."""
        return len(self.fixed) == SKETCH

    def is_whole(self, step: int) -> bool:
        """Whether ``step`` (from 0) looks at all weights."""
        return len(self.borders) == 2 or step % self._whole == self._whole - 1

    def stretch_number(self, step: int) -> int:
        """Which stretch is looked at otherwise: one after another, so that each has its turn equally often."""
        return (step - step // self._whole) % (len(self.borders) - 1)

    def stretch(self, step: int) -> slice:
        """The weights to look at before and after ``step``."""
        if self.is_whole(step):
            return slice(0, self.size)
        number = self.stretch_number(step)
        return slice(int(self.borders[number]), int(self.borders[number + 1]))

    def _look_steps(self) -> frozenset[int]:
        """One by chance in each of equal stretches of the run, and the first step where there are several."""
        number = min(self.steps, LOOKS, max(1, self.steps // 40))
        borders = np.linspace(0, self.steps, number + 1)
        drawn = (borders[:-1] + self._secrets.stream("looks").random(number) * np.diff(borders)).astype(int).tolist()
        return frozenset(drawn if number == 1 else [0, *drawn[1:]])

    def looks_closely(self, step: int) -> bool:
        """Whether the sum of ``step`` is to be made once more."""
        return step in self._looks

    def groups(self, step: int, sentences: np.ndarray) -> list[np.ndarray]:
        """All these sentences in random groups, none of more than half of them; those of the first are to be looked at
        alone."""
        stream = self._secrets.stream("groups", step=step)
        order = sentences[stream.permutation(len(sentences))]
        high = min(GROUP[1], max(1, len(order) // 2))
        low = min(GROUP[0], max(1, high // 2))
        sizes = low + (stream.random(len(order) // low + 1) * (high + 1 - low)).astype(np.int64)
        return [group for group in np.split(order, np.cumsum([min(ALONE, high), *sizes])) if len(group)]


def drawn(plan: PrivacyPlan) -> bool:
    """Whether a plan's samples are left to chance."""
    return plan.sampling == "poisson" and plan.sampling_probability < 1

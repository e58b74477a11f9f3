"""The noise check: is what a private run does to its weights what its plan says?

DP-SGD that is silently off looks like DP-SGD that works: the loss falls, ε is printed. So each private run is measured
from outside, on the weights before and after each step:

* *Noise.* The update gives back the gradient that was applied (:meth:`Optimiser.gradient_between`); times the expected
  batch size, less the clipped sum, it is the noise. Its squares, divided by (σC)², sum up to χ²: a bound for each step
  on some thousand coordinates and one for the run. Dividing by the realised batch size shows here too.
* *Fresh noise.* Directions of the noise of different steps are compared on a fixed few coordinates.
* *Clipping.* At some steps each sampled sentence goes alone through the same code: its contribution may not be longer
  than C, and the contributions must add up to the sum that was used. Clipping groups of sentences fails this.
* *Sampling.* Batch sizes and how often each sentence came must spread as independent draws with probability q do.

The bounds are so wide that an honest run crosses one with a chance below 1e-6, and so narrow that each fault in
``tests/engine/privacy/test_sabotage.py`` is found within the run.
"""

import math
from collections.abc import Sequence

import numpy as np

from engine.privacy.plan import PrivacyPlan
from engine.records import NoiseCheck

_BLOCK = 4096
"""Coordinates whose noise is measured at each step, another stretch each time."""
_SKETCH = 64
"""Coordinates by which directions are compared; two independent ones have a cosine of 0 ± 1/8."""
_KEPT = 4096
"""Steps whose direction is remembered; with more steps, every so many of them and always the last."""
_SAME = 0.95
"""Cosine from which two directions count as one: 7.6 standard deviations."""
_STEP_BOUND, _RUN_BOUND = 7.0, 5.0
"""Standard deviations that a measured spread may be off, at one step among thousands and over the run."""
_ROUNDING = 0.01
"""Share of the noise's variance that the rounding of the weights may add before the noise cannot be measured."""
_GAP, _REPRODUCIBLE = 0.25, 0.01
"""Distance of two sums of b clipped gradients in units of C√b, about 1 if they have nothing to do with each other: from
where it is a fault, and up to where rounding may account for it."""
_CLIPPED = {"sentence": "gradient", "client": "update"}
_SLACK = 1e-4
"""Relative error of a float32 gradient norm."""
CLOSE_LOOKS, CLOSE_SENTENCES = 10, 64
"""How many steps of a run look at single sentences, and at how many at most."""


class NoiseMonitor:
    """Measures one run; ``state`` is kept in checkpoints, so that a resumed run knows what came before.

    plans: of the disjoint parts of the data, alike but for their examples, batch sizes and steps; one of them if the
    data is in one hand. Steps are numbered in the order in which they are taken, over all parts: noise that one client
    has from another is found like noise that comes again. unit: what is clipped and sampled, "sentence" or "client".
    """

    def __init__(self, plans: Sequence[PrivacyPlan], size: int, unit: str = "sentence") -> None:
        self._unit = unit
        self._plans, self._plan, self._size = tuple(plans), plans[0], size
        self._steps = sum(plan.steps for plan in plans)
        self._stride = math.ceil(self._steps / _KEPT)
        self._fixed = np.linspace(0, size - 1, min(_SKETCH, size)).astype(np.int64)
        self._first = np.cumsum([0, *(plan.examples for plan in plans)])
        self.state = {
            "noise": np.zeros(2),  # Σ (noise/σC)², and over how many draws
            "bad": np.array([0.0, -1.0, 0.0]),  # steps whose spread was off; the first of them, and its spread
            "reused": np.array([-1, -1]),  # the first step with the noise of another one, and that one
            "rounding": np.zeros(1),  # largest share of variance by rounding
            "clipped": np.zeros(3),  # largest contribution, how many were measured, largest gap ÷ C√b
            "sizes": np.zeros((len(plans), 3)),  # of each part: Σ b, Σ (b − nq)², steps
            "times": np.zeros(self._first[-1], dtype=np.int32),  # how often each sentence was drawn
            "directions": np.zeros((-(-self._steps // self._stride), len(self._fixed)), dtype=np.float32),
        }

    @property
    def steps_seen(self) -> int:
        """How many steps were measured, which is the number of the next one."""
        return int(self.state["sizes"][:, 2].sum())

    def looks_closely(self, step: int) -> bool:
        """Whether single sentences are to be measured at ``step`` (from 0)."""
        return step < 2 or step % max(1, self._steps // CLOSE_LOOKS) == 0

    def coordinates(self, step: int) -> np.ndarray:
        """The weights to look at before and after ``step``, int64 [fixed ones + a stretch]."""
        length = min(_BLOCK, self._size)
        start = step * _BLOCK % max(1, self._size - length + 1)
        return np.concatenate([self._fixed, np.arange(start, start + length)])

    def saw_sample(self, sentences: np.ndarray, part: int = 0) -> None:
        """Which sentences of a part a step used; the last thing that is told of a step."""
        expected = self._plans[part].batch_size
        self.state["sizes"][part] += [len(sentences), (len(sentences) - expected) ** 2, 1]
        np.add.at(self.state["times"], self._first[part] + sentences, 1)

    def saw_contributions(self, norms: np.ndarray, gap: float, unsure: float) -> None:
        """norms: L2 norms of single sentences' contributions; gap: L2 distance of their sum from the one used; unsure:
        how far that sum moves with the last digit of the weights, which is no fault of the clipping."""
        clipped, scale = self.state["clipped"], float(self._plan.clip_norm or 0.0) * math.sqrt(max(1, len(norms)))
        clipped[:2] = [max(clipped[0], norms.max(initial=0.0)), clipped[1] + len(norms)]
        if unsure <= _REPRODUCIBLE * scale:
            clipped[2] = max(clipped[2], gap / scale)

    def saw_noise(self, step: int, noise: np.ndarray, rounding: float) -> None:
        """noise: at ``coordinates(step)``; rounding: standard deviation of its error by the rounding of the weights."""
        state, noise = self.state, noise / self._plan.noise_std
        error = (rounding / self._plan.noise_std) ** 2
        state["rounding"][0] = max(state["rounding"][0], error)
        draws = noise[len(self._fixed) :]
        square = float(draws @ draws)
        state["noise"] += [square, draws.size]
        if not abs(square / draws.size - 1) <= _STEP_BOUND * math.sqrt(2 / draws.size) + error:
            if state["bad"][0] == 0:
                state["bad"][1:] = [step, math.sqrt(square / draws.size)]
            state["bad"][0] += 1
        self._compare(step, noise[: len(self._fixed)])

    def _compare(self, step: int, direction: np.ndarray) -> None:
        if len(direction) < _SKETCH:
            return
        kept, place = self.state["directions"], step // self._stride
        length = np.linalg.norm(direction)
        direction = (direction / length if length else direction).astype(np.float32)
        same = np.flatnonzero(kept[: place + 1] @ direction > _SAME)
        if same.size and self.state["reused"][0] < 0:
            self.state["reused"][:] = [step, min(step - 1, int(same[0]) * self._stride + self._stride - 1)]
        kept[place] = direction

    def verdict(self) -> NoiseCheck:
        """What was measured so far, against the plan."""
        plan, state = self._plan, self.state
        square, draws = state["noise"]
        total, spread, steps = state["sizes"].sum(0)
        ratio = math.sqrt(square / draws) if draws else 0.0
        expected = sum(plan.batch_size * taken for plan, taken in zip(self._plans, state["sizes"][:, 2], strict=True))
        variance = sum(_variance(plan) * taken for plan, taken in zip(self._plans, state["sizes"][:, 2], strict=True))
        measured = bool(state["rounding"][0] <= _ROUNDING)
        return NoiseCheck(
            steps=int(steps),
            noise_std=ratio * plan.noise_std if measured else None,
            noise_planned=plan.noise_std,
            noise_tolerance=plan.noise_std * _RUN_BOUND / math.sqrt(2 * max(1.0, draws)),
            clipped_norm_max=float(state["clipped"][0]),
            clip_norm=float(plan.clip_norm or 0.0),
            sentences_measured=int(state["clipped"][1]),
            batch_mean=float(total / max(1, steps)),
            batch_planned=float(expected / steps if steps else plan.batch_size),
            batch_std=math.sqrt(spread / max(1, steps)),
            batch_std_planned=math.sqrt(variance / max(1, steps)) if plan.sampling == "poisson" else None,
            unit=self._unit,
            faults=(*(self._noise_faults(ratio) if measured else ()), *self._clip_faults(), *self._sample_faults()),
        )

    def _noise_faults(self, ratio: float) -> list[str]:
        state, found = self.state, []
        draws = state["noise"][1]
        number, first, spread = state["bad"]
        # The variance may be off by its sampling error; the rounding of the weights adds a known little.
        if draws and not abs(ratio**2 - 1) <= _RUN_BOUND * math.sqrt(2 / draws) + state["rounding"][0]:
            found.append(
                f"The noise on the weights has {100 * ratio:.1f} % of the planned standard deviation over all steps."
            )
        elif number:
            found.append(
                f"At step {first + 1:,.0f} the noise on the weights had {100 * spread:.1f} % of the planned standard "
                f"deviation (steps like this: {number:,.0f})."
            )
        if state["reused"][0] >= 0:
            step, before = state["reused"] + 1
            found.append(f"Step {step:,} added the noise of step {before:,} again.")
        return found

    def _clip_faults(self) -> list[str]:
        bound, (largest, _, gap) = float(self._plan.clip_norm or 0.0), self.state["clipped"]
        found = []
        if not largest <= bound * (1 + _SLACK):
            found.append(
                f"A {self._unit} contributed a {_CLIPPED[self._unit]} of norm {largest:.4g}, longer than the clip norm "
                f"{bound:g}."
            )
        if not gap <= _GAP:
            found.append(
                f"The sum that was used and the sum of the sentences' clipped gradients lie {100 * gap:.0f} % of what "
                "chance directions would give apart: they were not clipped one by one."
            )
        return found

    def _sample_faults(self) -> list[str]:
        if self._plan.sampling != "poisson":
            return []
        # What every part shows is added up: many small clients show as much together as one large one.
        off, variance, steps = 0.0, 0.0, 0.0
        sizes, times = _Spread(), _Spread()
        for part, (plan, (total, spread, taken)) in enumerate(zip(self._plans, self.state["sizes"], strict=True)):
            n, q = plan.examples, plan.sampling_probability
            if q >= 1 or not taken:
                continue
            single = q * (1 - q)
            off, variance, steps = off + total - taken * n * q, variance + taken * n * single, steps + taken
            sizes.add(spread / (n * single), taken, n * single, single)
            each = self.state["times"][self._first[part] : self._first[part + 1]] - taken * q
            times.add(float(each @ each) / (taken * single), n, taken * single, single)
        found = []
        if abs(off) > _STEP_BOUND * math.sqrt(variance):
            found.append(
                f"Samples hold {abs(off) / steps:.4g} {self._unit}s {'more' if off > 0 else 'fewer'} than planned on "
                "average, which chance does not allow."
            )
        if sizes.number and abs(sizes.deviation) > _STEP_BOUND:
            found.append(
                f"Sample sizes spread {math.sqrt(sizes.squares / sizes.number):.3g} times as much as independent draws "
                "with probability q would."
            )
        if times.number and abs(times.deviation) > _STEP_BOUND:
            found.append(f"Each {self._unit} comes back too evenly or too unevenly for independent draws.")
        return found


def _variance(plan: PrivacyPlan) -> float:
    """Of the number of sentences that a Poisson sample of this plan has."""
    return plan.examples * plan.sampling_probability * (1 - plan.sampling_probability)


class _Spread:
    """A sum of squared standardised binomial counts.

    It is close to χ² with fewer degrees of freedom where counts are small; Wilson and Hilferty's cube root makes that
    normal, also in the tails.
    """

    def __init__(self) -> None:
        self.squares = self.number = self._excess = 0.0

    def add(self, squares: float, number: float, variance: float, single: float) -> None:
        """``number`` counts of one variance, of draws of variance ``single`` = q(1 − q) each."""
        self.squares, self.number = self.squares + squares, self.number + number
        self._excess += number * (2 + (1 - 6 * single) / variance)

    @property
    def deviation(self) -> float:
        """How far the sum lies from its mean, in standard deviations."""
        if self._excess <= 0:  # one draw each at q = ½: every square is 1
            return 0.0
        freedom = 2 * self.number**2 / self._excess
        step = 2 / (9 * freedom)
        return float(((self.squares / self.number) ** (1 / 3) - (1 - step)) / math.sqrt(step))

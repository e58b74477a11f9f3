"""The noise check: compares each step of a private run with its privacy plan.

DP-SGD that adds too little noise looks like DP-SGD that works: the loss falls, and an ε is reported. So each private
run is measured from outside, on the weights before and after each step:

* *Noise.* The update gives back the gradient that was applied (:meth:`Optimiser.gradient_between`). Times the expected
  batch size, minus the clipped sum, this is the noise. Each step measures another range of weights, each weight equally
  often; some steps measure all weights. The sums of squares are tested for each weight, for each 256 of them, for each
  layer, for all, and for each step.
* *Shape.* The distribution of the draws in each layer is compared with the normal distribution (Kolmogorov-Smirnov
  test).
* *Along the sum.* The noise's component along the clipped sum is N(0, σ²C²), as in any direction. It differs if part of
  a gradient bypasses the noise, or if the noise spares that direction.
* *Fresh noise.* The directions of the noise of different steps are compared on 64 fixed coordinates: each pair, all
  pairs at the same distance, and each direction with the mean of all before it.
* *No other changes.* Before each step, the weights and moments that were measured last equal those after the last
  update, to the last digit.
* *Clipping.* At some random steps, the sum is recomputed from small groups of all its sentences, and one of the groups
  from single sentences. The gradient of each must have at most norm C.
* *Sampling.* Batch sizes, and the number of batches that contain each sentence, must vary as independent draws with
  probability q.

A correct run fails with a probability below 1e-6 over all evaluations and all checks of the run
(:mod:`engine.privacy.noise_check.critical_values`). ``python -m benchmarks.noise_check`` measures when which share of
missing noise is found; ``docs/metrics.md`` lists what the check cannot detect.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from engine.privacy.noise_check import critical_values, kernels
from engine.privacy.noise_check.hypothesis_tests import GAP, verdict
from engine.privacy.noise_check.schedule import SKETCH, Watch, drawn
from engine.privacy.plan import PrivacyPlan
from engine.records import NoiseCheck

_QUIET = 1e-4
"""Largest share of the noise's variance that rounding may add, for tests along a direction."""
_CHAOS = 30
"""Largest gap between two sums that rounding may explain, in units of the sum's change when the last digit of each
weight changes.
"""
WAITING = 16
"""Most steps that are measured together."""


class NoiseMonitor:
    """Noise check of one run.

    Its ``state`` is saved in checkpoints, so that a resumed run continues its measurements. :class:`Watch` documents
    the arguments, and gives the weights to measure at each step.
    """

    def __init__(self, plans: Sequence[PrivacyPlan], size: int, **kind: Any) -> None:
        self.watch = watch = Watch(plans, size, **kind)
        self._plan = plans[0]
        self._layers = np.array([[layer.start, layer.stop] for _, layer in watch.layers])
        self._spreads = {  # bounds of √(Σ squares) of a step, by its number of draws
            draws: tuple(math.sqrt(bound) for bound in critical_values.square_bounds(draws, watch.share(watch.steps)))
            for draws in {*np.diff(watch.borders).tolist(), size}
        }
        self._reuse = critical_values.cosine_bound(SKETCH, watch.share(watch.rows * watch.steps))
        self._waiting: list[Callable[[], None]] = []
        self._state = {
            "steps": np.zeros(1, dtype=np.int64),
            "squares": np.zeros(size),  # Σ (noise/σC)² of each weight
            "slacks": np.zeros(size),  # Σ (rounding error/σC)² of each weight
            "visits": np.zeros(
                (2, len(watch.borders)), dtype=np.int64
            ),  # measurements of each range; of all weights, in [1, 0]
            "bins": np.zeros((len(watch.layers), kernels.BINS + 2), dtype=np.int64),
            "spreads": np.zeros(2),  # Σ of squared normal scores of the steps' variances, steps
            "bad": np.array([0.0, -1.0, 0.0]),  # steps with a wrong variance; the first one, and its standard deviation
            "along": np.zeros((2, 3)),  # on ranges and on all weights: Σ x, Σ x², steps
            "leak": np.array([-1.0, 0.0]),  # first step with a too large component along its sum, and the component
            "reused": np.array(
                [-1.0, -1.0, 0.0]
            ),  # first step with the noise of another one, the other one, their cosine
            "lags": np.zeros(watch.rows),  # Σ cosine by distance of the steps
            "mean": np.zeros(len(watch.fixed)),  # Σ directions
            "drift": np.zeros(2),  # Σ x of each direction with the mean before it, steps
            "directions": np.zeros((watch.rows, len(watch.fixed))),
            "touched": np.array([0.0, -1.0]),  # steps before which weights had changed, and the first one
            "rounding": np.zeros(1),  # largest share of the variance due to rounding
            "sums": np.zeros(5),  # largest contribution, contributions, largest gap ÷ C, recomputed sums, valid ones
            "sizes": np.zeros((len(plans), 3)),  # of each part: Σ b, Σ (b − nq)², steps
            "scores": np.zeros(3),  # of batch sizes: Σ x, Σ x², steps
            "times": np.zeros(watch.first[-1], dtype=np.int64),  # batches that contain each sentence
        }

    @property
    def steps_seen(self) -> int:
        """The number of measured steps, which is the number of the next step."""
        return int(self._state["steps"][0]) + len(self._waiting)

    @property
    def state(self) -> dict[str, np.ndarray]:
        """The measurements so far, by name."""
        self.finalize()
        return self._state

    @state.setter
    def state(self, state: dict[str, np.ndarray]) -> None:
        self._waiting.clear()
        self._state |= state  # values that an older checkpoint lacks keep their initial value

    def later(self, measure: Callable[[], None]) -> None:
        """Queue the measurement of the next step.

        ``measure`` calls :meth:`saw_noise` and :meth:`saw_sample`. It runs soon, and before :attr:`state` is read.
        Several steps in a row take little more than half the time, since training between them evicts the check's data
        from the processor's caches.
        """
        whole = self.watch.is_whole(self.steps_seen)  # holds several copies of all weights, so it runs immediately
        self._waiting.append(measure)
        if whole or len(self._waiting) == WAITING:
            self.finalize()

    def finalize(self) -> None:
        """Measure the queued steps."""
        waiting, self._waiting = self._waiting, []
        for measure in waiting:
            measure()

    def saw_sample(self, sentences: np.ndarray, part: int = 0) -> None:
        """Record the sentences of a part that a step used. This is the last call for a step."""
        state, plan, number = self._state, self.watch.plans[part], len(sentences)
        sizes = state["sizes"][part]
        sizes[0] += number
        sizes[1] += (number - plan.batch_size) ** 2
        sizes[2] += 1
        kernels.count(state["times"], self.watch.first[part], sentences)
        if drawn(plan):
            tie = float(self.watch.ties[0][int(state["steps"][0]) % self.watch.steps])
            score = critical_values.normal_score(number, tie, plan.examples, plan.sampling_probability)
            _add(state["scores"], score)
        state["steps"][0] += 1

    def observe_sum(self, norms: np.ndarray, gap: float, unsure: Callable[[], float]) -> None:
        """Record a recomputed sum.

        Args:
            norms: L2 norms of the contributions that were recomputed individually.
            gap: L2 distance between the sum that was used and the recomputed sum.
            unsure: Returns the L2 change of the sum when the last digit of each weight changes. Such a change is no
                fault. It is called only if the gap would be a fault.
        """
        sums, bound = self._state["sums"], float(self._plan.clip_norm or 0.0)
        counts = gap <= GAP * bound or not gap <= _CHAOS * unsure()
        if counts:
            sums[2] = max(sums[2], gap / bound) if math.isfinite(gap) else math.inf
        sums[:2] = [max(sums[0], norms.max(initial=0.0)), sums[1] + len(norms)]
        sums[3:] += [1, counts]

    def saw_touched(self, step: int) -> None:
        """Record that weights or moments changed between the last update and ``step``."""
        touched = self._state["touched"]
        if touched[0] == 0:
            touched[1] = step
        touched[0] += 1

    def saw_noise(self, step: int, noise: np.ndarray, error: np.ndarray, directions: Sequence[np.ndarray]) -> None:
        """Record the noise of a step.

        Args:
            step: Number of the step.
            noise: Noise on the weights that the schedule measures, then on the fixed ones, float64 [k + 64].
            error: Most by which rounding may have moved each noise value, float64 [k + 64].
            directions: Directions to test the noise along, on the same weights, [k + 64] each; the clipped sum first.
        """
        state, std, weights = self._state, self._plan.noise_std, self.watch.stretch(step)
        draws, whole = weights.stop - weights.start, self.watch.is_whole(step)
        square, far, dot, length = kernels.measure(
            noise[:draws],
            error,
            directions[0],
            std,
            weights.start,
            self._layers,
            state["squares"],
            state["slacks"],
            state["bins"],
        )
        state["visits"][int(whole), 0 if whole else self.watch.stretch_number(step)] += 1
        rounding = far / 3 / draws  # variance of an error that is uniform between its bounds
        state["rounding"][0] = max(state["rounding"][0], rounding)
        self._test_step(step, square, draws, far)
        if rounding <= _QUIET:
            if length > 0:
                part = dot / math.sqrt(length)
                _add(state["along"][int(whole)], part)
                self._test_direction(step, part, len(directions))
            for direction in directions[1:]:
                size = float(np.linalg.norm(direction[:draws]))
                if size > 0:
                    self._test_direction(step, float(noise[:draws] @ direction[:draws]) / size / std, len(directions))
        if self.watch.compares:
            self._compare(step, noise[draws:])

    def _test_step(self, step: int, square: float, draws: int, far: float) -> None:
        state = self._state
        low, high = self._spreads[draws]
        if not low - math.sqrt(far) <= math.sqrt(square) <= high + math.sqrt(far):
            if state["bad"][0] == 0:
                state["bad"][1:] = [step, math.sqrt(square / draws)]
            state["bad"][0] += 1
        if far <= 0.01 * math.sqrt(2 * draws):  # otherwise rounding would affect the variance of the variances
            spreads = state["spreads"]
            spreads[0] += critical_values.square_score(square, draws) ** 2
            spreads[1] += 1

    def _test_direction(self, step: int, part: float, asked: int) -> None:
        if (
            not abs(part) <= critical_values.normal_bound(self.watch.share(self.watch.steps * asked))
            and self._state["leak"][0] < 0
        ):
            self._state["leak"][:] = [step, part]

    def _compare(self, step: int, direction: np.ndarray) -> None:
        state, index = self._state, step // self.watch.stride
        cosine, row, drift = kernels.compare(direction, index, state["directions"], state["lags"], state["mean"])
        if not abs(cosine) <= self._reuse and state["reused"][0] < 0:
            before = min(step - 1, row * self.watch.stride + self.watch.stride - 1)
            state["reused"][:] = [step, before, cosine]
        if drift:
            state["drift"][0] += math.sqrt(SKETCH) * drift
            state["drift"][1] += 1

    def verdict(self) -> NoiseCheck:
        """Return the measurements so far, compared with the plan."""
        return verdict(self.watch, self.state)


def _add(sums: np.ndarray, value: float) -> None:
    """Add one value to the sums Σ x, Σ x² and the number of values."""
    sums[0] += value
    sums[1] += value * value
    sums[2] += 1

"""The noise check: is what a private run does to its weights what its plan says?

DP-SGD that is silently off looks like DP-SGD that works: the loss falls, ε is printed. So each private run is measured
from outside, on the weights before and after each step:

* *Noise.* The update gives back the gradient that was applied (:meth:`Optimiser.gradient_between`); times the expected
  batch size, less the clipped sum that was used, it is the noise. At each step another stretch of weights is measured,
  each weight equally often, and all of them at every so many steps. Sums of squares are kept for each weight, and
  judged for each weight, each 256 of them, each layer and the whole; and for each step.
* *Shape.* How the draws are distributed, layer by layer, against the normal distribution (Kolmogorov and Smirnov).
* *Along the sum.* The noise's component along the clipped sum is N(0, σ²C²) like any other: what is left of a gradient
  that slipped past the noise, or noise that spares that direction, shows here.
* *Fresh noise.* Directions of the noise of different steps are compared on a fixed few coordinates: a pair of them,
  all pairs so many steps apart, and each with the mean of all before it.
* *Nothing else.* Before each step the weights and moments that were measured last are as the update left them, to the
  last digit.
* *Clipping.* At some steps, drawn by chance, the sum that was used is made once more from small groups of all its
  sentences, and one of the groups from single sentences, each no longer than C.
* *Sampling.* Batch sizes and how often each sentence came must spread as independent draws with probability q do.

An honest run fails with a chance below 1e-6 over all its verdicts, and over all its checks where several parties have
one each (:mod:`engine.privacy.noise_check.critical_values`). Which share of missing noise is found when is measured by
``python -m benchmarks.noise_check``; what cannot be seen stands in ``docs/metrics.md``.
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
"""Share of the noise's variance that rounding may add where it is judged in finer ways."""
_CHAOS = 30
"""The same, in units of how far it moves with the last digit of the weights: up to where that may account for it."""
WAITING = 16
"""So many steps are judged together, at most."""


class NoiseMonitor:
    """Measures one run. What it has of it is its ``state``, which is kept in checkpoints, so that a resumed run knows
    what came before.

    For the arguments see :class:`Watch`, which says what is wanted of each step.
    """

    def __init__(self, plans: Sequence[PrivacyPlan], size: int, **kind: Any) -> None:
        self.watch = watch = Watch(plans, size, **kind)
        self._plan = plans[0]
        self._layers = np.array([[layer.start, layer.stop] for _, layer in watch.layers])
        self._spreads = {  # by how many draws a step has: between which values the root of their squares may lie
            draws: tuple(math.sqrt(bound) for bound in critical_values.square_bounds(draws, watch.share(watch.steps)))
            for draws in {*np.diff(watch.borders).tolist(), size}
        }
        self._reuse = critical_values.cosine_bound(SKETCH, watch.share(watch.rows * watch.steps))
        self._waiting: list[Callable[[], None]] = []
        self._state = {
            "steps": np.zeros(1, dtype=np.int64),
            "squares": np.zeros(size),  # Σ (noise/σC)² of each weight
            "slacks": np.zeros(size),  # Σ of the squares of what rounding may have added to each
            "visits": np.zeros((2, len(watch.borders)), dtype=np.int64),  # of each stretch; of all at once, in [1, 0]
            "bins": np.zeros((len(watch.layers), kernels.BINS + 2), dtype=np.int64),
            "spreads": np.zeros(2),  # Σ of squared normal scores of the steps' own spreads, how many
            "bad": np.array([0.0, -1.0, 0.0]),  # steps whose spread was off; the first of them, and its spread
            "along": np.zeros((2, 3)),  # on stretches and on all weights: Σ x, Σ x², how many
            "leak": np.array([-1.0, 0.0]),  # the first step with too much along a sum, and how much
            "reused": np.array([-1.0, -1.0, 0.0]),  # the first step with noise of another one, that one, the cosine
            "lags": np.zeros(watch.rows),  # Σ cosine by how far steps lie apart
            "mean": np.zeros(len(watch.fixed)),  # Σ directions
            "drift": np.zeros(2),  # Σ x of each direction with the mean before it, how many
            "directions": np.zeros((watch.rows, len(watch.fixed))),
            "touched": np.array([0.0, -1.0]),  # steps before which weights had been moved, and the first of them
            "rounding": np.zeros(1),  # largest share of variance by rounding
            "sums": np.zeros(5),  # largest contribution, how many alone, largest gap ÷ C, looks, looks that counted
            "sizes": np.zeros((len(plans), 3)),  # of each part: Σ b, Σ (b − nq)², steps
            "scores": np.zeros(3),  # of batch sizes: Σ x, Σ x², how many
            "times": np.zeros(watch.first[-1], dtype=np.int64),  # how often each sentence was drawn
        }

    @property
    def steps_seen(self) -> int:
        """How many steps were measured, which is the number of the next one."""
        return int(self._state["steps"][0]) + len(self._waiting)

    @property
    def state(self) -> dict[str, np.ndarray]:
        """What was measured so far, by name."""
        self.finalize()
        return self._state

    @state.setter
    def state(self, state: dict[str, np.ndarray]) -> None:
        self._waiting.clear()
        self._state |= state  # what an older checkpoint does not have yet begins here

    def later(self, tell: Callable[[], None]) -> None:
        """Take what was seen of the next step, which ``tell`` tells by :meth:`saw_noise` and :meth:`saw_sample`: soon,
        and before anything is asked. Several steps told one after another take little more than half the time, since
        training between them drives all that the check needs out of the processor's caches."""
        whole = self.watch.is_whole(self.steps_seen)  # which nobody would hold for long: all weights, some times over
        self._waiting.append(tell)
        if whole or len(self._waiting) == WAITING:
            self.finalize()

    def finalize(self) -> None:
        """Judge the steps that wait."""
        waiting, self._waiting = self._waiting, []
        for tell in waiting:
            tell()

    def saw_sample(self, sentences: np.ndarray, part: int = 0) -> None:
        """Which sentences of a part a step used; the last thing that is told of a step."""
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
        """norms: L2 norms of the contributions that were looked at alone; gap: L2 distance of the sum that was used
        from the one that was made anew; unsure: says how far that moves with the last digit of the weights, which is
        no fault, and is asked where the gap is one."""
        sums, bound = self._state["sums"], float(self._plan.clip_norm or 0.0)
        counts = gap <= GAP * bound or not gap <= _CHAOS * unsure()
        if counts:
            sums[2] = max(sums[2], gap / bound) if math.isfinite(gap) else math.inf
        sums[:2] = [max(sums[0], norms.max(initial=0.0)), sums[1] + len(norms)]
        sums[3:] += [1, counts]

    def saw_touched(self, step: int) -> None:
        """That weights or moments are not as the update before this step left them."""
        touched = self._state["touched"]
        if touched[0] == 0:
            touched[1] = step
        touched[0] += 1

    def saw_noise(self, step: int, noise: np.ndarray, error: np.ndarray, directions: Sequence[np.ndarray]) -> None:
        """noise: at the weights that the watch has for the step and then at the fixed ones, float64 [k + 64]; error:
        how far rounding may have moved it; directions: of what it was added to, the sum first; both there too."""
        state, std, where = self._state, self._plan.noise_std, self.watch.stretch(step)
        draws, whole = where.stop - where.start, self.watch.is_whole(step)
        square, far, dot, length = kernels.measure(
            noise[:draws],
            error,
            directions[0],
            std,
            where.start,
            self._layers,
            state["squares"],
            state["slacks"],
            state["bins"],
        )
        state["visits"][int(whole), 0 if whole else self.watch.stretch_number(step)] += 1
        rounding = far / 3 / draws  # as if evenly spread between its ends
        state["rounding"][0] = max(state["rounding"][0], rounding)
        self._judge_step(step, square, draws, far)
        if rounding <= _QUIET:
            if length > 0:
                part = dot / math.sqrt(length)
                _add(state["along"][int(whole)], part)
                self._judge_direction(step, part, len(directions))
            for direction in directions[1:]:
                size = float(np.linalg.norm(direction[:draws]))
                if size > 0:
                    self._judge_direction(step, float(noise[:draws] @ direction[:draws]) / size / std, len(directions))
        if self.watch.compares:
            self._compare(step, noise[draws:])

    def _judge_step(self, step: int, square: float, draws: int, far: float) -> None:
        state = self._state
        low, high = self._spreads[draws]
        if not low - math.sqrt(far) <= math.sqrt(square) <= high + math.sqrt(far):
            if state["bad"][0] == 0:
                state["bad"][1:] = [step, math.sqrt(square / draws)]
            state["bad"][0] += 1
        if far <= 0.01 * math.sqrt(2 * draws):  # else rounding would show in the spread of the spreads
            spreads = state["spreads"]
            spreads[0] += critical_values.square_score(square, draws) ** 2
            spreads[1] += 1

    def _judge_direction(self, step: int, part: float, asked: int) -> None:
        if (
            not abs(part) <= critical_values.normal_bound(self.watch.share(self.watch.steps * asked))
            and self._state["leak"][0] < 0
        ):
            self._state["leak"][:] = [step, part]

    def _compare(self, step: int, direction: np.ndarray) -> None:
        state, place = self._state, step // self.watch.stride
        cosine, row, drift = kernels.compare(direction, place, state["directions"], state["lags"], state["mean"])
        if not abs(cosine) <= self._reuse and state["reused"][0] < 0:
            before = min(step - 1, row * self.watch.stride + self.watch.stride - 1)
            state["reused"][:] = [step, before, cosine]
        if drift:
            state["drift"][0] += math.sqrt(SKETCH) * drift
            state["drift"][1] += 1

    def verdict(self) -> NoiseCheck:
        """What was measured so far, against the plan."""
        return verdict(self.watch, self.state)


def _add(sums: np.ndarray, value: float) -> None:
    """Take one value into Σ x, Σ x² and how many."""
    sums[0] += value
    sums[1] += value * value
    sums[2] += 1

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
* *Draws.* Noise and samples equal the draws of their keys, which are computed a second time
  (:mod:`engine.privacy.noise_check.replay`). No key is used twice, neither at two steps nor by two clients. The draws
  of a key begin at counter 0, so the ranges of two uses overlap exactly if the keys are equal.
* *No other changes.* Before each step, the weights and moments that were measured last equal those after the last
  update, to the last digit. Plan and training settings are those of the first step.
* *Clipping.* At some random steps, the sum is recomputed from small groups of all its sentences, and one of the groups
  from single sentences. Each of these contributes its gradient, scaled to norm C if it is longer.
* *Sampling.* Batch sizes, and the number of batches that contain each sentence, must vary as independent draws with
  probability q.

A correct run fails with a probability below 1e-6 over all evaluations and all checks of the run
(:mod:`engine.privacy.noise_check.critical_values`). ``python -m benchmarks.noise_check`` measures when which share of
missing noise is found; ``docs/metrics.md`` lists what the check cannot detect.
"""

import hashlib
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from engine.config import TrainingConfig
from engine.privacy.noise_check import critical_values, kernels, replay
from engine.privacy.noise_check.hypothesis_tests import GAP, SLACK, verdict
from engine.privacy.noise_check.schedule import Watch, drawn
from engine.privacy.plan import PrivacyPlan
from engine.records import NoiseCheck

_QUIET = 1e-4
"""Largest share of the noise's variance that rounding may add, for tests along a direction."""
_CHAOS = 30
"""Largest gap between two sums that rounding may explain, in units of the sum's change when the last digit of each
weight changes.
"""
_OF_THE_SAME_DRAWS = {"squares", "slacks", "visits", "bins", "tails"}
"""Measurements that tests compare with one another: a checkpoint without all of them starts them again."""
WAITING = 16
"""Most steps that are measured together."""
_WINDOW = 256
"""Fewest sentences of a step that are compared with the draws of its key, in turn; of large batches, twice as many as
the batch.
"""


class NoiseMonitor:
    """Noise check of one run.

    Its ``state`` is saved in checkpoints, so that a resumed run continues its measurements. :class:`Watch` documents
    the arguments, and gives the weights to measure at each step.

    Attributes:
        watch: The schedule.
        others: Checks of the same run, whose keys must differ from those of this check.
    """

    def __init__(self, plans: Sequence[PrivacyPlan], size: int, **kind: Any) -> None:
        self.watch = watch = Watch(plans, size, **kind)
        self._plan = plans[0]
        self._layers = np.array([[layer.start, layer.stop] for _, layer in watch.layers])
        self._spreads = {  # bounds of √(Σ squares) of a step, by its number of draws
            draws: tuple(math.sqrt(bound) for bound in critical_values.square_bounds(draws, watch.share(watch.steps)))
            for draws in {*np.diff(watch.borders).tolist(), size}
        }
        self.others: Sequence[NoiseMonitor] = ()
        self._keys: dict[int, int] = {}
        """Step of each key, by its fingerprint."""
        self._settings: tuple[Any, int] = (None, 0)
        """Training settings of the last step, and their fingerprint."""
        self._waiting: list[Callable[[], None]] = []
        self._state = {
            "steps": np.zeros(1, dtype=np.int64),
            "squares": np.zeros(size),  # Σ (noise/σC)² of each weight
            "slacks": np.zeros(size),  # Σ (rounding error/σC)² of each weight
            "visits": np.zeros(
                (2, len(watch.borders)), dtype=np.int64
            ),  # measurements of each range; of all weights, in [1, 0]
            "bins": np.zeros((len(watch.layers), kernels.BINS + 2), dtype=np.int64),
            "tails": np.zeros(len(kernels.TAILS), dtype=np.int64),  # values beyond each limit
            "spreads": np.zeros(2),  # Σ of squared normal scores of the steps' variances, steps
            "bad": np.array([0.0, -1.0, 0.0]),  # steps with a wrong variance; the first one, and its standard deviation
            "along": np.zeros((2, 3)),  # on ranges and on all weights: Σ x, Σ x², steps
            "leak": np.array([-1.0, 0.0]),  # first step with a too large component along its sum, and the component
            "keys": np.zeros((2, watch.steps), dtype=np.uint64),  # fingerprints of each step's noise and sample keys
            "reused": np.array([-1, -1]),  # first step with a key of another one; the other one, −1 of another check
            "compared": np.zeros(2, dtype=np.int64),  # draws of noise and sentences that were compared with their keys
            "differing": np.array([0.0, -1.0, -1.0, 0.0]),  # steps with other noise; the first, weight, difference ÷ σC
            "misdrawn": np.array([0, -1, -1, 0]),  # steps with another sample; the first, sentence, 1 if wrongly in it
            "settings": np.zeros(1, dtype=np.uint64),  # fingerprint of the training settings
            "changed": np.array([-1]),  # first step with another plan or other training settings
            "touched": np.array([0.0, -1.0]),  # steps before which weights had changed, and the first one
            "unplanned": np.array([-1.0, 0.0]),  # norm of the first wrongly clipped contribution, and its planned norm
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
        # Values that an older checkpoint lacks, or has in another shape, keep their initial value.
        known = self._state
        usable = {name: value for name, value in state.items() if name in known and value.shape == known[name].shape}
        if not usable.keys() >= _OF_THE_SAME_DRAWS:
            usable = {name: value for name, value in usable.items() if name not in _OF_THE_SAME_DRAWS}
        self._state |= {name: value.astype(known[name].dtype) for name, value in usable.items()}
        self._keys = {int(key): step for keys in self._state["keys"] for step, key in enumerate(keys) if key}

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

    def saw_sample(self, sentences: np.ndarray, part: int = 0, key: bytes | None = None) -> None:
        """Record the sentences of a part that a step used. This is the last call for a step.

        Args:
            sentences: The sentences, int64 [b].
            part: Index of the part.
            key: Key of the draws of a Poisson sample; None compares nothing.
        """
        state, plan, number = self._state, self.watch.plans[part], len(sentences)
        sizes = state["sizes"][part]
        if key is not None and plan.sampling == "poisson":
            self._compare_sample(sentences, plan, int(sizes[2]), key)
        sizes[0] += number
        sizes[1] += (number - plan.batch_size) ** 2
        sizes[2] += 1
        kernels.count(state["times"], self.watch.first[part], sentences)
        if drawn(plan):
            tie = float(self.watch.ties[0][int(state["steps"][0]) % self.watch.steps])
            score = critical_values.normal_score(number, tie, plan.examples, plan.sampling_probability)
            _add(state["scores"], score)
        state["steps"][0] += 1

    def observe_sum(
        self, norms: np.ndarray, gap: float, unsure: Callable[[], float], planned: np.ndarray | None = None
    ) -> None:
        """Record a recomputed sum.

        Args:
            norms: L2 norms of the contributions that were recomputed individually.
            gap: L2 distance between the sum that was used and the recomputed sum.
            unsure: Returns the L2 change of the sum when the last digit of each weight changes. Such a change is no
                fault. It is called only if the gap would be a fault.
            planned: L2 norms of these contributions by the planned clipping of their gradients; None compares nothing.
        """
        sums, bound = self._state["sums"], float(self._plan.clip_norm or 0.0)
        counts = gap <= GAP * bound or not gap <= _CHAOS * unsure()
        if counts:
            sums[2] = max(sums[2], gap / bound) if math.isfinite(gap) else math.inf
        sums[:2] = [max(sums[0], norms.max(initial=0.0)), sums[1] + len(norms)]
        sums[3:] += [1, counts]
        if planned is not None:
            off = ~(np.abs(norms - planned) <= SLACK * bound)
            if off.any() and self._state["unplanned"][0] < 0:
                self._state["unplanned"][:] = norms[off][0], planned[off][0]

    def saw_touched(self, step: int) -> None:
        """Record that weights or moments changed between the last update and ``step``."""
        touched = self._state["touched"]
        if touched[0] == 0:
            touched[1] = step
        touched[0] += 1

    def saw_settings(self, step: int, plan: PrivacyPlan, training: TrainingConfig, part: int = 0) -> None:
        """Record the settings with which a step is taken.

        Args:
            step: Number of the step.
            plan: The plan.
            training: The training settings.
            part: Index of the part.
        """
        last, mark = self._settings
        if training is not last:
            mark = _fingerprint(repr(training).encode())
            self._settings = training, mark
        first, changed = self._state["settings"], self._state["changed"]
        if not first[0]:
            first[0] = mark
        own = self.watch.plans[part]
        if changed[0] < 0 and (int(first[0]) != mark or (plan is not own and plan != own)):
            changed[0] = step

    def saw_noise(
        self,
        step: int,
        noise: np.ndarray,
        error: np.ndarray,
        directions: Sequence[np.ndarray],
        key: bytes | None = None,
    ) -> None:
        """Record the noise of a step.

        Args:
            step: Number of the step.
            noise: Noise on the weights that the schedule measures, then on the fixed ones, float64 [k + 64].
            error: Most by which rounding may have moved each noise value, float64 [k + 64].
            directions: Directions to test the noise along, on the same weights, [k + 64] each; the clipped sum first.
            key: Key of the draws; None compares nothing.
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
            state["tails"],
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
        if key is not None:
            self._compare_noise(step, weights, whole, (noise, error, directions[0]), key)

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

    def _compare_noise(
        self, step: int, weights: slice, whole: bool, measured: tuple[np.ndarray, ...], key: bytes
    ) -> None:
        """Compare the noise of a step with the draws of its key.

        Args:
            step: Number of the step.
            weights: Its measured range.
            whole: Whether these are all weights.
            measured: Noise and error as in :meth:`saw_noise`, and the clipped sum on the same weights.
            key: The key.
        """
        state = self._state
        noise, error, sums = measured
        compared, differing, weight, difference = replay.compare_noise(
            noise,
            error,
            sums,
            self._plan.noise_std,
            weights.start,
            weights.stop,
            self.watch.fixed,
            step % replay.FIXED,
            replay.words_of(key),
            step * replay.LANES % replay.WIDTH,
            whole,
        ).tolist()
        state["compared"][0] += int(compared)
        if differing:
            if state["differing"][0] == 0:
                state["differing"][1:] = step, weight, difference
            state["differing"][0] += 1
        self._record_key(0, step, key)

    def _compare_sample(self, sentences: np.ndarray, plan: PrivacyPlan, taken: int, key: bytes) -> None:
        """Compare a sample with the draws of its key: all its sentences, and which of a window are in it.

        Args:
            sentences: The sample.
            plan: Plan of its part.
            taken: Earlier steps of the part.
            key: The key.
        """
        state, step = self._state, int(self._state["steps"][0])
        window = max(_WINDOW, 16 * -(-plan.batch_size // 8))
        low = taken % -(-plan.examples // window) * window
        high, q = min(plan.examples, low + window), plan.sampling_probability
        found = replay.compare_sample(sentences, low, high, q, replay.words_of(key)).tolist()
        state["compared"][1] += found[0]
        if found[1]:
            if state["misdrawn"][0] == 0:
                state["misdrawn"][1:] = step, found[2], found[3]
            state["misdrawn"][0] += 1
        self._record_key(1, step, key)

    def _record_key(self, kind: int, step: int, key: bytes) -> None:
        """Record the key of a step's noise (``kind`` 0) or sample (1), and whether it was used before."""
        mark, state = _fingerprint(key), self._state
        before = self._keys.get(mark)
        if state["reused"][0] < 0 and (before is not None or any(mark in other._keys for other in self.others)):
            state["reused"][:] = step, -1 if before is None else before
        self._keys[mark] = step
        if step < self.watch.steps:
            state["keys"][kind, step] = mark

    def verdict(self) -> NoiseCheck:
        """Return the measurements so far, compared with the plan."""
        return verdict(self.watch, self.state)


def _fingerprint(value: bytes) -> int:
    """Return 63 bits of the SHA-256 of a value, as an odd number of 64 bits, so not 0.

    Of a million values, two have the same with probability 5e-8.
    """
    return int.from_bytes(hashlib.sha256(value).digest()[:8], "little") | 1


def _add(sums: np.ndarray, value: float) -> None:
    """Add one value to the sums Σ x, Σ x² and the number of values."""
    sums[0] += value
    sums[1] += value * value
    sums[2] += 1

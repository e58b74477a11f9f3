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
* *Clipping.* At some steps, drawn by chance, the sum that was used is made once more from small groups of all its
  sentences, and one of the groups from single sentences, each no longer than C.
* *Sampling.* Batch sizes and how often each sentence came must spread as independent draws with probability q do.

An honest run fails with a chance below 1e-6 over all its verdicts (:mod:`engine.privacy.bounds`). Which share of
missing noise is found when is measured by ``python -m benchmarks.noise_check``; what cannot be seen stands in
``docs/numbers.md``.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np
from scipy.special import ndtr

from engine.privacy import bounds, measuring
from engine.privacy.plan import PrivacyPlan
from engine.records import LayerNoise, NoiseCheck
from engine.seeds import Secrets

_STRETCH = 2048
"""Weights whose noise is measured at each step, at least."""
_VISITS = 16
"""How often each weight is measured in a run, at least, where it has so many steps."""
_WHOLE = 32
"""At so many steps of a run all weights are measured."""
_CELL = 256
"""Neighbouring weights that are judged together."""
_SKETCH = 64
"""Coordinates by which directions are compared."""
_KEPT = 1024
"""Steps whose direction is remembered; with more steps, every so many of them and always the last."""
_ROUNDING = 0.01
"""Share of the noise's variance that the rounding of the weights may add before the noise cannot be measured."""
_QUIET = 1e-4
"""The same for what is judged in finer ways."""
_GAP = 0.05
"""Distance, in units of C, of the sum that was used from the one that was made anew: from where it is a fault."""
_CHAOS = 30
"""The same, in units of how far it moves with the last digit of the weights: up to where that may account for it."""
_SLACK = 1e-4
"""Relative error of a float32 gradient norm."""
LOOKS, ALONE, GROUP = 6, 12, (16, 64)
"""How many steps of a run look at sums, at most; sentences that are then looked at alone; size of the groups."""
_CLIPPED = {"sentence": "gradient", "client": "update"}


class NoiseMonitor:
    """Measures one run; ``state`` is kept in checkpoints, so that a resumed run knows what came before.

    plans: of the disjoint parts of the data, alike but for their examples, batch sizes and steps; one of them if the
    data is in one hand. Steps are numbered in the order in which they are taken, over all parts: noise that one client
    has from another is found like noise that comes again. size: weights. layers: title and stretch of each layer that
    has weights. unit: what is clipped and sampled, "sentence" or "client". secrets: of the run, from which the check
    draws where it looks.
    """

    def __init__(
        self,
        plans: Sequence[PrivacyPlan],
        size: int,
        *,
        layers: Sequence[tuple[str, slice]] = (),
        unit: str = "sentence",
        secrets: Secrets | None = None,
    ) -> None:
        self._unit, self._secrets = unit, secrets or Secrets.seeded(0, "")
        self._plans, self._plan, self._size = tuple(plans), plans[0], size
        self._layers = tuple(layers) or (("all weights", slice(0, size)),)
        self._steps = sum(plan.steps for plan in plans)
        length = min(size, max(_STRETCH, math.ceil(_VISITS * size / self._steps)))
        self._borders = np.rint(np.linspace(0, size, math.ceil(size / length) + 1)).astype(np.int64)
        self._whole = max(1, self._steps // _WHOLE)
        self._stride = math.ceil(self._steps / _KEPT)
        self.fixed = np.linspace(0, size - 1, min(_SKETCH, size)).astype(np.int64)
        """The weights [64] whose noise is wanted at each step besides."""
        self._first = np.cumsum([0, *(plan.examples for plan in plans)])
        self._looks = self._look_steps()
        chance = np.random.default_rng(0)  # fixed: what it breaks is ties between whole numbers
        self._ties = chance.random(self._steps), chance.random(int(self._first[-1]))
        kept = -(-self._steps // self._stride)
        self._bounds = np.array([[layer.start, layer.stop] for _, layer in self._layers])
        self._reuse = bounds.cosine_bound(_SKETCH, bounds.share(kept * self._steps))
        self.state = {
            "steps": np.zeros(1, dtype=np.int64),
            "squares": np.zeros(size),  # Σ (noise/σC)² of each weight
            "slacks": np.zeros(size),  # Σ of the squares of what rounding may have added to each
            "visits": np.zeros((2, len(self._borders)), dtype=np.int64),  # of each stretch; of all at once, in [1, 0]
            "bins": np.zeros((len(self._layers), measuring.BINS + 2), dtype=np.int64),
            "spreads": np.zeros(2),  # Σ of squared normal scores of the steps' own spreads, how many
            "bad": np.array([0.0, -1.0, 0.0]),  # steps whose spread was off; the first of them, and its spread
            "along": np.zeros((2, 3)),  # on stretches and on all weights: Σ x, Σ x², how many
            "leak": np.array([-1.0, 0.0]),  # the first step with too much along a sum, and how much
            "reused": np.array([-1.0, -1.0, 0.0]),  # the first step with noise of another one, that one, the cosine
            "lags": np.zeros(kept),  # Σ cosine by how far steps lie apart
            "mean": np.zeros(len(self.fixed)),  # Σ directions
            "drift": np.zeros(2),  # Σ x of each direction with the mean before it, how many
            "directions": np.zeros((kept, len(self.fixed))),
            "rounding": np.zeros(1),  # largest share of variance by rounding
            "sums": np.zeros(5),  # largest contribution, how many alone, largest gap ÷ C, looks, looks that counted
            "sizes": np.zeros((len(plans), 3)),  # of each part: Σ b, Σ (b − nq)², steps
            "scores": np.zeros(3),  # of batch sizes: Σ x, Σ x², how many
            "times": np.zeros(self._first[-1], dtype=np.int64),  # how often each sentence was drawn
        }

    @property
    def steps_seen(self) -> int:
        """How many steps were measured, which is the number of the next one."""
        return int(self.state["steps"][0])

    # What is wanted

    def _look_steps(self) -> frozenset[int]:
        """One by chance in each of equal stretches of the run, and the first step where there are several."""
        number = min(self._steps, LOOKS, max(1, self._steps // 40))
        borders = np.linspace(0, self._steps, number + 1)
        drawn = (borders[:-1] + self._secrets.stream("looks").random(number) * np.diff(borders)).astype(int).tolist()
        return frozenset(drawn if number == 1 else [0, *drawn[1:]])

    def looks_closely(self, step: int) -> bool:
        """Whether the sum of ``step`` (from 0) is to be made once more."""
        return step in self._looks

    def groups(self, step: int, sentences: np.ndarray) -> list[np.ndarray]:
        """All these sentences in random groups; those of the first are to be looked at alone."""
        stream = self._secrets.stream("groups", step=step)
        order = sentences[stream.permutation(len(sentences))]
        low, high = GROUP
        sizes = low + (stream.random(len(order) // low + 1) * (high + 1 - low)).astype(np.int64)
        return [group for group in np.split(order, np.cumsum([ALONE, *sizes])) if len(group)]

    def stretch(self, step: int) -> slice:
        """The weights to look at before and after ``step``."""
        if self._is_whole(step):
            return slice(0, self._size)
        block = step % (len(self._borders) - 1)
        return slice(int(self._borders[block]), int(self._borders[block + 1]))

    def _is_whole(self, step: int) -> bool:
        return len(self._borders) == 2 or step % self._whole == self._whole - 1

    # What was seen

    def saw_sample(self, sentences: np.ndarray, part: int = 0) -> None:
        """Which sentences of a part a step used; the last thing that is told of a step."""
        state, plan, number = self.state, self._plans[part], len(sentences)
        sizes = state["sizes"][part]
        sizes[0] += number
        sizes[1] += (number - plan.batch_size) ** 2
        sizes[2] += 1
        np.add.at(state["times"], self._first[part] + sentences, 1)
        if _drawn(plan):
            tie = float(self._ties[0][self.steps_seen % self._steps])
            score = bounds.normal_score(number, tie, plan.examples, plan.sampling_probability)
            _add(state["scores"], score)
        state["steps"][0] += 1

    def saw_sum(self, norms: np.ndarray, gap: float, unsure: Callable[[], float]) -> None:
        """norms: L2 norms of the contributions that were looked at alone; gap: L2 distance of the sum that was used
        from the one that was made anew; unsure: says how far that moves with the last digit of the weights, which is
        no fault, and is asked where the gap is one."""
        sums, bound = self.state["sums"], float(self._plan.clip_norm or 0.0)
        counts = gap <= _GAP * bound or not gap <= _CHAOS * unsure()
        if counts:
            sums[2] = max(sums[2], gap / bound) if math.isfinite(gap) else math.inf
        sums[:2] = [max(sums[0], norms.max(initial=0.0)), sums[1] + len(norms)]
        sums[3:] += [1, counts]

    def saw_noise(self, step: int, noise: np.ndarray, error: np.ndarray, directions: Sequence[np.ndarray]) -> None:
        """noise: at the weights ``stretch(step)`` and then at the ``fixed`` ones, float64 [k + 64]; error: how far
        rounding may have moved it; directions: of what it was added to, the sum first; both there too."""
        state, std, where = self.state, self._plan.noise_std, self.stretch(step)
        draws, whole = where.stop - where.start, self._is_whole(step)
        square, far, dot, length = measuring.measure(
            noise[:draws],
            error,
            directions[0],
            std,
            where.start,
            self._bounds,
            state["squares"],
            state["slacks"],
            state["bins"],
        )
        state["visits"][int(whole), 0 if whole else step % (len(self._borders) - 1)] += 1
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
        if len(self.fixed) == _SKETCH:
            self._compare(step, noise[draws:])

    def _judge_step(self, step: int, square: float, draws: int, far: float) -> None:
        state = self.state
        low, high = bounds.square_bound(draws, bounds.share(self._steps))
        if not math.sqrt(low) - math.sqrt(far) <= math.sqrt(square) <= math.sqrt(high) + math.sqrt(far):
            if state["bad"][0] == 0:
                state["bad"][1:] = [step, math.sqrt(square / draws)]
            state["bad"][0] += 1
        if far <= 0.01 * math.sqrt(2 * draws):  # else rounding would show in the spread of the spreads
            spreads = state["spreads"]
            spreads[0] += _square_score(square, draws) ** 2
            spreads[1] += 1

    def _judge_direction(self, step: int, part: float, asked: int) -> None:
        if not abs(part) <= bounds.normal_bound(bounds.share(self._steps * asked)) and self.state["leak"][0] < 0:
            self.state["leak"][:] = [step, part]

    def _compare(self, step: int, direction: np.ndarray) -> None:
        state, place = self.state, step // self._stride
        cosine, row, drift = measuring.compare(direction, place, state["directions"], state["lags"], state["mean"])
        if not abs(cosine) <= self._reuse and state["reused"][0] < 0:
            before = min(step - 1, row * self._stride + self._stride - 1)
            state["reused"][:] = [step, before, cosine]
        if drift:
            state["drift"][0] += math.sqrt(_SKETCH) * drift
            state["drift"][1] += 1

    # What it comes to

    def verdict(self) -> NoiseCheck:
        """What was measured so far, against the plan."""
        plan, state = self._plan, self.state
        visits = self._visits()
        draws = float(visits.sum())
        ratio = math.sqrt(state["squares"].sum() / draws) if draws else 0.0
        total, spread, steps = state["sizes"].sum(0)
        taken = state["sizes"][:, 2]
        expected = sum(plan.batch_size * times for plan, times in zip(self._plans, taken, strict=True))
        variance = sum(_variance(plan) * times for plan, times in zip(self._plans, taken, strict=True))
        measured = bool(state["rounding"][0] <= _ROUNDING)
        distances = self._distances()
        x, squared, number = state["along"].sum(0)
        return NoiseCheck(
            steps=int(steps),
            noise_std=ratio * plan.noise_std if measured else None,
            noise_planned=plan.noise_std,
            noise_tolerance=plan.noise_std * _relative_tolerance(draws, 1),
            clipped_norm_max=float(state["sums"][0]),
            clip_norm=float(plan.clip_norm or 0.0),
            sentences_measured=int(state["sums"][1]),
            batch_mean=float(total / max(1, steps)),
            batch_planned=float(expected / steps if steps else plan.batch_size),
            batch_std=math.sqrt(spread / max(1, steps)),
            batch_std_planned=math.sqrt(variance / max(1, steps)) if plan.sampling == "poisson" else None,
            unit=self._unit,
            faults=(*(self._noise_faults(visits) if measured else ()), *self._sum_faults(), *self._sample_faults()),
            layers=tuple(self._layer_noise(visits)) if measured else (),
            least_visits=int(visits.min()),
            shape_distance=float(max((distance for distance, _ in distances), default=0.0)),
            along=float(x / math.sqrt(number)) if number else 0.0,
            along_spread=math.sqrt(squared / number) if number else 0.0,
            looks=int(state["sums"][3]),
            looks_counted=int(state["sums"][4]),
            largest_gap=float(state["sums"][2]),
        )

    def _visits(self) -> np.ndarray:
        """How often each weight was measured, int64 [size]."""
        return np.repeat(self._stretch_visits(), np.diff(self._borders))

    def _stretch_visits(self) -> np.ndarray:
        stretches, whole = self.state["visits"]
        return np.asarray(stretches[: len(self._borders) - 1] + whole[0])

    def _layer_noise(self, visits: np.ndarray) -> list[LayerNoise]:
        found = []
        for title, layer in self._layers:
            draws = float(visits[layer].sum())
            ratio = math.sqrt(self.state["squares"][layer].sum() / draws) if draws else 0.0
            tolerance = _relative_tolerance(draws, len(self._layers))
            found.append(LayerNoise(title, ratio, tolerance, int(visits[layer].min(initial=0))))
        return found

    def _noise_faults(self, visits: np.ndarray) -> list[str]:
        if not visits.any():
            return []
        return [
            *self._spread_faults(visits),
            *self._step_faults(),
            *self._shape_faults(),
            *self._along_faults(),
            *self._fresh_faults(),
        ]

    def _spread_faults(self, visits: np.ndarray) -> list[str]:
        """Is the noise as strong as planned, over all, and if so in each layer, each few weights and each weight?"""
        squares, slacks = self.state["squares"], self.state["slacks"]
        starts = np.array([layer.start for _, layer in self._layers])
        levels = (("whole", np.array([0])), ("layer", starts), ("cell", np.arange(0, self._size, _CELL)))
        for level, first in levels:
            square, slack, draws = (np.add.reduceat(sums, first) for sums in (squares, slacks, visits))
            low, high = self._spread_bounds(draws)
            number, place = measuring.outside(square, slack, np.arange(len(first) + 1), low, high)
            if number:
                return [self._spread_fault(level, int(place), number, float(square[place] / draws[place]))]
        low, high = self._spread_bounds(self._stretch_visits(), self._size)
        number, place = measuring.outside(squares, slacks, self._borders, low, high)
        if number:
            return [self._spread_fault("weight", int(place), number, float(squares[place] / visits[place]))]
        return []

    @staticmethod
    def _spread_bounds(draws: np.ndarray, asked: int | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Between which values the root of a sum of so many squares may lie; 0 and 0 where there is none."""
        counts, places = np.unique(draws, return_inverse=True)
        low, high = bounds.square_bounds(np.maximum(1, counts), bounds.share(bounds.VERDICTS * (asked or len(draws))))
        return np.sqrt(np.where(counts, low, 0.0))[places], np.sqrt(np.where(counts, high, 0.0))[places]

    def _spread_fault(self, level: str, first: int, number: int, square: float) -> str:
        share = f"{100 * math.sqrt(square):.1f} % of the planned standard deviation"
        others = "." if number == 1 else f", and so in {number - 1:,} other places."
        if level == "layer":
            return f"The noise on the weights of “{self._layers[first][0]}” has {share}."
        if level == "cell":
            last = min(self._size, (first + 1) * _CELL)
            return f"The noise on the weights {first * _CELL + 1:,} to {last:,} has {share}{others}"
        if level == "weight":
            return f"The noise on the weight {first + 1:,} has {share}{others}"
        return f"The noise on the weights has {share} over all steps."

    def _step_faults(self) -> list[str]:
        found = []
        number, first, spread = self.state["bad"]
        if number:
            found.append(
                f"At step {first + 1:,.0f} the noise on the weights had {100 * spread:.1f} % of the planned standard "
                f"deviation (steps like this: {number:,.0f})."
            )
        squares, steps = self.state["spreads"]
        if steps and not _within(squares, steps):
            found.append(
                f"From step to step the noise's own spread moves {math.sqrt(squares / steps):.2f} times as much as "
                "that of independent draws would."
            )
        return found

    def _distances(self) -> list[tuple[float, float]]:
        """Of each layer, how far its noise's distribution lies from the normal one, and how far it may."""
        edges = ndtr(np.linspace(-measuring.REACH, measuring.REACH, measuring.BINS + 1))
        # Rounding moves a value by at most its slack, and so the share below an edge by at most the density there.
        moved = 0.4 * math.sqrt(3 * float(self.state["rounding"][0]))
        found = []
        for bins in self.state["bins"]:
            number = int(bins.sum())
            if number:
                distance = float(np.abs(np.cumsum(bins)[:-1] / number - edges).max())
                allowed = bounds.distance_bound(number, bounds.share(bounds.VERDICTS * len(self._layers)))
                found.append((distance, float(allowed) + moved))
        return found

    def _shape_faults(self) -> list[str]:
        for (title, _), (distance, allowed) in zip(self._layers, self._distances(), strict=False):
            if not distance <= allowed:
                return [
                    f"The noise on the weights of “{title}” is not normally distributed: the share below some value is "
                    f"off by {100 * distance:.2g} %."
                ]
        return []

    def _along_faults(self) -> list[str]:
        found = []
        step, part = self.state["leak"]
        if step >= 0:
            found.append(
                f"At step {step + 1:,.0f} the noise lies {part:+.1f} standard deviations along what it was added to."
            )
        for x, squares, number in self.state["along"]:
            if not number:
                continue
            if not abs(x) <= bounds.sum_bound(number, bounds.share(2 * bounds.VERDICTS)):
                found.append(
                    f"The noise points {'along' if x > 0 else 'against'} the clipped sum, {abs(x) / number:.2g} "
                    "standard deviations a step on average: independent noise does not."
                )
            if not _within(squares, number):
                found.append(
                    f"Along the clipped sum the noise has {100 * math.sqrt(squares / number):.3g} % of the planned "
                    "standard deviation."
                )
        return found[:1]

    def _fresh_faults(self) -> list[str]:
        step, before, cosine = self.state["reused"]
        if step >= 0:
            how = "the noise of step" if cosine > 0 else "the opposite of the noise of step"
            return [f"Step {step + 1:,.0f} added {how} {before + 1:,.0f} again."]
        lags, dimensions, steps = self.state["lags"], len(self.fixed), self.steps_seen
        number = np.maximum(0, steps - self._stride * np.arange(len(lags)))
        number[0] = steps - -(-steps // self._stride)
        allowed = bounds.sum_bound(number, bounds.share(2 * bounds.VERDICTS * len(lags))) / math.sqrt(dimensions)
        if not (np.abs(lags) <= allowed + 1e-9).all():
            lag = int(np.argmax(np.abs(lags) - allowed))
            share = lags[lag] / max(1, number[lag])
            return [f"The noise of steps {max(1, lag * self._stride):,} apart is correlated ({share:+.2g})."]
        drift, many = self.state["drift"]
        if not abs(drift) <= bounds.sum_bound(many, bounds.share(2 * bounds.VERDICTS)):
            return ["The noise of all steps has something in common: independent draws do not."]
        return []

    def _sum_faults(self) -> list[str]:
        bound, (largest, _, gap, *_) = float(self._plan.clip_norm or 0.0), self.state["sums"]
        found = []
        if not largest <= bound * (1 + _SLACK):
            found.append(
                f"A {self._unit} contributed a {_CLIPPED[self._unit]} of norm {largest:.4g}, longer than the clip norm "
                f"{bound:g}."
            )
        if not gap <= _GAP:
            found.append(
                f"The sum that was used and the sum of the {self._unit}s' clipped {_CLIPPED[self._unit]}s lie "
                f"{gap:.2g} clip norms apart: what was used is not what was sampled, clipped one by one."
            )
        return found

    def _sample_faults(self) -> list[str]:
        found = []
        x, squares, steps = self.state["scores"]
        if steps and not abs(x) <= bounds.sum_bound(steps, bounds.share(2 * bounds.VERDICTS)):
            drawn = [place for place, plan in enumerate(self._plans) if _drawn(plan)]
            total, _, taken = self.state["sizes"][drawn].sum(0)
            off = total - sum(self._plans[place].batch_size * self.state["sizes"][place, 2] for place in drawn)
            found.append(
                f"Samples hold {abs(off) / taken:.4g} {self._unit}s {'more' if off > 0 else 'fewer'} than planned on "
                "average, which chance does not allow."
            )
        if steps and not _within(squares, steps):
            found.append(
                f"Sample sizes spread {math.sqrt(squares / steps):.3g} times as much as independent draws with "
                "probability q would."
            )
        scores = self._time_scores()
        if scores.size and not _within(float(scores @ scores), scores.size):
            found.append(f"Each {self._unit} comes back too evenly or too unevenly for independent draws.")
        elif scores.size and not np.abs(scores).max() <= bounds.normal_bound(
            bounds.share(2 * bounds.VERDICTS * scores.size)
        ):
            found.append(f"A {self._unit} comes more often or more rarely than independent draws allow.")
        return found

    def _time_scores(self) -> np.ndarray:
        """How often each sentence was drawn, as standard normal values, of all parts that have taken steps."""
        found = [np.zeros(0)]
        for part, plan in enumerate(self._plans):
            taken, where = int(self.state["sizes"][part, 2]), slice(self._first[part], self._first[part + 1])
            if taken and _drawn(plan):
                times, ties = self.state["times"][where], self._ties[1][where]
                found.append(bounds.normal_scores(times, ties, taken, plan.sampling_probability))
        return np.concatenate(found)


def _add(sums: np.ndarray, value: float) -> None:
    """Take one value into Σ x, Σ x² and how many."""
    sums[0] += value
    sums[1] += value * value
    sums[2] += 1


def _drawn(plan: PrivacyPlan) -> bool:
    """Whether a sample is left to chance."""
    return plan.sampling == "poisson" and plan.sampling_probability < 1


def _within(squares: float, number: float) -> bool:
    """Whether so many squared standard normal draws may have this sum, at one of a run's verdicts."""
    low, high = bounds.square_bounds(number, bounds.share(2 * bounds.VERDICTS))
    return bool(low <= squares <= high)


def _relative_tolerance(draws: float, asked: int) -> float:
    """How far the standard deviation of so many draws may lie from the planned one, as a share of it."""
    if not draws:
        return 0.0
    _, high = bounds.square_bounds(draws, bounds.share(bounds.VERDICTS * asked))
    return math.sqrt(float(high) / draws) - 1


def _variance(plan: PrivacyPlan) -> float:
    """Of the number of sentences that a Poisson sample of this plan has."""
    return plan.examples * plan.sampling_probability * (1 - plan.sampling_probability)


def _square_score(square: float, draws: int) -> float:
    """χ² as a standard normal value (Wilson and Hilferty 1931), good to a thousandth from a hundred draws on."""
    step = 2 / (9 * draws)
    return ((square / draws) ** (1 / 3) - (1 - step)) / math.sqrt(step)

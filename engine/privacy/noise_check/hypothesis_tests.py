"""Statistical tests of the noise check: the reported statistics, and one sentence for each fault."""

import math
from collections.abc import Mapping

import numpy as np
from scipy.special import ndtr

from engine.privacy.noise_check import critical_values, kernels
from engine.privacy.noise_check.schedule import Watch, drawn
from engine.privacy.plan import PrivacyPlan
from engine.records import LayerNoise, NoiseCheck

_CELL = 256
"""Adjacent weights that are tested together."""
_ROUNDING = 0.01
"""Share of the noise's variance that rounding of the weights may add; above it the noise cannot be measured."""
GAP = 0.05
"""Distance in units of C between the used sum and the recomputed sum, above which it is a fault."""
_SLACK = 1e-4
"""Relative error of a float32 gradient norm."""
_CLIPPED = {"sentence": "gradient", "client": "update"}


def verdict(watch: Watch, state: Mapping[str, np.ndarray]) -> NoiseCheck:
    """Return the result of the measurements so far.

    ``state`` is that of a :class:`engine.privacy.noise_check.monitor.NoiseMonitor`.
    """
    return _Verdict(watch, state).check()


class _Verdict:
    def __init__(self, watch: Watch, state: Mapping[str, np.ndarray]) -> None:
        self.watch, self.state, self._plan = watch, state, watch.plans[0]

    def check(self) -> NoiseCheck:
        plan, state = self._plan, self.state
        visits = self._visits()
        draws = float(visits.sum())
        ratio = math.sqrt(state["squares"].sum() / draws) if draws else 0.0
        total, spread, steps = state["sizes"].sum(0)
        taken = state["sizes"][:, 2]
        expected = sum(plan.batch_size * times for plan, times in zip(self.watch.plans, taken, strict=True))
        variance = sum(_variance(plan) * times for plan, times in zip(self.watch.plans, taken, strict=True))
        measured = bool(state["rounding"][0] <= _ROUNDING)
        x, squared, number = state["along"].sum(0)
        return NoiseCheck(
            steps=int(steps),
            noise_std=ratio * plan.noise_std if measured else None,
            noise_planned=plan.noise_std,
            noise_tolerance=plan.noise_std * self._relative_tolerance(draws, 1),
            clipped_norm_max=float(state["sums"][0]),
            clip_norm=float(plan.clip_norm or 0.0),
            sentences_measured=int(state["sums"][1]),
            batch_mean=float(total / max(1, steps)),
            batch_planned=float(expected / steps if steps else plan.batch_size),
            batch_std=math.sqrt(spread / max(1, steps)),
            batch_std_planned=math.sqrt(variance / max(1, steps)) if plan.sampling == "poisson" else None,
            unit=self.watch.unit,
            faults=(
                *(self._noise_faults(visits) if measured else ()),
                *self._touched_faults(),
                *self._sum_faults(),
                *self._sample_faults(),
            ),
            layers=tuple(self._layer_noise(visits)) if measured else (),
            least_visits=int(visits.min()),
            shape_distance=self._distance(state["bins"].sum(0))[0],
            along=float(x / math.sqrt(number)) if number else 0.0,
            along_spread=math.sqrt(squared / number) if number else 0.0,
            looks=int(state["sums"][3]),
            looks_counted=int(state["sums"][4]),
            largest_gap=float(state["sums"][2]),
        )

    def _share(self, asked: int) -> float:
        """Return the false-alarm probability of each of ``asked`` questions of one evaluation."""
        return self.watch.share(self.watch.verdicts * asked)

    def _visits(self) -> np.ndarray:
        """Return the number of measurements of each weight, int64 [size]."""
        return np.repeat(self._stretch_visits(), np.diff(self.watch.borders))

    def _stretch_visits(self) -> np.ndarray:
        stretches, whole = self.state["visits"]
        return np.asarray(stretches[: len(self.watch.borders) - 1] + whole[0])

    def _layer_noise(self, visits: np.ndarray) -> list[LayerNoise]:
        found = []
        for title, layer in self.watch.layers:
            draws = float(visits[layer].sum())
            ratio = math.sqrt(self.state["squares"][layer].sum() / draws) if draws else 0.0
            tolerance = self._relative_tolerance(draws, len(self.watch.layers))
            found.append(LayerNoise(title, ratio, tolerance))
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
        """Test whether the noise has the planned strength overall, then in each layer, each cell and each weight."""
        squares, slacks = self.state["squares"], self.state["slacks"]
        starts = np.array([layer.start for _, layer in self.watch.layers])
        levels = (("whole", np.array([0])), ("layer", starts), ("cell", np.arange(0, self.watch.size, _CELL)))
        for level, first in levels:
            square, slack, draws = (np.add.reduceat(sums, first) for sums in (squares, slacks, visits))
            low, high = self._spread_bounds(draws)
            number, place = kernels.outside(square, slack, np.arange(len(first) + 1), low, high)
            if number:
                return [self._spread_fault(level, int(place), number, float(square[place] / draws[place]))]
        low, high = self._spread_bounds(self._stretch_visits(), self.watch.size)
        number, place = kernels.outside(squares, slacks, self.watch.borders, low, high)
        if number:
            return [self._spread_fault("weight", int(place), number, float(squares[place] / visits[place]))]
        return []

    def _spread_bounds(self, draws: np.ndarray, asked: int | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Return the interval for the root of a sum of so many squares; 0 and 0 without draws."""
        counts, places = np.unique(draws, return_inverse=True)
        low, high = critical_values.square_bounds(np.maximum(1, counts), self._share(asked or len(draws)))
        return np.sqrt(np.where(counts, low, 0.0))[places], np.sqrt(np.where(counts, high, 0.0))[places]

    def _spread_fault(self, level: str, first: int, number: int, square: float) -> str:
        share = f"{100 * math.sqrt(square):.1f} % of the planned standard deviation"
        others = "." if number == 1 else f", and so in {number - 1:,} other places."
        if level == "layer":
            return f"The noise on the weights of “{self.watch.layers[first][0]}” has {share}."
        if level == "cell":
            last = min(self.watch.size, (first + 1) * _CELL)
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
        if steps and not self._within(squares, steps):
            found.append(
                f"From step to step the noise's own spread moves {math.sqrt(squares / steps):.2f} times as much as "
                "that of independent draws would."
            )
        return found

    def _distance(self, bins: np.ndarray) -> tuple[float, int]:
        """How far the distribution of what was counted in these bins lies from the normal one, and how much it was."""
        edges, number = ndtr(np.linspace(-kernels.REACH, kernels.REACH, kernels.BINS + 1)), int(bins.sum())
        return (float(np.abs(np.cumsum(bins)[:-1] / number - edges).max()), number) if number else (0.0, 0)

    def _moved(self, weights: slice, number: int) -> float:
        """How far rounding may have moved the share of so many values on these weights below an edge: a value by at
        most its slack, and so the share by at most that times the density there. The slacks of all values, squared,
        are no less than of those that are counted."""
        return min(1.0, 0.4 * math.sqrt(float(self.state["slacks"][weights].sum()) / number))

    def _shape_faults(self) -> list[str]:
        chance = self._share(len(self.watch.layers))
        for (title, layer), bins in zip(self.watch.layers, self.state["bins"], strict=True):
            distance, number = self._distance(bins)
            if number and not distance <= critical_values.distance_bound(number, chance) + self._moved(layer, number):
                return [
                    f"The noise on the weights of “{title}” is not normally distributed: the share below some value is "
                    f"off by {100 * distance:.2g} %."
                ]
        every = self.state["bins"].sum(0)
        number, beyond = int(every.sum()), int(every[0] + every[-1])
        low, high = critical_values.count_bounds(number, 2 * float(ndtr(-kernels.REACH)), self._share(1))
        if number and self._moved(slice(0, self.watch.size), number) < 1e-3 and not low <= beyond <= high:
            return [
                f"Of {number:,} draws of noise {beyond:,} lie beyond {kernels.REACH:g} standard deviations, where "
                f"{2 * float(ndtr(-kernels.REACH)) * number:.0f} are expected."
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
            # Each component is standard normal whatever came before it, and so is their sum but for its scale.
            if not abs(x) <= math.sqrt(number) * critical_values.normal_bound(self._share(2)):
                found.append(
                    f"The noise points {'along' if x > 0 else 'against'} the clipped sum, {abs(x) / number:.2g} "
                    "standard deviations a step on average: independent noise does not."
                )
            if not self._within(squares, number):
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
        lags, dimensions, steps = self.state["lags"], len(self.watch.fixed), int(self.state["steps"][0])
        number = np.maximum(0, steps - self.watch.stride * np.arange(len(lags)))
        number[0] = steps - -(-steps // self.watch.stride)
        allowed = critical_values.sum_bound(number, self._share(2 * len(lags))) / math.sqrt(dimensions)
        if not (np.abs(lags) <= allowed + 1e-9).all():
            lag = int(np.argmax(np.abs(lags) - allowed))
            share = lags[lag] / max(1, number[lag])
            return [f"The noise of steps {max(1, lag * self.watch.stride):,} apart is correlated ({share:+.2g})."]
        drift, many = self.state["drift"]
        if not abs(drift) <= critical_values.sum_bound(many, self._share(2)):
            return ["The noise of all steps has something in common: independent draws do not."]
        return []

    def _touched_faults(self) -> list[str]:
        number, step = self.state["touched"]
        if not number:
            return []
        return [
            f"Before step {step + 1:,.0f} something else than an update had moved weights or the optimiser's moments "
            f"(steps like this: {number:,.0f})."
        ]

    def _sum_faults(self) -> list[str]:
        bound, (largest, _, gap, *_) = float(self._plan.clip_norm or 0.0), self.state["sums"]
        found = []
        if not largest <= bound * (1 + _SLACK):
            found.append(
                f"A {self.watch.unit} contributed a {_CLIPPED[self.watch.unit]} of norm {largest:.4g}, longer than the "
                f"clip norm {bound:g}."
            )
        if not gap <= GAP:
            found.append(
                f"The sum that was used and the sum of the {self.watch.unit}s' clipped {_CLIPPED[self.watch.unit]}s "
                f"lie {gap:.2g} clip norms apart: what was used is not what was sampled, clipped one by one."
            )
        return found

    def _sample_faults(self) -> list[str]:
        found = []
        x, squares, steps = self.state["scores"]
        if steps and not abs(x) <= critical_values.sum_bound(steps, self._share(2)):
            places = [place for place, plan in enumerate(self.watch.plans) if drawn(plan)]
            total, _, taken = self.state["sizes"][places].sum(0)
            off = total - sum(self.watch.plans[place].batch_size * self.state["sizes"][place, 2] for place in places)
            found.append(
                f"Samples hold {abs(off) / taken:.4g} {self.watch.unit}s {'more' if off > 0 else 'fewer'} than planned "
                "on average, which chance does not allow."
            )
        if steps and not self._within(squares, steps):
            found.append(
                f"Sample sizes spread {math.sqrt(squares / steps):.3g} times as much as independent draws with "
                "probability q would."
            )
        scores = self._time_scores()
        if scores.size and not self._within(float(scores @ scores), scores.size):
            found.append(f"Each {self.watch.unit} comes back too evenly or too unevenly for independent draws.")
        elif scores.size and not np.abs(scores).max() <= critical_values.normal_bound(self._share(2 * scores.size)):
            found.append(f"A {self.watch.unit} comes more often or more rarely than independent draws allow.")
        return found

    def _time_scores(self) -> np.ndarray:
        """Return how often each sentence was sampled as standard normal values, for all parts that have taken steps."""
        found = [np.zeros(0)]
        for part, plan in enumerate(self.watch.plans):
            taken, where = int(self.state["sizes"][part, 2]), slice(self.watch.first[part], self.watch.first[part + 1])
            if taken and drawn(plan):
                times, ties = self.state["times"][where], self.watch.ties[1][where]
                found.append(critical_values.normal_scores(times, ties, taken, plan.sampling_probability))
        return np.concatenate(found)

    def _within(self, squares: float, number: float) -> bool:
        """Return whether ``number`` squared standard normal draws may have this sum, at one evaluation of a run."""
        low, high = critical_values.square_bounds(number, self._share(2))
        return bool(low <= squares <= high)

    def _relative_tolerance(self, draws: float, asked: int) -> float:
        """Return the tolerance of the standard deviation of so many draws, as a share of the planned one."""
        if not draws:
            return 0.0
        _, high = critical_values.square_bounds(draws, self._share(asked))
        return math.sqrt(float(high) / draws) - 1


def _variance(plan: PrivacyPlan) -> float:
    """Return the variance of the number of sentences in a Poisson sample of this plan."""
    return plan.examples * plan.sampling_probability * (1 - plan.sampling_probability)

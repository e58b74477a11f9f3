"""Statistical tests of the noise check: the reported statistics, and one sentence for each fault found."""

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
SLACK = 1e-4
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
                *self._draw_faults(),
                *self._setting_faults(),
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
            draws_compared=int(state["compared"][0]),
            sampling_compared=int(state["compared"][1]),
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
        noise = []
        for title, layer in self.watch.layers:
            draws = float(visits[layer].sum())
            ratio = math.sqrt(self.state["squares"][layer].sum() / draws) if draws else 0.0
            tolerance = self._relative_tolerance(draws, len(self.watch.layers))
            noise.append(LayerNoise(title, ratio, tolerance))
        return noise

    def _noise_faults(self, visits: np.ndarray) -> list[str]:
        if not visits.any():
            return []
        return [
            *self._spread_faults(visits),
            *self._step_faults(),
            *self._shape_faults(),
            *self._along_faults(),
        ]

    def _spread_faults(self, visits: np.ndarray) -> list[str]:
        """Test whether the noise has the planned strength overall, then in each layer, each cell and each weight."""
        squares, slacks = self.state["squares"], self.state["slacks"]
        starts = np.array([layer.start for _, layer in self.watch.layers])
        levels = (("whole", np.array([0])), ("layer", starts), ("cell", np.arange(0, self.watch.size, _CELL)))
        for level, first in levels:
            square, slack, draws = (np.add.reduceat(sums, first) for sums in (squares, slacks, visits))
            low, high = self._spread_bounds(draws)
            number, index = kernels.outside(square, slack, np.arange(len(first) + 1), low, high)
            if number:
                return [self._spread_fault(level, int(index), number, float(square[index] / draws[index]))]
        low, high = self._spread_bounds(self._stretch_visits(), self.watch.size)
        number, index = kernels.outside(squares, slacks, self.watch.borders, low, high)
        if number:
            return [self._spread_fault("weight", int(index), number, float(squares[index] / visits[index]))]
        return []

    def _spread_bounds(self, draws: np.ndarray, asked: int | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Return the interval for the root of a sum of ``draws`` squares; 0 and 0 without draws."""
        counts, indices = np.unique(draws, return_inverse=True)
        low, high = critical_values.square_bounds(np.maximum(1, counts), self._share(asked or len(draws)))
        return np.sqrt(np.where(counts, low, 0.0))[indices], np.sqrt(np.where(counts, high, 0.0))[indices]

    def _spread_fault(self, level: str, first: int, number: int, square: float) -> str:
        share = f"{100 * math.sqrt(square):.1f} % of the planned standard deviation"
        others = "." if number == 1 else f", as in {number - 1:,} other places."
        if level == "layer":
            return f"The noise on the weights of “{self.watch.layers[first][0]}” has {share}."
        if level == "cell":
            last = min(self.watch.size, (first + 1) * _CELL)
            return f"The noise on the weights {first * _CELL + 1:,} to {last:,} has {share}{others}"
        if level == "weight":
            return f"The noise on the weight {first + 1:,} has {share}{others}"
        return f"The noise on the weights has {share} over all steps."

    def _step_faults(self) -> list[str]:
        faults = []
        number, first, spread = self.state["bad"]
        if number:
            faults.append(
                f"At step {first + 1:,.0f} the noise on the weights had {100 * spread:.1f} % of the planned standard "
                f"deviation (steps with this fault: {number:,.0f})."
            )
        squares, steps = self.state["spreads"]
        if steps and not self._within(squares, steps):
            faults.append(
                f"From step to step the noise's standard deviation varies {math.sqrt(squares / steps):.2f} times as "
                "much as with independent draws."
            )
        return faults

    def _distance(self, bins: np.ndarray) -> tuple[float, int]:
        """Return the largest distance from the normal distribution function, and the number of values in the bins."""
        edges, number = ndtr(np.linspace(-kernels.REACH, kernels.REACH, kernels.BINS + 1)), int(bins.sum())
        return (float(np.abs(np.cumsum(bins)[:-1] / number - edges).max()), number) if number else (0.0, 0)

    def _moved(self, weights: slice, number: int) -> float:
        """Return the most by which rounding may change the share of values below an edge.

        Rounding moves a value by at most its slack, and so the share by at most the slack times the density there. The
        sum of squared slacks covers all values, which is at least that of the counted values.

        Args:
            weights: The weights whose values are counted.
            number: Number of counted values.
        """
        return min(1.0, 0.4 * math.sqrt(float(self.state["slacks"][weights].sum()) / number))

    def _shape_faults(self) -> list[str]:
        chance = self._share(len(self.watch.layers))
        for (title, layer), bins in zip(self.watch.layers, self.state["bins"], strict=True):
            distance, number = self._distance(bins)
            if number and not distance <= critical_values.distance_bound(number, chance) + self._moved(layer, number):
                return [
                    f"The noise on the weights of “{title}” is not normally distributed: the empirical "
                    f"distribution differs by up to {100 * distance:.2g} %."
                ]
        number = int(self._stretch_visits() @ np.diff(self.watch.borders))
        if self._moved(slice(0, self.watch.size), number) >= 1e-3:
            return []
        for limit, beyond in zip(kernels.TAILS, self.state["tails"].tolist(), strict=True):
            outside = 2 * float(ndtr(-limit))
            low, high = critical_values.count_bounds(number, outside, self._share(len(kernels.TAILS)))
            if not low <= beyond <= high:
                return [
                    f"Of {number:,} draws of noise {beyond:,} lie beyond {limit:g} standard deviations, where "
                    f"{outside * number:.0f} are expected."
                ]
        return []

    def _along_faults(self) -> list[str]:
        faults = []
        step, part = self.state["leak"]
        if step >= 0:
            faults.append(
                f"At step {step + 1:,.0f} the noise lies {part:+.1f} standard deviations along the clipped sum."
            )
        for x, squares, number in self.state["along"]:
            if not number:
                continue
            # Each component is standard normal whatever came before it, and so is their sum but for its scale.
            if not abs(x) <= math.sqrt(number) * critical_values.normal_bound(self._share(2)):
                faults.append(
                    f"The noise points {'along' if x > 0 else 'against'} the clipped sum, {abs(x) / number:.2g} "
                    "standard deviations per step on average; independent noise would not."
                )
            if not self._within(squares, number):
                faults.append(
                    f"Along the clipped sum the noise has {100 * math.sqrt(squares / number):.3g} % of the planned "
                    "standard deviation."
                )
        return faults[:1]

    def _draw_faults(self) -> list[str]:
        """Test whether noise and samples are the draws of keys that were used once."""
        state, faults = self.state, []
        number, step, weight, difference = state["differing"]
        if number:
            faults.append(
                f"At step {step + 1:,.0f} the noise on the weight {weight + 1:,.0f} differs by {difference:+.2g} "
                f"standard deviations from the draw of its key (steps with this fault: {number:,.0f})."
            )
        number, step, sentence, inside = state["misdrawn"].tolist()
        if number:
            faults.append(
                f"At step {step + 1:,} the sample {'contains' if inside else 'lacks'} {self.watch.unit} "
                f"{sentence + 1:,}, against the draw of its key (steps with this fault: {number:,})."
            )
        step, before = state["reused"].tolist()
        if step >= 0:
            earlier = f"step {before + 1:,}" if before >= 0 else "another client"
            faults.append(f"Step {step + 1:,} used the key of {earlier} again, and so the same noise or sample.")
        return faults

    def _setting_faults(self) -> list[str]:
        """Test whether settings and number of steps are those of the plan."""
        step, faults = int(self.state["changed"][0]), []
        if step >= 0:
            faults.append(f"At step {step + 1:,} the plan or the training settings were not those of the first step.")
        for part, plan in enumerate(self.watch.plans):
            taken = int(self.state["sizes"][part, 2])
            if taken > plan.steps:
                faults.append(f"Part {part + 1:,} took {taken:,} steps, more than the {plan.steps:,} of its plan.")
                break
        return faults

    def _touched_faults(self) -> list[str]:
        number, step = self.state["touched"]
        if not number:
            return []
        return [
            f"Before step {step + 1:,.0f} weights or the optimiser's moments had changed outside of an update "
            f"(steps with this fault: {number:,.0f})."
        ]

    def _sum_faults(self) -> list[str]:
        bound, (largest, _, gap, *_) = float(self._plan.clip_norm or 0.0), self.state["sums"]
        faults, (found, planned) = [], self.state["unplanned"]
        if not largest <= bound * (1 + SLACK):
            faults.append(
                f"A {self.watch.unit} contributed a {_CLIPPED[self.watch.unit]} of norm {largest:.4g}, longer than the "
                f"clip norm {bound:g}."
            )
        elif found >= 0:
            faults.append(
                f"A {self.watch.unit} contributed a {_CLIPPED[self.watch.unit]} of norm {found:.4g}, where the plan's "
                f"clipping gives {planned:.4g}."
            )
        if not gap <= GAP:
            faults.append(
                f"The sum used and the recomputed sum of the {self.watch.unit}s' clipped {_CLIPPED[self.watch.unit]}s "
                f"lie {gap:.2g} clip norms apart: the step did not use the sample's individually clipped "
                f"{_CLIPPED[self.watch.unit]}s."
            )
        return faults

    def _sample_faults(self) -> list[str]:
        faults = []
        x, squares, steps = self.state["scores"]
        if steps and not abs(x) <= critical_values.sum_bound(steps, self._share(2)):
            parts = [part for part, plan in enumerate(self.watch.plans) if drawn(plan)]
            total, _, taken = self.state["sizes"][parts].sum(0)
            off = total - sum(self.watch.plans[part].batch_size * self.state["sizes"][part, 2] for part in parts)
            faults.append(
                f"Samples hold {abs(off) / taken:.4g} {self.watch.unit}s {'more' if off > 0 else 'fewer'} than planned "
                "on average, a significant difference."
            )
        if steps and not self._within(squares, steps):
            faults.append(
                f"Sample sizes spread {math.sqrt(squares / steps):.3g} times as much as independent draws with "
                "probability q."
            )
        scores = self._time_scores()
        if scores.size and not self._within(float(scores @ scores), scores.size):
            faults.append(f"Each {self.watch.unit} comes back too evenly or too unevenly for independent sampling.")
        elif scores.size and not np.abs(scores).max() <= critical_values.normal_bound(self._share(2 * scores.size)):
            faults.append(f"A {self.watch.unit} comes more often or more rarely than independent sampling allows.")
        return faults

    def _time_scores(self) -> np.ndarray:
        """Return how often each sentence was sampled as standard normal values, for all parts that have taken steps."""
        scores = [np.zeros(0)]
        for part, plan in enumerate(self.watch.plans):
            taken, where = int(self.state["sizes"][part, 2]), slice(self.watch.first[part], self.watch.first[part + 1])
            if taken and drawn(plan):
                times, ties = self.state["times"][where], self.watch.ties[1][where]
                scores.append(critical_values.normal_scores(times, ties, taken, plan.sampling_probability))
        return np.concatenate(scores)

    def _within(self, squares: float, number: float) -> bool:
        """Return whether ``number`` squared standard normal draws may have this sum, at one evaluation of a run."""
        low, high = critical_values.square_bounds(number, self._share(2))
        return bool(low <= squares <= high)

    def _relative_tolerance(self, draws: float, asked: int) -> float:
        """Return the tolerance of the standard deviation of ``draws`` draws, as a share of the planned one."""
        if not draws:
            return 0.0
        _, high = critical_values.square_bounds(draws, self._share(asked))
        return math.sqrt(float(high) / draws) - 1


def _variance(plan: PrivacyPlan) -> float:
    """Return the variance of the number of sentences in a Poisson sample of this plan."""
    return plan.examples * plan.sampling_probability * (1 - plan.sampling_probability)

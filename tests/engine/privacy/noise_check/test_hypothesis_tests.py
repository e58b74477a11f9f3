"""Hypothesis tests of the noise check: each on both sides of its critical value, and the reported statistics. The
critical values are recomputed here; each has its own share of a false-alarm rate of one in a million."""

import math
import re
from typing import Any

import numpy as np
import pytest
from scipy import stats

from engine.privacy.noise_check import critical_values
from engine.privacy.noise_check.hypothesis_tests import verdict
from engine.privacy.noise_check.monitor import NoiseMonitor
from engine.privacy.noise_check.schedule import Watch
from engine.privacy.plan import PrivacyPlan
from engine.records import LayerNoise, NoiseCheck
from engine.seeds import Secrets

SIZE, STEPS, CLIP_NORM, STD = 3000, 320, 2.0, 3.0
LAYERS = (("one", slice(0, 1200)), ("other", slice(1200, 3000)))
"""Stretches of 1,000 weights, cells of 256."""
VISITS = np.array([[60, 50, 40, 0], [10, 0, 0, 0]])
EACH = np.repeat([70, 60, 50], 1000)
"""Number of measurements of each weight."""
BATCH = 10
LIMITS = (2.5, 3.5, 4.5)
EDGES = stats.norm.cdf(np.linspace(-4, 4, 65))
State = dict[str, np.ndarray]


def share(asked: int, of_it: int = 1) -> float:
    """Return the share of a one-in-a-million false-alarm rate, split among sixteen questions, 64 verdicts and the tests
    in each."""
    return 1e-6 / 16 / 64 / asked / of_it


def squares_within(draws: float, chance: float) -> tuple[float, float]:
    return float(stats.chi2.ppf(chance / 2, draws)), float(stats.chi2.isf(chance / 2, draws))


def sum_within(draws: float, chance: float) -> float:
    """Return Hoeffding's bound."""
    return math.sqrt(2 * draws * math.log(2 / chance))


def plan_of(examples: int = 50, batch_size: int = BATCH, steps: int = STEPS, **chosen: Any) -> PrivacyPlan:
    values: dict = {"noise_multiplier": STD / CLIP_NORM, "clip_norm": CLIP_NORM, "delta": 1e-5, "sampling": "poisson"}
    return PrivacyPlan(examples=examples, batch_size=batch_size, steps=steps, **(values | chosen))


def bins_of(number: int, edges: np.ndarray = EDGES) -> np.ndarray:
    """Return bins of so many draws, each within half a draw of its expectation."""
    return np.diff(np.rint(number * np.concatenate([[0], edges, [1]])).astype(np.int64))


def extreme(number: float) -> np.ndarray:
    """Return the expected number of draws beyond each limit, of so many."""
    return np.rint(2 * number * stats.norm.sf(LIMITS)).astype(np.int64)


def times_of(watch: Watch, taken: list[int]) -> np.ndarray:
    """Return the count of each sentence for scores with their expected distribution."""
    found = []
    for plan, steps, first in zip(watch.plans, taken, watch.first, strict=False):
        # The random tie-breakers of the sentences, by rank.
        ranks = np.argsort(np.argsort(watch.ties[1][first : first + plan.examples]))
        levels = (ranks + 0.5) / plan.examples
        found.append(stats.binom.ppf(levels, steps, plan.sampling_probability).astype(np.int64))
    return np.concatenate(found)


def correct_run(*plans: PrivacyPlan, taken: int = 160, **kind: Any) -> tuple[Watch, State]:
    """Return the statistics of a correct run."""
    chosen: dict = {"layers": LAYERS, "secrets": Secrets.seeded(0, "run")} | kind
    monitor = NoiseMonitor(plans or [plan_of()], SIZE, **chosen)
    watch, state = monitor.watch, monitor.state
    counts = [taken] * len(watch.plans)
    draws = EACH.sum()
    state["steps"][0] = sum(counts)
    state["squares"] = EACH.astype(float)
    state["compared"][:] = 9000, 800
    if len(watch.borders) == 4:
        state["visits"] = VISITS.copy()
    else:
        state["visits"][1, 0], state["squares"] = 160, np.full(SIZE, 160.0)
    state["bins"] = np.stack([bins_of(draws // 4)] * len(watch.layers))
    state["tails"] = extreme(state["squares"].sum())
    state["spreads"][:] = [160, 160]
    state["along"][:] = [[5, 150, 150], [2, 10, 10]]
    state["sums"][:] = [CLIP_NORM, 24, 0.001, 5, 4]
    state["sizes"][:] = [[plan.batch_size * taken, 8.0 * taken, taken] for plan in watch.plans]
    state["scores"][:] = [4, sum(counts), sum(counts)]
    state["times"] = times_of(watch, counts)
    return watch, state


def faults(watch: Watch, state: State) -> tuple[str, ...]:
    return verdict(watch, state).faults


def check_fault(found: tuple[str, ...], *parts: str) -> None:
    """Assert that there is one fault, and that its sentence has these parts in this order."""
    (fault,) = found
    assert re.search(".*".join(map(re.escape, parts)), fault), fault


def faults_with(name: str, place: Any, value: Any, *plans: PrivacyPlan, **kind: Any) -> tuple[str, ...]:
    """Return the faults of a correct run with one changed statistic."""
    watch, state = correct_run(*plans, **kind)
    state[name][place] = value
    return faults(watch, state)


@pytest.mark.parametrize("unit", ["sentence", "client"])
def test_correct_run_has_no_faults(unit: str) -> None:
    assert faults(*correct_run(unit=unit)) == ()
    assert faults(*correct_run(plan_of(), plan_of(40, 8), unit=unit)) == ()


class TestFigures:
    def test_all_figures(self) -> None:
        plans = [plan_of(50, 10), plan_of(40, 8)]
        watch, state = correct_run(*plans)
        state["squares"] *= 1.001**2
        state["sizes"][:] = [[1000, 900.0, 100], [500, 420.0, 60]]
        found = verdict(watch, state)
        draws = float(EACH.sum())
        bins = 2 * bins_of(EACH.sum() // 4)
        expected = NoiseCheck(
            steps=160,
            noise_std=pytest.approx(1.001 * STD),
            noise_planned=STD,
            noise_tolerance=pytest.approx(STD * (math.sqrt(squares_within(draws, share(1))[1] / draws) - 1)),
            clipped_norm_max=CLIP_NORM,
            clip_norm=CLIP_NORM,
            sentences_measured=24,
            batch_mean=1500 / 160,
            batch_planned=(100 * 10 + 60 * 8) / 160,
            batch_std=math.sqrt(1320 / 160),
            batch_std_planned=pytest.approx(math.sqrt((100 * 50 * 0.2 * 0.8 + 60 * 40 * 0.2 * 0.8) / 160)),
            unit="sentence",
            faults=found.faults,
            layers=(
                _layer("one", 1.001, 1000 * 70 + 200 * 60),
                _layer("other", 1.001, 800 * 60 + 1000 * 50),
            ),
            least_visits=50,
            shape_distance=pytest.approx(np.abs(np.cumsum(bins)[:-1] / bins.sum() - EDGES).max()),
            along=pytest.approx(7 / math.sqrt(160)),
            along_spread=1.0,
            looks=5,
            looks_counted=4,
            largest_gap=0.001,
            draws_compared=9000,
            sampling_compared=800,
        )
        assert found == expected

    def test_each_layer_has_its_own_ratio(self) -> None:
        watch, state = correct_run()
        state["squares"][1200:] *= 1.002**2
        assert [layer.ratio for layer in verdict(watch, state).layers] == pytest.approx([1.0, 1.002])

    def test_before_the_first_step(self) -> None:
        monitor = NoiseMonitor([plan_of(), plan_of(40, 8)], SIZE, layers=LAYERS)
        expected = NoiseCheck(
            steps=0,
            noise_std=0.0,
            noise_planned=STD,
            noise_tolerance=0.0,
            clipped_norm_max=0.0,
            clip_norm=CLIP_NORM,
            sentences_measured=0,
            batch_mean=0.0,
            batch_planned=10.0,
            batch_std=0.0,
            batch_std_planned=0.0,
            unit="sentence",
            faults=(),
            layers=(LayerNoise("one", 0.0, 0.0), LayerNoise("other", 0.0, 0.0)),
            least_visits=0,
            shape_distance=0.0,
            along=0.0,
            along_spread=0.0,
            looks=0,
            looks_counted=0,
            largest_gap=0.0,
        )
        assert verdict(monitor.watch, monitor.state) == expected

    def test_after_one_step(self) -> None:
        watch, state = correct_run()
        state["sizes"][:], state["along"][:] = [[13, 9.0, 1]], [[0.5, 0.25, 1], [0, 0, 0]]
        found = verdict(watch, state)
        assert (found.batch_mean, found.batch_std, found.along, found.along_spread) == (13, 3, 0.5, 0.5)
        assert found.batch_std_planned == pytest.approx(math.sqrt(50 * 0.2 * 0.8))

    def test_fixed_batches_have_no_planned_deviation(self) -> None:
        assert verdict(*correct_run(plan_of(sampling="shuffle"))).batch_std_planned is None

    @pytest.mark.parametrize(("rounding", "measured"), [(0.01, True), (0.0101, False), (math.nan, False)])
    def test_noise_hidden_by_rounding_is_unmeasured_but_sums_are_tested(self, rounding: float, measured: bool) -> None:
        watch, state = correct_run()
        state["rounding"][0], state["squares"][:], state["sums"][0] = rounding, 0.0, 2 * CLIP_NORM
        found = verdict(watch, state)
        assert (found.noise_std is None, found.layers == ()) == (not measured, not measured)
        assert len(found.faults) == 1 + measured
        assert "than the clip norm" in found.faults[-1]


def _layer(title: str, ratio: float, draws: float) -> LayerNoise:
    tolerance = math.sqrt(squares_within(draws, share(2))[1] / draws) - 1
    return LayerNoise(title, pytest.approx(ratio), pytest.approx(tolerance))


CELLS = {
    "whole": (slice(0, 3000), 1),
    "layer": (slice(1200, 3000), 2),
    "cell": (slice(512, 768), 12),
    "last cell": (slice(2816, 3000), 12),
    "weight": (slice(2100, 2101), 3000),
    "first weight": (slice(0, 1), 3000),
}


class TestSpread:
    """The noise has its planned strength overall, in each layer, each cell and each weight."""

    @pytest.mark.parametrize("level", CELLS)
    @pytest.mark.parametrize("factor", [1 + 1e-6, 1 - 1e-6])
    def test_beyond_critical_value_is_a_fault(self, level: str, factor: float) -> None:
        where, asked = CELLS[level]
        watch, state = correct_run()
        square = squares_within(EACH[where].sum(), share(asked))[factor > 1] * factor / EACH[where].sum()
        state["squares"][where] *= square
        (said,) = faults(watch, state)
        percent = 100 * math.sqrt(square)
        place = {
            "whole": f"The noise on the weights has {percent:.1f} % of the planned standard deviation over all steps.",
            "layer": f"The noise on the weights of “other” has {percent:.1f} % of the planned standard deviation.",
            "cell": f"The noise on the weights 513 to 768 has {percent:.1f} % of the planned standard deviation.",
            "last cell": f"The noise on the weights 2,817 to 3,000 has {percent:.1f} % of the planned standard "
            "deviation.",
            "weight": f"The noise on the weight 2,101 has {percent:.1f} % of the planned standard deviation.",
            "first weight": f"The noise on the weight 1 has {percent:.1f} % of the planned standard deviation.",
        }
        assert said == place[level]

    @pytest.mark.parametrize("level", CELLS)
    @pytest.mark.parametrize("above", [True, False])
    def test_within_critical_value_is_no_fault(self, level: str, above: bool) -> None:
        where, asked = CELLS[level]
        watch, state = correct_run()
        bound = squares_within(EACH[where].sum(), share(asked))[above]
        state["squares"][where] *= bound * (1 + (-1e-6 if above else 1e-6)) / EACH[where].sum()
        assert faults(watch, state) == ()

    @pytest.mark.parametrize("level", CELLS)
    def test_rounding_widens_critical_values(self, level: str) -> None:
        where, asked = CELLS[level]
        draws, far = EACH[where].sum(), 0.25
        low, high = (math.sqrt(bound) for bound in squares_within(draws, share(asked)))
        for root, fine in (
            (high + far - 1e-5, True),
            (high + far + 1e-5, False),
            (low - far + 1e-5, True),
            (low - far - 1e-5, False),
        ):
            watch, state = correct_run()
            state["squares"][where] = EACH[where] * root**2 / draws
            state["slacks"][where] = far**2 / (where.stop - where.start)
            assert (faults(watch, state) == ()) == fine, (root, fine)

    def test_other_faulty_weights_are_counted(self) -> None:
        watch, state = correct_run()
        state["squares"][[3, 1200, 2999]] = 0.0
        check_fault(faults(watch, state), "the weight 4 ", " 0.0 % ", " 2 other")
        watch, state = correct_run()
        state["squares"][:256] *= 1.1**2
        state["squares"][512:768] *= 0.9**2
        check_fault(faults(watch, state), "the weights 1 to 256 ", " 110.0 % ", " 1 other")

    def test_compensating_layers_are_detected(self) -> None:
        watch, state = correct_run()
        state["squares"][:1200] *= 1 + 3 / 82
        state["squares"][1200:] *= 1 - 3 / 98
        percent = 100 * math.sqrt(1 + 3 / 82)
        check_fault(faults(watch, state), "“one”", f" {percent:.1f} % ", "standard deviation")

    def test_unmeasured_weights_are_not_tested(self) -> None:
        """Cells that reach over the limit count their measured weights only."""
        watch, state = correct_run()
        state["visits"][:] = [[60, 0, 40, 0], [0, 0, 0, 0]]
        state["squares"] = np.repeat([60.0, 0.0, 40.0], 1000)
        state["tails"] = extreme(100_000)
        assert faults(watch, state) == ()
        assert verdict(watch, state).least_visits == 0
        state["squares"][5] = 0
        check_fault(faults(watch, state), "the weight 6 ", " 0.0 % ", "standard deviation.")

    def test_weights_measured_once_are_tested(self) -> None:
        low, high = squares_within(1, share(3000))
        for square, fine in ((high * 0.999999, True), (high * 1.000001, False), (low / 2, False), (low * 2, True)):
            watch, state = correct_run()
            state["visits"][:], state["squares"] = [[1, 0, 0, 0], [0, 0, 0, 0]], np.repeat([1.0, 0.0], [1000, 2000])
            state["squares"][7], state["tails"] = square, extreme(1000)
            assert (faults(watch, state) == ()) == fine, square

    def test_without_measurements_there_is_no_noise_fault(self) -> None:
        watch, state = correct_run()
        state["visits"][:], state["bad"][:] = 0, [3, 7, 0.5]
        assert faults(watch, state) == ()


class TestSteps:
    def test_faulty_steps_are_counted_and_first_is_named(self) -> None:
        check_fault(faults_with("bad", slice(None), [3, 1233, 0.455]), "step 1,234 ", " 45.5 % ", " 3)")
        check_fault(faults_with("bad", slice(None), [1, 0, 2.0]), "step 1 ", " 200.0 % ", " 1)")

    def test_spreads_of_steps_follow_chi_squared(self) -> None:
        low, high = squares_within(160, share(2))
        assert faults_with("spreads", 0, high * 0.999999) == faults_with("spreads", 0, low * 1.000001) == ()
        for square in (high * 1.000001, low * 0.999999):
            check_fault(faults_with("spreads", 0, square), "step to step", f" {math.sqrt(square / 160):.2f} times ")
        assert faults_with("spreads", slice(None), [0.0, 0.0]) == ()
        assert len(faults_with("spreads", slice(None), [1e3, 1])) == 1

    def test_faulty_step_and_spread_are_both_reported(self) -> None:
        watch, state = correct_run()
        state["bad"][:], state["spreads"][0] = [1, 0, 2.0], 0.0
        assert len(faults(watch, state)) == 2


def shifted(number: int, distance: int, edge: int = 40) -> np.ndarray:
    """Return draws of which at least ``distance`` more than expected are below some edge, taken from the bin above
    it."""
    bins = bins_of(number)
    below = np.cumsum(bins)[edge] - number * EDGES[edge]
    moved = math.ceil(distance - below)
    bins[edge] += moved
    bins[edge + 1] -= moved
    return bins


class TestShape:
    NUMBER = 1_000_000
    FREE = NUMBER * math.sqrt(math.log(2 / share(2)) / (2 * NUMBER))
    """Number of additional draws, of a million, that may be below some value, by Massart's inequality."""

    def test_distance_beyond_critical_value_is_a_fault(self) -> None:
        assert faults_with("bins", 1, shifted(self.NUMBER, self.FREE - 1.5)) == ()
        found = faults_with("bins", 1, shifted(self.NUMBER, self.FREE))
        check_fault(found, "“other”", "not normally distributed", f" {100 * self.FREE / self.NUMBER:.2g} %.")

    def test_too_few_values_below_are_detected(self) -> None:
        bins = bins_of(self.NUMBER)
        bins[40] -= 9000
        bins[41] += 9000
        check_fault(faults_with("bins", 0, bins), "“one”", "not normally distributed", " 0.9 %.")

    def test_rounding_widens_distance_bound(self) -> None:
        """By 0.4, which is above the density of the normal distribution, times the root mean square of rounding."""
        slack = 1e-6
        free = self.FREE + self.NUMBER * 0.4 * math.sqrt(slack * 1800 / self.NUMBER)
        for distance, fine in ((free - 1.5, True), (free, False)):
            watch, state = correct_run()
            state["bins"][1] = shifted(self.NUMBER, distance)
            state["slacks"][1200:] = slack
            state["slacks"][:1200] = 1e-12
            assert (faults(watch, state) == ()) == fine

    def test_shape_is_not_tested_with_large_rounding(self) -> None:
        watch, state = correct_run()
        state["slacks"][:], state["bins"][1, 30:40] = 1e9, 10**6
        state["squares"] = EACH.astype(float)
        assert faults(watch, state) == ()

    def test_shape_is_not_tested_without_draws(self) -> None:
        watch, state = correct_run()
        state["bins"][:], state["slacks"][:] = 0, 1e-6
        found = verdict(watch, state)
        assert (found.faults, found.shape_distance) == ((), 0.0)

    def test_shape_of_one_draw(self) -> None:
        watch, state = correct_run()
        state["bins"][:] = 0
        state["bins"][0, 32] = 1
        assert verdict(watch, state).shape_distance == pytest.approx(EDGES[32])
        assert faults(watch, state) == ()

    @pytest.mark.parametrize(("index", "limit"), list(enumerate(LIMITS)))
    def test_number_of_extreme_draws_is_tested(self, index: int, limit: float) -> None:
        """On either side; 180,000 draws were measured."""
        number, outside = int(EACH.sum()), 2 * stats.norm.sf(limit)
        low = int(stats.binom.ppf(share(3) / 2, number, outside)) - 1
        high = int(stats.binom.isf(share(3) / 2, number, outside)) + 1
        assert low < number * outside < high
        for beyond, fine in ((low, True), (high, True), (low - 1, False), (high + 1, False)):
            if beyond < 0:
                continue
            found = faults_with("tails", index, beyond)
            if fine:
                assert found == ()
            else:
                expected = f" {number * outside:.0f} "
                check_fault(found, " 180,000 ", f" {beyond:,} ", f"beyond {limit:g} standard deviations", expected)

    def test_extreme_draws_are_not_tested_with_large_rounding(self) -> None:
        """From a thousandth of all draws on."""
        number = int(EACH.sum())
        border = (1e-3 / 0.4) ** 2 * number / SIZE
        for slack, fine in ((border * 0.9999, False), (border * 1.0001, True)):
            watch, state = correct_run()
            state["tails"][:], state["slacks"][:] = 0, slack
            assert (faults(watch, state) == ()) == fine
            state["slacks"][:], state["slacks"][-1] = 0, slack * SIZE
            assert (faults(watch, state) == ()) == fine


class TestAlong:
    @pytest.mark.parametrize(
        ("step", "part", "said"), [(0, 7.25, ("step 1 ", " +7.2 ")), (1233, -8, ("step 1,234 ", " -8.0 "))]
    )
    def test_first_leak_is_named(self, step: int, part: float, said: tuple[str, str]) -> None:
        check_fault(faults_with("leak", slice(None), [step, part]), *said, "standard deviations along")

    @pytest.mark.parametrize(("row", "number"), [(0, 150), (1, 10)])
    def test_sum_of_components_is_tested(self, row: int, number: int) -> None:
        bound = math.sqrt(number) * stats.norm.isf(share(2) / 2)
        for sign, way in ((1, "along"), (-1, "against")):
            assert faults_with("along", (row, 0), sign * bound * 0.999999) == ()
            found = faults_with("along", (row, 0), sign * bound * 1.000001)
            check_fault(found, f" {way} the clipped sum", f" {bound / number:.2g} standard deviations", "average")

    @pytest.mark.parametrize(("row", "number"), [(0, 150), (1, 10)])
    def test_spread_of_components_is_tested(self, row: int, number: int) -> None:
        low, high = squares_within(number, share(2))
        assert faults_with("along", (row, 1), low * 1.000001) == faults_with("along", (row, 1), high * 0.999999) == ()
        for square in (low * 0.999999, high * 1.000001):
            percent = f" {100 * math.sqrt(square / number):.3g} % "
            check_fault(faults_with("along", (row, 1), square), "Along the clipped sum", percent, "standard deviation.")

    def test_first_leak_precedes_other_faults(self) -> None:
        watch, state = correct_run()
        state["along"][:] = [[900, 9000, 150], [100, 1000, 10]]
        assert len(faults(watch, state)) == 1
        assert "on average" in faults(watch, state)[0]
        state["leak"][:] = [3, 9.0]
        assert len(faults(watch, state)) == 1
        assert "At step 4" in faults(watch, state)[0]

    def test_rows_are_tested_independently(self) -> None:
        watch, state = correct_run()
        state["along"][:] = [[0, 0, 0], [100, 10, 10]]
        assert len(faults(watch, state)) == 1
        state["along"][:] = [[900, 150, 150], [0, 0, 0]]
        assert len(faults(watch, state)) == 1

    def test_single_step_is_tested(self) -> None:
        assert len(faults_with("along", 1, [20, 1, 1])) == 1


class TestDraws:
    @pytest.mark.parametrize("rounding", [0.0, 1.0])
    def test_noise_that_differs_from_its_key_is_a_fault(self, rounding: float) -> None:
        watch, state = correct_run()
        state["rounding"][0] = rounding
        state["differing"][:] = [3, 4, 1999, -0.0125]
        check_fault(faults(watch, state), "At step 5 ", " weight 2,000 ", " -0.013 ", " key ", " 3)")

    @pytest.mark.parametrize(("inside", "verb"), [(1, "contains"), (0, "lacks")])
    @pytest.mark.parametrize("unit", ["sentence", "client"])
    def test_sample_that_differs_from_its_key_is_a_fault(self, inside: int, verb: str, unit: str) -> None:
        watch, state = correct_run(unit=unit)
        state["misdrawn"][:] = [2, 0, 6, inside]
        check_fault(faults(watch, state), "At step 1 ", f" {verb} {unit} 7,", " key ", " 2)")

    @pytest.mark.parametrize(("before", "said"), [(0, "of step 1 again"), (-1, "of another client again")])
    def test_reused_key_is_a_fault(self, before: int, said: str) -> None:
        watch, state = correct_run()
        state["reused"][:] = [6, before]
        check_fault(faults(watch, state), "Step 7 ", " key ", said)


class TestSettings:
    @pytest.mark.parametrize("step", [0, 9])
    def test_changed_settings_are_a_fault(self, step: int) -> None:
        check_fault(faults_with("changed", 0, step), f"At step {step + 1} ", "plan", "training settings")

    def test_more_steps_than_planned_are_a_fault(self) -> None:
        watch, state = correct_run(plan_of(steps=160), plan_of(40, 8, steps=160), taken=160)
        assert faults(watch, state) == ()
        state["sizes"][1, 2] += 1
        check_fault(faults(watch, state), "Part 2 ", " 161 steps", " 160 ")
        state["sizes"][0, 2] += 2  # only the first such part is named
        check_fault(faults(watch, state), "Part 1 ", " 162 steps", " 160 ")


class TestTouched:
    @pytest.mark.parametrize("rounding", [0.0, 1.0])
    def test_touched_state_is_a_fault_with_any_rounding(self, rounding: float) -> None:
        watch, state = correct_run()
        state["rounding"][0] = rounding
        assert faults(watch, state) == ()
        state["touched"][:] = [3, 4]
        check_fault(faults(watch, state), "Before step 5 ", "optimiser's moments", " 3)")


class TestSums:
    @pytest.mark.parametrize(("unit", "what"), [("sentence", "gradient"), ("client", "update")])
    def test_contribution_above_clip_norm_is_a_fault(self, unit: str, what: str) -> None:
        assert faults_with("sums", 0, 2 * 1.0001, unit=unit) == ()
        for norm, said in ((2 * 1.00011, "2"), (2.5, "2.5")):
            found = faults_with("sums", 0, norm, unit=unit)
            check_fault(found, f" {unit} ", f" {what} of norm {said}, ", "than the clip norm")
            assert found[0].endswith(" 2.")

    def test_contribution_of_another_length_than_planned_is_a_fault(self) -> None:
        watch, state = correct_run()
        for norm, said in ((1.5, "1.5"), (0.0, "0")):
            state["unplanned"][:] = norm, 1.75
            check_fault(faults(watch, state), "A sentence ", f" norm {said}, ", " plan's clipping gives 1.75.")
        state["sums"][0] = 2.5
        check_fault(faults(watch, state), " norm 2.5, ", "than the clip norm")

    @pytest.mark.parametrize(("unit", "what"), [("sentence", "gradient"), ("client", "update")])
    def test_gap_between_used_and_clipped_sum_is_a_fault(self, unit: str, what: str) -> None:
        assert faults_with("sums", 2, 0.05, unit=unit) == ()
        for gap, said in ((0.0501, "0.05"), (math.inf, "inf")):
            found = faults_with("sums", 2, gap, unit=unit)
            check_fault(found, f" {unit}s' clipped {what}s ", f" {said} clip norms apart")

    def test_nan_is_a_fault(self) -> None:
        assert len(faults_with("sums", 0, math.nan)) == len(faults_with("sums", 2, math.nan)) == 1


class TestSamples:
    @pytest.mark.parametrize(("sign", "way"), [(1, "more"), (-1, "fewer")])
    def test_mean_sample_size_is_tested(self, sign: int, way: str) -> None:
        bound = sum_within(160, share(2))
        watch, state = correct_run()
        state["scores"][0], state["sizes"][0, 0] = sign * bound * 0.999999, 1600 + sign * 80
        assert faults(watch, state) == ()
        state["scores"][0] = sign * bound * 1.000001
        check_fault(faults(watch, state), f" 0.5 sentences {way} ", "planned on average")

    def test_direction_of_size_deviation(self) -> None:
        watch, state = correct_run()
        state["scores"][0], state["sizes"][0, 0] = 999, 1601
        check_fault(faults(watch, state), " 0.00625 sentences more ", "planned on average")

    def test_parts_without_sampling_are_excluded_from_mean(self) -> None:
        plans = [plan_of(50, 10), plan_of(30, 30), plan_of(40, 8)]
        watch, state = correct_run(*plans)
        state["scores"][:] = [999, 320, 320]
        state["sizes"][:, 0] = [1600 + 320, 99999, 8 * 160 + 160]
        check_fault(faults(watch, state), " 1.5 sentences more ", "planned on average")

    def test_client_unit_is_named(self) -> None:
        watch, state = correct_run(unit="client")
        state["scores"][0], state["sizes"][0, 0] = -999, 1500
        check_fault(faults(watch, state), " 0.625 clients fewer ", "planned on average")

    def test_spread_of_sample_sizes_is_tested(self) -> None:
        low, high = squares_within(160, share(2))
        assert faults_with("scores", 1, low * 1.000001) == faults_with("scores", 1, high * 0.999999) == ()
        for square in (low * 0.999999, high * 1.000001):
            check_fault(faults_with("scores", 1, square), "Sample sizes", f" {math.sqrt(square / 160):.3g} times ")
        assert len(faults_with("scores", slice(None), [0, 1e3, 1])) == 1

    def test_sizes_are_not_tested_without_sampling(self) -> None:
        watch, state = correct_run()
        state["scores"][:] = [999, 9999, 0]
        assert faults(watch, state) == ()


class TestTimes:
    """How often each sentence occurred, as standard normal scores; with probability ½ and one step, by the tie-breaker
    alone."""

    @staticmethod
    def of(scores: np.ndarray, unit: str = "sentence", more: tuple[PrivacyPlan, ...] = ()) -> tuple[str, ...]:
        """Return the faults for these scores: each sentence occurred once in two steps or not, and the tie-breaker
        gives the rest."""
        plan = plan_of(len(scores), len(scores) // 2)
        watch, state = correct_run(plan, *more, taken=1, unit=unit)
        levels = stats.norm.cdf(scores)
        state["times"][: len(scores)] = levels >= 0.5
        ties = watch.ties[1].copy()
        ties[: len(scores)] = np.where(levels < 0.5, 2 * levels, 2 * levels - 1)
        watch.ties = (watch.ties[0], ties)
        state["steps"][0] = 0
        return faults(watch, state)

    @staticmethod
    def even(number: int, squares: float) -> np.ndarray:
        """Return scores with this sum of squares, none of them large."""
        return np.where(np.arange(number) % 2, 1, -1) * math.sqrt(squares / number)

    @pytest.mark.parametrize("number", [50, 400])
    @pytest.mark.parametrize("unit", ["sentence", "client"])
    def test_spread_of_counts_is_tested(self, number: int, unit: str) -> None:
        low, high = squares_within(number, share(2))
        for squares, fine in (
            (low * 1.000001, True),
            (low * 0.999999, False),
            (high * 0.999999, True),
            (high * 1.000001, False),
        ):
            found = self.of(self.even(number, squares), unit)
            if fine:
                assert found == ()
            else:
                check_fault(found, f"Each {unit} ", "evenly")

    @pytest.mark.parametrize("number", [400, 1000])
    @pytest.mark.parametrize("unit", ["sentence", "client"])
    @pytest.mark.parametrize("sign", [1, -1])
    def test_extreme_counts_are_tested(self, number: int, unit: str, sign: int) -> None:
        bound = stats.norm.isf(share(number, 2) / 2)
        for factor, fine in ((0.99999, True), (1.00001, False)):
            scores = self.even(number, number)
            scores[number // 3] = sign * factor * bound
            found = self.of(scores, unit)
            if fine:
                assert found == ()
            else:
                check_fault(found, f"A {unit} ", "more often", "more rarely")

    def test_parts_have_own_probability_and_steps(self) -> None:
        plans = (plan_of(400, 40), plan_of(300, 150))
        watch, state = correct_run(*plans)
        state["sizes"][:, 2] = [100, 40]
        state["sizes"][:, 0] = [4000, 6000]
        state["times"] = times_of(watch, [100, 40])
        assert faults(watch, state) == ()
        for first, wrong in ((0, 20), (400, 10)):
            off = dict(state)
            off["times"] = state["times"].copy()
            off["times"][first : first + 300] = wrong
            check_fault(faults(watch, off), "Each sentence ", "evenly")

    def test_parts_without_steps_or_sampling_are_not_tested(self) -> None:
        watch, state = correct_run(plan_of(400, 40), plan_of(300, 300), plan_of(200, 20))
        state["sizes"][2] = 0
        state["times"][400:700], state["times"][700:] = 160, 99
        assert faults(watch, state) == ()
        state["sizes"][2] = [20, 0, 1]
        assert len(faults(watch, state)) == 1

    def test_one_step_is_tested(self) -> None:
        watch, state = correct_run(plan_of(400, 40), taken=1)
        state["steps"][0] = 0
        state["times"][:] = 1
        assert len(faults(watch, state)) == 1


ONE, TWO = critical_values.share(64), critical_values.share(128)
CRITICAL_VALUES = {
    "spreads": (0, critical_values.square_bounds(160, TWO)),
    "along": ((0, 0), (math.sqrt(150) * critical_values.normal_bound(TWO),)),
    "scores": (0, (critical_values.sum_bound(160, TWO),)),
}


@pytest.mark.parametrize("name", CRITICAL_VALUES)
def test_critical_values_themselves_pass(name: str) -> None:
    place, values = CRITICAL_VALUES[name]
    for value in values:
        assert faults_with(name, place, float(value)) == ()


@pytest.mark.parametrize("name", CRITICAL_VALUES)
def test_more_checks_or_verdicts_widen_critical_values(name: str) -> None:
    place, values = CRITICAL_VALUES[name]
    beyond = float(values[-1]) * 1.0001
    assert len(faults_with(name, place, beyond)) == 1
    assert faults_with(name, place, beyond, checks=2) == ()
    assert faults_with(name, place, beyond, verdicts=128) == ()


def test_faults_of_noise_sums_and_samples_are_all_reported() -> None:
    watch, state = correct_run()
    state["squares"][:], state["bad"][:], state["reused"][:] = 0, [1, 0, 0.5], [4, 0]
    state["leak"][:], state["bins"][:, 32] = [3, 9.0], 10**7
    state["sums"][:3], state["scores"][1] = [9, 1, 9], 0.0
    said = faults(watch, state)
    noise = ("over all steps", "At step 1 ", "not normally distributed", "At step 4 ")
    others = ("Step 5 ", "than the clip norm", "clip norms apart", "Sample sizes")
    assert all(part in each for part, each in zip((*noise, *others), said, strict=True))

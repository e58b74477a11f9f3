"""What the noise check makes of its sums: each of its questions on both sides of its border, and the figures that are
shown. Borders are worked out here from the distributions; each has its own share of one false alarm in a million."""

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
"""How often each weight was measured."""
BATCH = 10
EDGES = stats.norm.cdf(np.linspace(-4, 4, 65))
State = dict[str, np.ndarray]


def share(asked: int, of_it: int = 1) -> float:
    """One false alarm in a million, split among sixteen questions, 64 verdicts and what is asked in each."""
    return 1e-6 / 16 / 64 / asked / of_it


def squares_within(draws: float, chance: float) -> tuple[float, float]:
    return float(stats.chi2.ppf(chance / 2, draws)), float(stats.chi2.isf(chance / 2, draws))


def sum_within(draws: float, chance: float) -> float:
    """Hoeffding's bound."""
    return math.sqrt(2 * draws * math.log(2 / chance))


def plan_of(examples: int = 50, batch_size: int = BATCH, steps: int = STEPS, **chosen: Any) -> PrivacyPlan:
    values: dict = {"noise_multiplier": STD / CLIP_NORM, "clip_norm": CLIP_NORM, "delta": 1e-5, "sampling": "poisson"}
    return PrivacyPlan(examples=examples, batch_size=batch_size, steps=steps, **(values | chosen))


def bins_of(number: int, edges: np.ndarray = EDGES) -> np.ndarray:
    """So many draws, distributed as is expected but for half of one in each bin."""
    return np.diff(np.rint(number * np.concatenate([[0], edges, [1]])).astype(np.int64))


def times_of(watch: Watch, taken: list[int]) -> np.ndarray:
    """How often each sentence comes where scores are spread as they should be."""
    found = []
    for plan, steps, first in zip(watch.plans, taken, watch.first, strict=False):
        # The ties that are drawn for each sentence, by rank.
        ranks = np.argsort(np.argsort(watch.ties[1][first : first + plan.examples]))
        levels = (ranks + 0.5) / plan.examples
        found.append(stats.binom.ppf(levels, steps, plan.sampling_probability).astype(np.int64))
    return np.concatenate(found)


def honest(*plans: PrivacyPlan, taken: int = 160, **kind: Any) -> tuple[Watch, State]:
    """Sums of a run in which everything is as it should be."""
    chosen: dict = {"layers": LAYERS, "secrets": Secrets.seeded(0, "run")} | kind
    monitor = NoiseMonitor(plans or [plan_of()], SIZE, **chosen)
    watch, state = monitor.watch, monitor.state
    counts = [taken] * len(watch.plans)
    draws = EACH.sum()
    state["steps"][0] = sum(counts)
    state["squares"] = EACH.astype(float)
    if len(watch.borders) == 4:
        state["visits"] = VISITS.copy()
    else:
        state["visits"][1, 0], state["squares"] = 160, np.full(SIZE, 160.0)
    state["bins"] = np.stack([bins_of(draws // 4)] * len(watch.layers))
    state["spreads"][:] = [160, 160]
    state["along"][:] = [[5, 150, 150], [2, 10, 10]]
    state["drift"][:] = [3, 159]
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


def changed(name: str, place: Any, value: Any, *plans: PrivacyPlan, **kind: Any) -> tuple[str, ...]:
    """The faults of sums that are as they should be, but for some."""
    watch, state = honest(*plans, **kind)
    state[name][place] = value
    return faults(watch, state)


@pytest.mark.parametrize("unit", ["sentence", "client"])
def test_nothing_is_found_where_everything_is_as_it_should_be(unit: str) -> None:
    assert faults(*honest(unit=unit)) == ()
    assert faults(*honest(plan_of(), plan_of(40, 8), unit=unit)) == ()


class TestFigures:
    def test_each(self) -> None:
        plans = [plan_of(50, 10), plan_of(40, 8)]
        watch, state = honest(*plans)
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
        )
        assert found == expected

    def test_layers_have_ratios_of_their_own(self) -> None:
        watch, state = honest()
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
        watch, state = honest()
        state["sizes"][:], state["along"][:] = [[13, 9.0, 1]], [[0.5, 0.25, 1], [0, 0, 0]]
        found = verdict(watch, state)
        assert (found.batch_mean, found.batch_std, found.along, found.along_spread) == (13, 3, 0.5, 0.5)
        assert found.batch_std_planned == pytest.approx(math.sqrt(50 * 0.2 * 0.8))

    def test_fixed_batches_have_no_spread_to_be_expected(self) -> None:
        assert verdict(*honest(plan_of(sampling="shuffle"))).batch_std_planned is None

    @pytest.mark.parametrize(("rounding", "measured"), [(0.01, True), (0.0101, False), (math.nan, False)])
    def test_noise_that_rounding_hides_is_not_measured_and_sums_are(self, rounding: float, measured: bool) -> None:
        watch, state = honest()
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
    """The noise as strong as planned: over all, in each layer, each cell, each weight."""

    @pytest.mark.parametrize("level", CELLS)
    @pytest.mark.parametrize("factor", [1 + 1e-6, 1 - 1e-6])
    def test_beyond_the_border_it_is_a_fault(self, level: str, factor: float) -> None:
        where, asked = CELLS[level]
        watch, state = honest()
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
    def test_up_to_the_border_chance_may_do_it(self, level: str, above: bool) -> None:
        where, asked = CELLS[level]
        watch, state = honest()
        bound = squares_within(EACH[where].sum(), share(asked))[above]
        state["squares"][where] *= bound * (1 + (-1e-6 if above else 1e-6)) / EACH[where].sum()
        assert faults(watch, state) == ()

    @pytest.mark.parametrize("level", CELLS)
    def test_rounding_widens_the_borders(self, level: str) -> None:
        where, asked = CELLS[level]
        draws, far = EACH[where].sum(), 0.25
        low, high = (math.sqrt(bound) for bound in squares_within(draws, share(asked)))
        for root, fine in (
            (high + far - 1e-5, True),
            (high + far + 1e-5, False),
            (low - far + 1e-5, True),
            (low - far - 1e-5, False),
        ):
            watch, state = honest()
            state["squares"][where] = EACH[where] * root**2 / draws
            state["slacks"][where] = far**2 / (where.stop - where.start)
            assert (faults(watch, state) == ()) == fine, (root, fine)

    def test_other_places_are_counted(self) -> None:
        watch, state = honest()
        state["squares"][[3, 1200, 2999]] = 0.0
        check_fault(faults(watch, state), "the weight 4 ", " 0.0 % ", " 2 other")
        watch, state = honest()
        state["squares"][:256] *= 1.1**2
        state["squares"][512:768] *= 0.9**2
        check_fault(faults(watch, state), "the weights 1 to 256 ", " 110.0 % ", " 1 other")

    def test_layers_that_make_up_for_each_other_are_found(self) -> None:
        watch, state = honest()
        state["squares"][:1200] *= 1 + 3 / 82
        state["squares"][1200:] *= 1 - 3 / 98
        percent = 100 * math.sqrt(1 + 3 / 82)
        check_fault(faults(watch, state), "“one”", f" {percent:.1f} % ", "standard deviation")

    def test_what_was_never_measured_is_not_judged(self) -> None:
        """In cells that reach over the border, only what was."""
        watch, state = honest()
        state["visits"][:] = [[60, 0, 40, 0], [0, 0, 0, 0]]
        state["squares"] = np.repeat([60.0, 0.0, 40.0], 1000)
        assert faults(watch, state) == ()
        assert verdict(watch, state).least_visits == 0
        state["squares"][5] = 0
        check_fault(faults(watch, state), "the weight 6 ", " 0.0 % ", "standard deviation.")

    def test_weights_that_were_measured_once_are_judged(self) -> None:
        low, high = squares_within(1, share(3000))
        for square, fine in ((high * 0.999999, True), (high * 1.000001, False), (low / 2, False), (low * 2, True)):
            watch, state = honest()
            state["visits"][:], state["squares"] = [[1, 0, 0, 0], [0, 0, 0, 0]], np.repeat([1.0, 0.0], [1000, 2000])
            state["squares"][7] = square
            assert (faults(watch, state) == ()) == fine, square

    def test_where_nothing_was_measured_there_is_no_fault_of_the_noise(self) -> None:
        watch, state = honest()
        state["visits"][:], state["bad"][:] = 0, [3, 7, 0.5]
        assert faults(watch, state) == ()


class TestSteps:
    def test_steps_that_were_off_are_counted_and_the_first_is_named(self) -> None:
        check_fault(changed("bad", slice(None), [3, 1233, 0.455]), "step 1,234 ", " 45.5 % ", " 3)")
        check_fault(changed("bad", slice(None), [1, 0, 2.0]), "step 1 ", " 200.0 % ", " 1)")

    def test_their_own_spreads_spread_as_chance_does(self) -> None:
        low, high = squares_within(160, share(2))
        assert changed("spreads", 0, high * 0.999999) == changed("spreads", 0, low * 1.000001) == ()
        for square in (high * 1.000001, low * 0.999999):
            check_fault(changed("spreads", 0, square), "step to step", f" {math.sqrt(square / 160):.2f} times ")
        assert changed("spreads", slice(None), [0.0, 0.0]) == ()
        assert len(changed("spreads", slice(None), [1e3, 1])) == 1

    def test_both_are_said(self) -> None:
        watch, state = honest()
        state["bad"][:], state["spreads"][0] = [1, 0, 2.0], 0.0
        assert len(faults(watch, state)) == 2


def shifted(number: int, distance: int, edge: int = 40) -> np.ndarray:
    """Draws of which ``distance`` more than expected lie below some edge, taken from the bin above it."""
    bins = bins_of(number)
    below = np.cumsum(bins)[edge] - number * EDGES[edge]
    moved = math.ceil(distance - below)
    bins[edge] += moved
    bins[edge + 1] -= moved
    return bins


class TestShape:
    NUMBER = 1_000_000
    FREE = NUMBER * math.sqrt(math.log(2 / share(2)) / (2 * NUMBER))
    """Of a million draws: how many more may lie below some value, by Massart's inequality."""

    def test_distances_that_chance_does_not_allow_are_faults(self) -> None:
        assert changed("bins", 1, shifted(self.NUMBER, self.FREE - 1.5)) == ()
        found = changed("bins", 1, shifted(self.NUMBER, self.FREE))
        check_fault(found, "“other”", "not normally distributed", f" {100 * self.FREE / self.NUMBER:.2g} %.")

    def test_values_that_are_too_few_below_are_found_too(self) -> None:
        bins = bins_of(self.NUMBER)
        bins[40] -= 9000
        bins[41] += 9000
        check_fault(changed("bins", 0, bins), "“one”", "not normally distributed", " 0.9 %.")

    def test_rounding_may_have_moved_values_over_an_edge(self) -> None:
        """By 0.4, which is above the density of the normal distribution, times the root of what it adds on average."""
        slack = 1e-6
        free = self.FREE + self.NUMBER * 0.4 * math.sqrt(slack * 1800 / self.NUMBER)
        for distance, fine in ((free - 1.5, True), (free, False)):
            watch, state = honest()
            state["bins"][1] = shifted(self.NUMBER, distance)
            state["slacks"][1200:] = slack
            state["slacks"][:1200] = 1e-12
            assert (faults(watch, state) == ()) == fine

    def test_rounding_as_large_as_the_noise_leaves_no_shape(self) -> None:
        watch, state = honest()
        state["slacks"][:], state["bins"][1, 30:40] = 1e9, 10**6
        state["squares"] = EACH.astype(float)
        assert faults(watch, state) == ()

    def test_where_nothing_was_counted_nothing_is_judged(self) -> None:
        watch, state = honest()
        state["bins"][:], state["slacks"][:] = 0, 1e-6
        found = verdict(watch, state)
        assert (found.faults, found.shape_distance) == ((), 0.0)

    def test_one_value_has_a_distance(self) -> None:
        watch, state = honest()
        state["bins"][:] = 0
        state["bins"][0, 32] = 1
        assert verdict(watch, state).shape_distance == pytest.approx(EDGES[32])
        assert faults(watch, state) == ()

    def test_draws_far_out_are_counted(self) -> None:
        """Beyond four standard deviations on either side: 63.3 of a million are expected."""
        number = self.NUMBER
        expected = 2 * number * stats.norm.sf(4)
        low = int(stats.binom.ppf(share(1) / 2, number, 2 * stats.norm.sf(4))) - 1
        high = int(stats.binom.isf(share(1) / 2, number, 2 * stats.norm.sf(4))) + 1
        assert 0 < low < expected < high
        for beyond, fine in ((low, True), (high, True), (low - 1, False), (high + 1, False)):
            watch, state = honest()
            state["bins"][:] = 0
            bins = bins_of(number)
            bins[32] += bins[0] + bins[-1] - beyond
            for layer, part in ((0, beyond // 3), (1, beyond - beyond // 3)):
                state["bins"][layer] = bins // 2
                state["bins"][layer, [0, -1]] = [part // 2, part - part // 2]
            total = int(state["bins"].sum())
            state["bins"][0, 33] += number - total
            found = faults(watch, state)
            if fine:
                assert found == ()
            else:
                check_fault(found, " 1,000,000 ", f" {beyond:,} ", "beyond 4 standard deviations", " 63 ")

    def test_draws_far_out_are_not_counted_where_rounding_may_have_moved_them(self) -> None:
        """From a thousandth of all draws on."""
        number = self.NUMBER
        border = (1e-3 / 0.4) ** 2 * number / SIZE
        for slack, fine in ((border * 0.9999, False), (border * 1.0001, True)):
            watch, state = honest()
            bins = bins_of(number)
            bins[32] += bins[0] - 0
            bins[[0, -1]] = [0, 0]
            bins[32] += number - bins.sum()
            state["bins"][:] = [bins // 2, bins - bins // 2]
            state["slacks"][:] = slack
            assert (faults(watch, state) == ()) == fine
            state["slacks"][:], state["slacks"][-1] = 0, slack * SIZE
            assert (faults(watch, state) == ()) == fine


class TestAlong:
    @pytest.mark.parametrize(
        ("step", "part", "said"), [(0, 7.25, ("step 1 ", " +7.2 ")), (1233, -8, ("step 1,234 ", " -8.0 "))]
    )
    def test_the_first_leak_is_named(self, step: int, part: float, said: tuple[str, str]) -> None:
        check_fault(changed("leak", slice(None), [step, part]), *said, "standard deviations along")

    @pytest.mark.parametrize(("row", "number"), [(0, 150), (1, 10)])
    def test_components_add_up_as_chance_does(self, row: int, number: int) -> None:
        bound = math.sqrt(number) * stats.norm.isf(share(2) / 2)
        for sign, way in ((1, "along"), (-1, "against")):
            assert changed("along", (row, 0), sign * bound * 0.999999) == ()
            found = changed("along", (row, 0), sign * bound * 1.000001)
            check_fault(found, f" {way} the clipped sum", f" {bound / number:.2g} standard deviations", "average")

    @pytest.mark.parametrize(("row", "number"), [(0, 150), (1, 10)])
    def test_components_spread_as_chance_does(self, row: int, number: int) -> None:
        low, high = squares_within(number, share(2))
        assert changed("along", (row, 1), low * 1.000001) == changed("along", (row, 1), high * 0.999999) == ()
        for square in (low * 0.999999, high * 1.000001):
            percent = f" {100 * math.sqrt(square / number):.3g} % "
            check_fault(changed("along", (row, 1), square), "Along the clipped sum", percent, "standard deviation.")

    def test_one_fault_is_said_and_the_first_leak_before_all(self) -> None:
        watch, state = honest()
        state["along"][:] = [[900, 9000, 150], [100, 1000, 10]]
        assert len(faults(watch, state)) == 1
        assert "on average" in faults(watch, state)[0]
        state["leak"][:] = [3, 9.0]
        assert len(faults(watch, state)) == 1
        assert "At step 4" in faults(watch, state)[0]

    def test_where_no_step_counted_the_other_row_is_judged_still(self) -> None:
        watch, state = honest()
        state["along"][:] = [[0, 0, 0], [100, 10, 10]]
        assert len(faults(watch, state)) == 1
        state["along"][:] = [[900, 150, 150], [0, 0, 0]]
        assert len(faults(watch, state)) == 1

    def test_a_single_step_is_judged(self) -> None:
        assert len(changed("along", 1, [20, 1, 1])) == 1


class TestFreshness:
    @pytest.mark.parametrize(
        ("reused", "said"),
        [
            ([4, 0, 1.0], ("Step 5 ", " step 1 ")),
            ([1233, 1099, -0.9], ("Step 1,234 ", " step 1,100 ")),
        ],
    )
    def test_noise_that_came_again_is_named(self, reused: list[float], said: tuple[str, str]) -> None:
        found = changed("reused", slice(None), reused)
        check_fault(found, *said)
        assert ("opposite" in found[0]) == (reused[2] < 0)

    @pytest.mark.parametrize("lag", [1, 5, 159])
    @pytest.mark.parametrize("sign", [1, -1])
    def test_steps_so_far_apart_are_not_correlated(self, lag: int, sign: int) -> None:
        """320 rows are kept, one for each step; so many pairs of the 160 steps lie so far apart."""
        pairs = 160 - lag
        bound = sum_within(pairs, share(320, 2)) / 8
        assert changed("lags", lag, sign * bound * 0.999999) == ()
        found = changed("lags", lag, sign * bound * 1.000001)
        check_fault(found, f" steps {lag} apart ", "correlated", f"({sign * bound / pairs:+.2g}).")

    def test_of_several_the_one_farthest_from_its_border_is_named(self) -> None:
        watch, state = honest()
        state["lags"][[3, 7, 150]] = [40.0, -60.0, 20.0]
        check_fault(faults(watch, state), " steps 7 apart ", "correlated", f"({-60 / 153:+.2g}).")

    def test_where_no_pair_is_so_far_apart_nothing_may_be_there_but_rounding(self) -> None:
        assert changed("lags", 200, 0.9e-9) == ()
        assert changed("lags", 0, 0.9e-9) == ()
        check_fault(changed("lags", 200, 1.1e-9), " steps 200 apart ", "correlated", "(+1.1e-09).")
        check_fault(changed("lags", 0, -1.1e-9), " steps 1 apart ", "correlated", "(-1.1e-09).")

    @pytest.mark.parametrize(("lag", "pairs", "apart"), [(0, 106, "1"), (1, 157, "3"), (2, 154, "6"), (53, 1, "159")])
    def test_of_many_steps_one_of_several_is_kept(self, lag: int, pairs: int, apart: str) -> None:
        """3,000 steps, of which every third is kept: 160 steps have 54 of them, and lie in one row or so many apart."""
        plan = plan_of(steps=3000)
        bound = sum_within(pairs, share(1000, 2)) / 8
        assert changed("lags", lag, bound * 0.999999, plan) == ()
        found = changed("lags", lag, bound * 1.000001, plan)
        check_fault(found, f" steps {apart} apart ", "correlated", f"({bound / pairs:+.2g}).")

    @pytest.mark.parametrize("sign", [1, -1])
    def test_steps_have_nothing_in_common(self, sign: int) -> None:
        bound = sum_within(159, share(2))
        assert changed("drift", 0, sign * bound * 0.999999) == ()
        check_fault(changed("drift", 0, sign * bound * 1.000001), "noise of all steps", "common")

    def test_the_plainest_is_said_alone(self) -> None:
        watch, state = honest()
        state["reused"][:], state["lags"][4], state["drift"][0] = [4, 0, 1.0], 99.0, 999.0
        assert len(faults(watch, state)) == 1
        state["reused"][0] = -1
        assert len(faults(watch, state)) == 1


class TestTouched:
    @pytest.mark.parametrize("rounding", [0.0, 1.0])
    def test_what_moves_beside_the_updates_is_a_fault_whether_noise_is_measured_or_not(self, rounding: float) -> None:
        watch, state = honest()
        state["rounding"][0] = rounding
        assert faults(watch, state) == ()
        state["touched"][:] = [3, 4]
        check_fault(faults(watch, state), "Before step 5 ", "optimiser's moments", " 3)")


class TestSums:
    @pytest.mark.parametrize(("unit", "what"), [("sentence", "gradient"), ("client", "update")])
    def test_contributions_are_no_longer_than_the_clip_norm(self, unit: str, what: str) -> None:
        assert changed("sums", 0, 2 * 1.0001, unit=unit) == ()
        for norm, said in ((2 * 1.00011, "2"), (2.5, "2.5")):
            found = changed("sums", 0, norm, unit=unit)
            check_fault(found, f" {unit} ", f" {what} of norm {said}, ", "than the clip norm")
            assert found[0].endswith(" 2.")

    @pytest.mark.parametrize(("unit", "what"), [("sentence", "gradient"), ("client", "update")])
    def test_what_was_used_is_what_was_summed(self, unit: str, what: str) -> None:
        assert changed("sums", 2, 0.05, unit=unit) == ()
        for gap, said in ((0.0501, "0.05"), (math.inf, "inf")):
            found = changed("sums", 2, gap, unit=unit)
            check_fault(found, f" {unit}s' clipped {what}s ", f" {said} clip norms apart")

    def test_what_is_no_number_is_a_fault(self) -> None:
        assert len(changed("sums", 0, math.nan)) == len(changed("sums", 2, math.nan)) == 1


class TestSamples:
    @pytest.mark.parametrize(("sign", "way"), [(1, "more"), (-1, "fewer")])
    def test_sizes_are_those_of_the_plan_on_average(self, sign: int, way: str) -> None:
        bound = sum_within(160, share(2))
        watch, state = honest()
        state["scores"][0], state["sizes"][0, 0] = sign * bound * 0.999999, 1600 + sign * 80
        assert faults(watch, state) == ()
        state["scores"][0] = sign * bound * 1.000001
        check_fault(faults(watch, state), f" 0.5 sentences {way} ", "planned on average")

    def test_one_sentence_more_is_more(self) -> None:
        watch, state = honest()
        state["scores"][0], state["sizes"][0, 0] = 999, 1601
        check_fault(faults(watch, state), " 0.00625 sentences more ", "planned on average")

    def test_parts_that_chance_does_not_decide_are_left_out_of_the_average(self) -> None:
        plans = [plan_of(50, 10), plan_of(30, 30), plan_of(40, 8)]
        watch, state = honest(*plans)
        state["scores"][:] = [999, 320, 320]
        state["sizes"][:, 0] = [1600 + 320, 99999, 8 * 160 + 160]
        check_fault(faults(watch, state), " 1.5 sentences more ", "planned on average")

    def test_clients_are_called_so(self) -> None:
        watch, state = honest(unit="client")
        state["scores"][0], state["sizes"][0, 0] = -999, 1500
        check_fault(faults(watch, state), " 0.625 clients fewer ", "planned on average")

    def test_sizes_spread_as_chance_does(self) -> None:
        low, high = squares_within(160, share(2))
        assert changed("scores", 1, low * 1.000001) == changed("scores", 1, high * 0.999999) == ()
        for square in (low * 0.999999, high * 1.000001):
            check_fault(changed("scores", 1, square), "Sample sizes", f" {math.sqrt(square / 160):.3g} times ")
        assert len(changed("scores", slice(None), [0, 1e3, 1])) == 1

    def test_where_no_size_was_drawn_none_is_judged(self) -> None:
        watch, state = honest()
        state["scores"][:] = [999, 9999, 0]
        assert faults(watch, state) == ()


class TestTimes:
    """How often each sentence came, as standard normal values; with probability ½ and one step, by the tie alone."""

    @staticmethod
    def of(scores: np.ndarray, unit: str = "sentence", more: tuple[PrivacyPlan, ...] = ()) -> tuple[str, ...]:
        """Faults where sentences have these scores: each came once in two steps, or not, and the tie says the rest."""
        plan = plan_of(len(scores), len(scores) // 2)
        watch, state = honest(plan, *more, taken=1, unit=unit)
        levels = stats.norm.cdf(scores)
        state["times"][: len(scores)] = levels >= 0.5
        ties = watch.ties[1].copy()
        ties[: len(scores)] = np.where(levels < 0.5, 2 * levels, 2 * levels - 1)
        watch.ties = (watch.ties[0], ties)
        state["steps"][0] = 0
        return faults(watch, state)

    @staticmethod
    def even(number: int, squares: float) -> np.ndarray:
        """So many scores with this sum of squares, none of them large."""
        return np.where(np.arange(number) % 2, 1, -1) * math.sqrt(squares / number)

    @pytest.mark.parametrize("number", [50, 400])
    @pytest.mark.parametrize("unit", ["sentence", "client"])
    def test_they_spread_as_chance_does(self, number: int, unit: str) -> None:
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
    def test_none_comes_too_often_or_too_rarely(self, number: int, unit: str, sign: int) -> None:
        bound = stats.norm.isf(share(number, 2) / 2)
        for factor, fine in ((0.99999, True), (1.00001, False)):
            scores = self.even(number, number)
            scores[number // 3] = sign * factor * bound
            found = self.of(scores, unit)
            if fine:
                assert found == ()
            else:
                check_fault(found, f"A {unit} ", "more often", "more rarely")

    def test_each_part_has_its_own_probability_and_steps(self) -> None:
        plans = (plan_of(400, 40), plan_of(300, 150))
        watch, state = honest(*plans)
        state["sizes"][:, 2] = [100, 40]
        state["sizes"][:, 0] = [4000, 6000]
        state["times"] = times_of(watch, [100, 40])
        assert faults(watch, state) == ()
        for first, wrong in ((0, 20), (400, 10)):
            off = dict(state)
            off["times"] = state["times"].copy()
            off["times"][first : first + 300] = wrong
            check_fault(faults(watch, off), "Each sentence ", "evenly")

    def test_parts_without_steps_or_without_chance_are_not_judged(self) -> None:
        watch, state = honest(plan_of(400, 40), plan_of(300, 300), plan_of(200, 20))
        state["sizes"][2] = 0
        state["times"][400:700], state["times"][700:] = 160, 99
        assert faults(watch, state) == ()
        state["sizes"][2] = [20, 0, 1]
        assert len(faults(watch, state)) == 1

    def test_one_step_is_judged(self) -> None:
        watch, state = honest(plan_of(400, 40), taken=1)
        state["steps"][0] = 0
        state["times"][:] = 1
        assert len(faults(watch, state)) == 1


ONE, TWO = critical_values.share(64), critical_values.share(128)
BORDERS = {
    "spreads": (0, critical_values.square_bounds(160, TWO)),
    "along": ((0, 0), (math.sqrt(150) * critical_values.normal_bound(TWO),)),
    "lags": (3, (critical_values.sum_bound(157, critical_values.share(128 * 320)) / 8 + 1e-9,)),
    "drift": (0, (critical_values.sum_bound(159, TWO),)),
    "scores": (0, (critical_values.sum_bound(160, TWO),)),
}


@pytest.mark.parametrize("name", BORDERS)
def test_the_borders_themselves_are_allowed(name: str) -> None:
    place, values = BORDERS[name]
    for value in values:
        assert changed(name, place, float(value)) == ()


@pytest.mark.parametrize("name", BORDERS)
def test_a_check_among_others_and_one_that_is_asked_more_often_allow_more(name: str) -> None:
    place, values = BORDERS[name]
    beyond = float(values[-1]) * 1.0001
    assert len(changed(name, place, beyond)) == 1
    assert changed(name, place, beyond, checks=2) == ()
    assert changed(name, place, beyond, verdicts=128) == ()


def test_faults_of_noise_sums_and_samples_are_all_said() -> None:
    watch, state = honest()
    state["squares"][:], state["bad"][:], state["reused"][:] = 0, [1, 0, 0.5], [4, 0, 1]
    state["leak"][:], state["bins"][:, 32] = [3, 9.0], 10**7
    state["sums"][:3], state["scores"][1] = [9, 1, 9], 0.0
    said = faults(watch, state)
    noise = ("over all steps", "At step 1 ", "not normally distributed", "At step 4 ", "Step 5 ")
    others = ("than the clip norm", "clip norms apart", "Sample sizes")
    assert all(part in each for part, each in zip((*noise, *others), said, strict=True))

"""Statistics that the noise check accumulates at each step, compared with manual sums. ``test_hypothesis_tests.py``
tests the decisions on them, and ``test_sabotage.py`` runs with deliberate errors."""

import math
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from scipy import stats

from engine.config import TrainingConfig
from engine.privacy import gaussian_sampler
from engine.privacy.mechanisms import poisson_sample
from engine.privacy.noise_check import critical_values
from engine.privacy.noise_check import monitor as noise_monitor
from engine.privacy.noise_check.hypothesis_tests import SLACK
from engine.privacy.noise_check.monitor import NoiseMonitor, _fingerprint
from engine.privacy.noise_check.replay import words_of
from engine.privacy.plan import PrivacyPlan
from engine.seeds import Secrets

SIZE, STEPS, STD, CLIP_NORM = 3000, 320, 3.0, 2.0
LAYERS = (("one", slice(0, 1200)), ("other", slice(1200, 3000)))
"""Stretches of 1,000 weights; every tenth step checks all."""
LIMITS = (2.5, 3.5, 4.5)
SHARE = 1e-6 / 16
"""Share of the false-alarm budget of each question."""


def plan_of(examples: int = 50, batch_size: int = 10, steps: int = STEPS, **chosen: Any) -> PrivacyPlan:
    values: dict = {"noise_multiplier": STD / CLIP_NORM, "clip_norm": CLIP_NORM, "delta": 1e-5, "sampling": "poisson"}
    return PrivacyPlan(examples=examples, batch_size=batch_size, steps=steps, **(values | chosen))


def monitor(*plans: PrivacyPlan, size: int = SIZE, layers: Any = LAYERS) -> NoiseMonitor:
    return NoiseMonitor(plans or [plan_of()], size, layers=layers, secrets=Secrets.seeded(1, "run"))


def show_noise(
    check: NoiseMonitor, step: int, noise: np.ndarray, *directions: np.ndarray, slack: float = 0.0
) -> tuple[slice, np.ndarray]:
    """Pass a step's noise on all weights; return the stretch and the places that the check observed."""
    where = check.watch.stretch(step)
    places = np.concatenate([np.arange(where.start, where.stop), check.watch.fixed])
    given = [each[places] for each in directions or (np.zeros(len(noise)),)]
    check.saw_noise(step, noise[places], np.full(len(places), slack), given)
    return where, places


def gaussian(seed: int, size: int = SIZE) -> np.ndarray:
    return STD * np.random.default_rng(seed).standard_normal(size)


def test_initial_state_is_zero() -> None:
    check = monitor(plan_of(50), plan_of(30))
    expected = {
        "steps": [0],
        "squares": [0.0] * SIZE,
        "slacks": [0.0] * SIZE,
        "visits": [[0] * 4] * 2,
        "bins": [[0] * 66] * 2,
        "tails": [0] * 3,
        "spreads": [0.0, 0.0],
        "bad": [0.0, -1.0, 0.0],
        "along": [[0.0] * 3] * 2,
        "leak": [-1.0, 0.0],
        "keys": [[0] * 640] * 2,
        "reused": [-1, -1],
        "compared": [0, 0],
        "differing": [0.0, -1.0, -1.0, 0.0],
        "misdrawn": [0, -1, -1, 0],
        "settings": [0],
        "changed": [-1],
        "unplanned": [-1.0, 0.0],
        "touched": [0.0, -1.0],
        "rounding": [0.0],
        "sums": [0.0] * 5,
        "sizes": [[0.0] * 3] * 2,
        "scores": [0.0] * 3,
        "times": [0] * 80,
    }
    assert {name: array.tolist() for name, array in check.state.items()} == expected
    whole = {name for name, array in check.state.items() if array.dtype == np.int64}
    counts = {"steps", "visits", "bins", "tails", "times", "compared"}
    assert whole == counts | {"reused", "misdrawn", "changed"}
    assert check.steps_seen == 0


def test_critical_values_of_a_step_share_the_budget() -> None:
    check = monitor()
    assert sorted(check._spreads) == [1000, 3000]
    for draws, (low, high) in check._spreads.items():
        assert stats.chi2.cdf(low**2, draws) == pytest.approx(SHARE / STEPS / 2, rel=1e-4)
        assert stats.chi2.sf(high**2, draws) == pytest.approx(SHARE / STEPS / 2, rel=1e-4)


def test_state_equals_manual_sums() -> None:
    check = monitor()
    squares, slacks, counted, along = np.zeros(SIZE), np.zeros(SIZE), np.zeros(2, dtype=int), np.zeros((2, 3))
    turns, tails = [0, 0, 0], [0] * 3
    for step in range(25):
        noise, total = gaussian(step), np.random.default_rng(step + 99).standard_normal(SIZE)
        where, _ = show_noise(check, step, noise, total, slack=0.01)
        squares[where] += (noise[where] / STD) ** 2
        tails = [old + int((np.abs(noise[where]) > d * STD).sum()) for old, d in zip(tails, LIMITS, strict=True)]
        slacks[where] += (0.01 / STD) ** 2
        for number, (_, layer) in enumerate(LAYERS):
            counted[number] += len(range(max(where.start, layer.start), min(where.stop, layer.stop), 4))
        part = noise[where] @ total[where] / np.linalg.norm(total[where]) / STD
        along[int(where == slice(0, SIZE))] += [part, part**2, 1]
        if where != slice(0, SIZE):
            turns[where.start // 1000] += 1
    np.testing.assert_allclose(check.state["squares"], squares)
    np.testing.assert_allclose(check.state["slacks"], slacks)
    np.testing.assert_array_equal(check.state["bins"].sum(1), counted)
    assert check.state["tails"].tolist() == tails
    assert check.state["visits"].tolist() == [[*turns, 0], [2, 0, 0, 0]]
    np.testing.assert_allclose(check.state["along"], along)
    assert check.state["leak"].tolist() == [-1, 0]
    assert check.state["bad"].tolist() == [0, -1, 0]
    assert check.state["spreads"][1] == 25


def test_largest_rounding_is_stored() -> None:
    """As a share of the noise's variance, for a uniform error: a third of the square."""
    check = monitor()
    for step, slack in enumerate((0.02, 0.5, 0.1)):
        show_noise(check, step, gaussian(step), slack=slack)
    assert check.state["rounding"][0] == pytest.approx(0.5**2 / 3 / STD**2)


def test_large_rounding_leaves_only_sums_of_squares(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other tests apply up to a ten-thousandth of the noise's variance, inclusive."""
    total, loud = np.random.default_rng(9).standard_normal(SIZE), STD * math.sqrt(3e-4)
    for slack, judged in ((0.999 * loud, 1), (1.001 * loud, 0)):
        check = monitor()
        show_noise(check, 0, gaussian(0), total, slack=slack)
        assert check.state["along"][0, 2] == judged
        assert check.state["visits"][0, 0] == 1
    monkeypatch.setattr(noise_monitor, "_QUIET", float(check.state["rounding"][0]))
    check = monitor()
    show_noise(check, 0, gaussian(0), total, slack=1.001 * loud)
    assert check.state["along"][0, 2] == 1


class TestOneStep:
    """With fixed critical values, so that they are met exactly."""

    @staticmethod
    def judged(square: float, far: float = 0.0) -> list[float]:
        check = monitor()
        check._spreads = {100: (2.0, 3.0)}
        check._test_step(6, square, 100, far)
        return check.state["bad"].tolist()

    @pytest.mark.parametrize("fine", [(4.0, 0.0), (9.0, 0.0), (6.0, 0.0), (2.25, 0.25), (12.25, 0.25)])
    def test_critical_value_itself_passes(self, fine: tuple[float, float]) -> None:
        assert self.judged(*fine) == [0, -1, 0]

    @pytest.mark.parametrize("off", [(3.99, 0.0), (9.01, 0.0), (2.24, 0.25), (12.26, 0.25), (0.0, 0.0)])
    def test_beyond_critical_value_is_counted(self, off: tuple[float, float]) -> None:
        assert self.judged(*off) == [1, 6, math.sqrt(off[0] / 100)]

    def test_nan_is_counted(self) -> None:
        assert self.judged(math.nan)[:2] == [1, 6]

    def test_first_fault_is_stored_and_all_are_counted(self) -> None:
        check = monitor()
        check._spreads = {100: (2.0, 3.0)}
        for step, square in enumerate((5.0, 16.0, 5.0, 1.0, 25.0)):
            check._test_step(step, square, 100, 0.0)
        assert check.state["bad"].tolist() == [3, 1, 0.4]
        check = monitor()
        check._spreads = {100: (2.0, 3.0)}
        for step, square in enumerate((0.0, 16.0)):  # the first had no noise at all
            check._test_step(step, square, 100, 0.0)
        assert check.state["bad"].tolist() == [2, 0, 0]

    def test_spread_scores_are_added_if_rounding_is_negligible(self) -> None:
        """Up to a hundredth of the standard deviation of a sum of squares, which is √(2 · 5000) = 100."""
        check = monitor()
        check._spreads = {5000: (0.0, 1e9)}
        squares = [stats.chi2.ppf(stats.norm.cdf(score), 5000) for score in (1.5, -2.0, 0.25)]
        for square, far in zip(squares, (1.0, 0.5, 1.01), strict=True):
            check._test_step(0, square, 5000, far)
        assert check.state["spreads"] == pytest.approx([1.5**2 + 2.0**2, 2])


class TestDirections:
    @staticmethod
    def along(check: NoiseMonitor, parts: list[float]) -> None:
        """Pass step 9, on all weights: noise with so many standard deviations along each of several directions."""
        directions = [7.0 * (np.arange(SIZE) % len(parts) == place) for place in range(len(parts))]
        units = [direction / np.linalg.norm(direction) for direction in directions]
        show_noise(check, 9, STD * (np.array(parts) @ np.array(units)), *directions)

    @pytest.mark.parametrize("sign", [1, -1])
    @pytest.mark.parametrize("number", [1, 2, 3])
    def test_directions_share_the_budget(self, number: int, sign: int) -> None:
        bound = stats.norm.isf(SHARE / STEPS / number / 2)
        for place in range(number):
            for factor, leaks in ((0.9999, False), (1.0001, True)):
                check, parts = monitor(), [0.1] * number
                parts[place] = sign * factor * bound
                self.along(check, parts)
                expected = [9, pytest.approx(parts[place])] if leaks else [-1, 0]
                assert check.state["leak"].tolist() == expected, (place, factor)

    def test_critical_value_passes_and_nan_fails(self) -> None:
        bound = critical_values.normal_bound(SHARE / (2 * STEPS))
        for part, leaks in ((bound, False), (math.nextafter(bound, 9), True), (-bound, False), (math.nan, True)):
            check = monitor()
            check._test_direction(0, part, 2)
            assert (check.state["leak"][0] == 0) == leaks

    def test_first_leak_is_stored(self) -> None:
        check = monitor()
        for step, part in enumerate((1.0, 9.0, 12.0)):
            check._test_direction(step, part, 1)
        assert check.state["leak"].tolist() == [1, 9]
        check = monitor()
        check._test_direction(0, 9.0, 1)
        check._test_direction(1, 12.0, 1)
        assert check.state["leak"].tolist() == [0, 9]

    def test_first_touched_step_is_stored(self) -> None:
        check = monitor()
        for step in (0, 7, 9):
            check.saw_touched(step)
        assert check.state["touched"].tolist() == [3, 0]

    def test_older_state_gets_missing_fields(self) -> None:
        check, older = monitor(), monitor().state
        del older["touched"]
        older["bad"][0] = 2
        check.state = older
        assert check.state["touched"].tolist() == [0, -1]
        assert check.state["bad"][0] == 2

    def test_state_of_equal_draws_is_kept_whole_or_not_at_all(self) -> None:
        check, older = monitor(), monitor().state
        for name in ("squares", "slacks", "visits", "bins", "tails", "bad"):
            older[name].flat[0] = 5
        check.state = {name: older[name] for name in ("squares", "slacks", "visits", "bins", "tails")}
        assert check.state["squares"][0] == check.state["tails"][0] == 5
        check = monitor()
        check.state = older | {"bins": np.full((2, 9), 5), "unknown": np.ones(1)}
        assert check.state.keys() == monitor().state.keys()
        assert not any(check.state[name].any() for name in ("squares", "slacks", "visits", "bins", "tails"))
        assert check.state["bad"][0] == 5

    def test_zero_vectors_have_no_direction(self) -> None:
        check = monitor()
        show_noise(check, 0, gaussian(0), np.zeros(SIZE), np.zeros(SIZE))
        assert not check.state["along"].any()
        assert check.state["leak"][0] == -1

    def test_length_of_direction_is_irrelevant(self) -> None:
        check, short = monitor(), np.full(SIZE, 1e-3)
        show_noise(check, 0, np.full(SIZE, STD), short, short)
        assert check.state["along"][0].tolist() == pytest.approx([1000**0.5, 1000, 1])
        assert check.state["leak"].tolist() == [0, pytest.approx(1000**0.5)]
        check = monitor()
        show_noise(check, 0, np.full(SIZE, STD), np.zeros(SIZE), short)
        assert check.state["leak"].tolist() == [0, pytest.approx(1000**0.5)]


class TestKeys:
    """Noise and samples of known keys, changed in one place."""

    KEYS = tuple(Secrets.seeded(7, "keys").stream("noise", step=step).key for step in range(30))

    def noise(self, step: int, key: int | None = None) -> np.ndarray:
        """Return the noise of a step's key, float64 [SIZE]."""
        drawn = np.zeros(SIZE, dtype=np.float32)
        gaussian_sampler.add_normal(drawn, words_of(self.KEYS[step if key is None else key]), np.float32(STD))
        return drawn.astype(float)

    def show(self, check: NoiseMonitor, step: int, noise: np.ndarray, key: int | None = None) -> None:
        where = check.watch.stretch(step)
        places = np.concatenate([np.arange(where.start, where.stop), check.watch.fixed])
        own = self.KEYS[step if key is None else key]
        check.saw_noise(step, noise[places], np.full(len(places), 1e-6), [np.zeros(len(places))], own)

    def test_noise_of_its_key_passes(self) -> None:
        check = monitor()
        for step in range(30):
            self.show(check, step, self.noise(step))
        assert check.state["differing"].tolist() == [0, -1, -1, 0]
        assert check.state["reused"].tolist() == [-1, -1]
        assert check.state["compared"][0] > 30 * 40
        prints = check.state["keys"][0]
        assert len(set(prints[:30].tolist())) == 30
        assert not prints[30:].any()

    def test_each_weight_is_compared_in_turn(self) -> None:
        """32 turns of 8 of each 256 weights, and all fixed ones in four steps; a step compares what it measured."""
        for weight in (0, 5, 999, 1000, 2047, 2999):
            check, found = monitor(plan_of(steps=3200)), []
            for step in range(96):
                noise = np.zeros(SIZE)
                noise[weight] = 0.01 * STD
                noise += self.noise(0)
                self.show(check, step, noise, 0)
                found.append(check.state["differing"].tolist())
            assert found[-1][0] > 0
            first = found[-1][1]
            assert found[-1][2:] == [weight, pytest.approx(0.01, abs=1e-5)]
            assert first >= 0

    @pytest.mark.parametrize("shift", [1, 16, 256, 1500])
    def test_shifted_noise_is_found_at_once(self, shift: int) -> None:
        check = monitor()
        self.show(check, 0, np.roll(self.noise(0), shift))
        assert check.state["differing"][:2].tolist() == [1, 0]

    def test_difference_within_rounding_passes(self) -> None:
        """The test passes an error of 1e-6; single precision allows for 2⁻²² and 1e-6 of the value more."""
        for error, differs in ((0.9e-6, False), (1e-6 + (2**-22 + 1e-6) * 5 * STD, True)):
            check = monitor()
            self.show(check, 0, self.noise(0) + error)
            assert bool(check.state["differing"][0]) == differs

    def test_nan_differs(self) -> None:
        check = monitor()
        self.show(check, 0, np.full(SIZE, np.nan))
        assert check.state["differing"][0] == 1

    def test_step_that_measures_all_weights_compares_all_far_draws(self) -> None:
        seen = 0
        for key in range(30):
            noise = self.noise(0, key)
            for at in np.flatnonzero(np.abs(noise) > 3.5 * STD):
                changed, check = noise.copy(), monitor()
                changed[at] = np.sign(noise[at]) * 3.4 * STD
                self.show(check, 9, changed, key)
                assert check.state["differing"][:3].tolist() == [1, 9, at]
                seen += 1
        assert seen > 20

    def test_reused_key_is_found(self) -> None:
        check = monitor()
        for step, key in enumerate((0, 1, 2, 1, 0)):
            self.show(check, step, self.noise(key), key)
        assert check.state["differing"][0] == 0
        assert check.state["reused"].tolist() == [3, 1]

    def test_key_of_a_sample_and_of_noise_must_differ(self) -> None:
        check = monitor()
        self.show(check, 0, self.noise(0))
        check.saw_sample(np.zeros(0, dtype=np.int64), key=self.KEYS[0])
        assert check.state["reused"].tolist() == [0, 0]

    def test_key_of_another_check_is_found(self) -> None:
        one, other = monitor(), monitor()
        one.others, other.others = [other], [one]
        self.show(one, 0, self.noise(0))
        self.show(other, 0, self.noise(1), 1)
        self.show(other, 1, self.noise(0), 0)
        assert other.state["reused"].tolist() == [1, -1]

    def test_first_reuse_of_a_key_is_stored(self) -> None:
        """At step 0, and where another check used the key, which has no step."""
        check = monitor()
        self.show(check, 0, self.noise(0))
        check.saw_sample(np.zeros(0, dtype=np.int64), key=self.KEYS[0])
        self.show(check, 1, self.noise(0), 0)
        assert check.state["reused"].tolist() == [0, 0]
        one, other = monitor(), monitor()
        other.others = [one]
        self.show(one, 0, self.noise(5), 5)
        for step, key in enumerate((0, 5, 0)):
            self.show(other, step, self.noise(key), key)
        assert other.state["reused"].tolist() == [1, -1]

    def test_keys_are_stored_by_kind_up_to_the_planned_steps(self) -> None:
        check = monitor(plan_of(steps=2))
        for step in range(3):
            check.saw_sample(np.zeros(0, dtype=np.int64), key=self.KEYS[step])
        assert check.state["keys"].astype(bool).tolist() == [[False] * 2, [True] * 2]
        assert check._keys.keys() == {_fingerprint(key) for key in self.KEYS[:3]}

    def test_fingerprints_are_odd_and_have_64_bits(self) -> None:
        prints = [_fingerprint(key) for key in self.KEYS]
        assert all(mark % 2 for mark in prints)
        assert 2**56 < max(prints) < 2**64

    def test_noise_is_compared_with_the_sum_and_the_turn_of_its_step(self, monkeypatch: pytest.MonkeyPatch) -> None:
        sums, turns = [], []

        def record(noise: Any, error: Any, total: np.ndarray, *rest: Any) -> np.ndarray:
            sums.append(total[0])
            turns.append(rest[4])
            return np.zeros(4)

        monkeypatch.setattr(noise_monitor.replay, "compare_noise", record)
        check = monitor()
        for step in range(6):
            places = np.zeros(len(check.watch.fixed) + check.watch.stretch(step).stop - check.watch.stretch(step).start)
            check.saw_noise(step, places, places, [places + 1, places + 2], self.KEYS[step])
        assert (sums, turns) == ([1] * 6, [0, 1, 2, 3, 0, 1])

    def test_restored_state_knows_its_keys(self) -> None:
        before, check = monitor(), monitor()
        for step in range(3):
            self.show(before, step, self.noise(step))
        check.state = {name: array.copy() for name, array in before.state.items()}
        self.show(check, 3, self.noise(1), 1)
        assert check.state["reused"].tolist() == [3, 1]
        check.state = {name: array.copy() for name, array in before.state.items()}
        self.show(check, 3, self.noise(3))
        assert check.state["reused"][0] == -1


class TestSampleDraws:
    PLAN = plan_of(3000, 100, steps=STEPS)

    @staticmethod
    def draw(step: int) -> tuple[np.ndarray, bytes]:
        stream = Secrets.seeded(8, "samples").stream("sampling", step=step)
        return poisson_sample(stream, 3000, 100 / 3000), stream.key

    def test_samples_of_their_keys_pass_and_each_sentence_is_compared(self) -> None:
        check = monitor(self.PLAN)
        for step in range(24):
            sentences, key = self.draw(step)
            check.saw_sample(sentences, key=key)
        assert check.state["misdrawn"].tolist() == [0, -1, -1, 0]
        assert check.state["compared"][1] >= 24 * 250

    @pytest.mark.parametrize("sentence", [0, 7, 255, 256, 1500, 2999])
    def test_sentence_that_was_not_drawn_is_found_at_once(self, sentence: int) -> None:
        check = monitor(self.PLAN)
        sentences, key = self.draw(0)
        assert sentence not in sentences
        check.saw_sample(np.union1d(sentences, [sentence]), key=key)
        assert check.state["misdrawn"].tolist() == [1, 0, sentence, 1]

    def test_sentence_that_is_left_out_is_found_in_its_window(self) -> None:
        """256 sentences a step, in turn."""
        for step in (0, 11):
            check = monitor(self.PLAN)
            sentences, key = self.draw(step)
            first = sentences[sentences >= 256 * step][0]
            assert first < 256 * (step + 1)
            for earlier in range(step):
                check.saw_sample(self.draw(earlier)[0], key=self.draw(earlier)[1])
            check.saw_sample(sentences[sentences != first], key=key)
            assert check.state["misdrawn"].tolist() == [1, step, first, 0]

    def test_first_wrong_sample_is_stored_and_all_are_counted(self) -> None:
        check = monitor(self.PLAN)
        sentences, key = self.draw(0)
        assert sentences[0] < 256
        check.saw_sample(sentences[1:], key=key)
        sentences, key = self.draw(1)
        check.saw_sample(np.union1d(sentences, np.setdiff1d(np.arange(3000), sentences)[:1]), key=key)
        assert check.state["misdrawn"].tolist() == [2, 0, self.draw(0)[0][0], 0]

    @pytest.mark.parametrize(("batch_size", "window"), [(128, 256), (129, 272), (136, 272), (137, 288)])
    def test_window_has_twice_the_batch_in_whole_bytes(self, batch_size: int, window: int) -> None:
        check = monitor(plan_of(3000, batch_size))
        stream = Secrets.seeded(8, "samples").stream("sampling", step=0)
        sentences = poisson_sample(stream, 3000, batch_size / 3000)
        check.saw_sample(sentences, key=stream.key)
        assert check.state["compared"][1] == len(np.union1d(sentences, np.arange(window)))

    def test_sentence_that_occurs_twice_is_found(self) -> None:
        check = monitor(self.PLAN)
        sentences, key = self.draw(0)
        check.saw_sample(np.sort(np.append(sentences, sentences[0])), key=key)
        assert check.state["misdrawn"].tolist() == [1, 0, sentences[0], 1]

    def test_large_batches_are_compared_whole(self) -> None:
        """The window is twice as large as the batch."""
        check = monitor(plan_of(3000, 1500))
        stream = Secrets.seeded(8, "samples").stream("sampling", step=0)
        check.saw_sample(poisson_sample(stream, 3000, 0.5), key=stream.key)
        assert check.state["compared"][1] == 3000
        assert check.state["misdrawn"][0] == 0

    def test_other_sampling_is_not_compared(self) -> None:
        check = monitor(plan_of(50, 10, sampling="shuffle"))
        check.saw_sample(np.arange(10), key=bytes(32))
        assert check.state["compared"][1] == 0


class TestSettings:
    TRAINING = TrainingConfig(learning_rate=0.1)

    def test_equal_settings_pass(self) -> None:
        plans = plan_of(), plan_of(40)
        check = monitor(*plans)
        for step, part in enumerate((0, 1, 0)):
            check.saw_settings(step, replace(plans[part]), replace(self.TRAINING), part)
        assert check.state["changed"][0] == -1

    def test_changed_training_is_found_also_after_a_restart(self) -> None:
        check, resumed = monitor(), monitor()
        check.saw_settings(0, plan_of(), self.TRAINING)
        resumed.state = {name: array.copy() for name, array in check.state.items()}
        for each in (check, resumed):
            each.saw_settings(1, plan_of(), replace(self.TRAINING, learning_rate=0.11))
            each.saw_settings(2, plan_of(), replace(self.TRAINING, learning_rate=0.12))
            assert each.state["changed"][0] == 1

    @pytest.mark.parametrize("change", [{"clip_norm": 1.9}, {"batch_size": 11}, {"steps": 9}])
    def test_changed_plan_is_found(self, change: dict[str, Any]) -> None:
        check = monitor()
        check.saw_settings(4, replace(plan_of(), **change), self.TRAINING)
        assert check.state["changed"][0] == 4

    def test_first_change_is_stored_and_the_usual_part_is_the_first(self) -> None:
        check = monitor(plan_of(), plan_of(40))
        check.saw_settings(0, plan_of(), self.TRAINING)
        assert check.state["changed"][0] == -1
        for step in (0, 3):
            check.saw_settings(step, plan_of(40), self.TRAINING)
            assert check.state["changed"][0] == 0

    def test_first_wrong_contribution_is_stored(self) -> None:
        check = monitor()
        check.observe_sum(np.array([SLACK * CLIP_NORM]), 0.0, TestSums.unasked, np.zeros(1))
        assert check.state["unplanned"].tolist() == [-1.0, 0.0]
        for norms, planned in (([0.5, 0.0, 0.9], [0.5, 1.0, 1.2]), ([0.3], [0.7])):
            check.observe_sum(np.array(norms), 0.0, TestSums.unasked, np.array(planned))
            assert check.state["unplanned"].tolist() == [0.0, 1.0]

    def test_contribution_must_have_the_norm_of_the_planned_clipping(self) -> None:
        for norm, off in ((1.0, False), (1.0 + 1.9e-4, False), (0.999, True), (math.nan, True)):
            check = monitor()
            check.observe_sum(np.array([0.5, norm]), 0.0, TestSums.unasked, np.array([0.5, 1.0]))
            expected = [pytest.approx(norm, nan_ok=True), 1.0] if off else [-1.0, 0.0]
            assert check.state["unplanned"].tolist() == expected


class TestSums:
    @staticmethod
    def unasked() -> float:
        raise AssertionError("must not be called")

    def test_largest_contribution_and_gap_are_stored(self) -> None:
        check = monitor()
        check.observe_sum(np.array([0.25, 0.5]), 0.02, self.unasked)
        check.observe_sum(np.zeros(0), 0.06, self.unasked)
        check.observe_sum(np.array([0.75, 0.1, 0.2]), 0.04, self.unasked)
        check.observe_sum(np.array([0.5]), 0.0, self.unasked)
        assert check.state["sums"].tolist() == [0.75, 6, 0.06 / CLIP_NORM, 4, 4]

    def test_gap_is_compared_with_rounding_error(self) -> None:
        """From a twentieth of C on; a gap up to thirty times the rounding error counts as zero."""
        for gap, unsure, counts in (
            (0.125, 0.0, 1),
            (6.0, 0.2, 0),
            (6.0, 0.19999, 1),
            (6.0, 1.0, 0),
            (6.0, math.nan, 1),
        ):
            check, asked = monitor(), []
            check.observe_sum(np.zeros(1), gap, lambda unsure=unsure, asked=asked: asked.append(1) or unsure)
            assert check.state["sums"].tolist() == [0, 1, counts * gap / CLIP_NORM, 1, counts], (gap, unsure)
            assert asked
        check = monitor()
        check.observe_sum(np.zeros(1), 0.05 * CLIP_NORM, self.unasked)
        assert check.state["sums"][2] == 0.05

    def test_nan_gap_counts_as_infinite(self) -> None:
        for gap in (math.nan, math.inf):
            check = monitor()
            check.observe_sum(np.zeros(1), gap, lambda: 0.0)
            check.observe_sum(np.zeros(1), 0.0, self.unasked)
            assert check.state["sums"].tolist() == [0, 2, math.inf, 2, 2]


def test_samples_are_counted_by_part_and_sentence() -> None:
    check, random = monitor(plan_of(50, 10), plan_of(30, 9)), np.random.default_rng(2)
    sizes, times, scores = np.zeros((2, 3)), np.zeros(80, dtype=int), np.zeros(3)
    for step, part in enumerate((0, 1, 1, 0, 1)):
        examples, batch_size = ((50, 10), (30, 9))[part]
        sentences = np.flatnonzero(random.random(examples) < 0.4)
        assert check.steps_seen == step
        check.saw_sample(sentences, part)
        number, q = len(sentences), batch_size / examples
        sizes[part] += [number, (number - batch_size) ** 2, 1]
        times[sentences + 50 * part] += 1
        tie = check.watch.ties[0][step]
        below = stats.binom.cdf(number - 1, examples, q) + tie * stats.binom.pmf(number, examples, q)
        scores += [stats.norm.ppf(below), stats.norm.ppf(below) ** 2, 1]
    np.testing.assert_array_equal(check.state["sizes"], sizes)
    np.testing.assert_array_equal(check.state["times"], times)
    np.testing.assert_allclose(check.state["scores"], scores, rtol=1e-6)
    assert check.steps_seen == 5


def test_default_part_of_samples_is_the_first() -> None:
    check = monitor(plan_of(50, 10), plan_of(30, 9))
    check.saw_sample(np.arange(4))
    assert check.state["sizes"].tolist() == [[4, 36, 1], [0, 0, 0]]


@pytest.mark.parametrize("plan", [plan_of(50, 50), plan_of(50, 10, sampling="shuffle")])
def test_fixed_samples_have_no_score(plan: PrivacyPlan) -> None:
    check = monitor(plan)
    check.saw_sample(np.arange(10))
    assert check.state["scores"].tolist() == [0, 0, 0]
    assert check.steps_seen == 1


def test_steps_beyond_the_plan_are_counted() -> None:
    check = monitor(plan_of(steps=2))
    for _ in range(3):
        check.saw_sample(np.arange(12))
    below = stats.binom.cdf(11, 50, 0.2) + check.watch.ties[0][[0, 1, 0]] * stats.binom.pmf(12, 50, 0.2)
    assert check.state["scores"][0] == pytest.approx(stats.norm.ppf(below).sum())


class TestDeferred:
    """Deferred steps give the same results, and are processed before any result is read."""

    @staticmethod
    def take_step(check: NoiseMonitor, step: int) -> None:
        show_noise(check, step, gaussian(step), gaussian(STEPS + step))
        check.saw_sample(np.arange(5 + step % 10))

    def test_deferred_steps_give_equal_state(self) -> None:
        at_once, later = monitor(), monitor()
        for step in range(STEPS):
            self.take_step(at_once, step)
            assert later.steps_seen == step
            later.later(partial(self.take_step, later, step))
        assert later.steps_seen == STEPS
        for name, array in later.state.items():
            assert np.array_equal(array, at_once.state[name]), name
        assert later.verdict() == at_once.verdict()

    def test_queue_is_processed_when_full_or_at_whole_steps(self) -> None:
        """Every tenth of 320 steps checks all weights; of 3,200 every hundredth."""
        for steps, judged in ((320, [10, 20]), (3200, [16, 32, 48, 64, 80, 96, 100, 116])):
            check, seen = monitor(plan_of(steps=steps)), []
            found = []
            for step in range(judged[-1] + 1):
                check.later(partial(seen.append, step))
                if len(seen) == step + 1:
                    found.append(len(seen))
                    check.state["steps"][0] = step + 1  # otherwise counted by a sample
            assert found == judged
            assert seen == list(range(judged[-1]))

    def test_reading_processes_deferred_steps(self) -> None:
        check = monitor()
        check.later(lambda: self.take_step(check, 0))
        assert check.verdict().steps == 1
        check.later(lambda: self.take_step(check, 1))
        assert check.state["steps"][0] == 2
        assert check.steps_seen == 2

    def test_restored_state_discards_deferred_steps(self) -> None:
        check, before = monitor(), monitor()
        self.take_step(before, 0)
        check.later(lambda: self.take_step(check, 0))
        check.later(lambda: self.take_step(check, 1))
        check.state = {name: array.copy() for name, array in before.state.items()}
        assert check.steps_seen == 1
        assert np.array_equal(check.state["squares"], before.state["squares"])


def test_verdict_uses_own_state() -> None:
    check = monitor()
    check.saw_sample(np.arange(12))
    check.observe_sum(np.array([1.5]), 0.0, TestSums.unasked)
    found = check.verdict()
    assert (found.steps, found.batch_mean, found.clipped_norm_max, found.looks) == (1, 12, 1.5, 1)


def test_critical_values_of_steps_depend_on_number_of_checks() -> None:
    alone, among = NoiseMonitor([plan_of()], 2000), NoiseMonitor([plan_of()], 2000, checks=1000)
    for draws, (low, high) in alone._spreads.items():
        assert among._spreads[draws][0] < low
        assert among._spreads[draws][1] > high
    part = critical_values.normal_bound(critical_values.share(alone.watch.steps)) * 1.001
    for each in (alone, among):
        each._test_direction(3, part, 1)
    assert [each.state["leak"][0] for each in (alone, among)] == [3, -1]

"""Schedule of the noise check: every weight equally often, every sentence of a sum once."""

import dataclasses
import itertools

import numpy as np
import pytest

from engine.privacy.noise_check import critical_values
from engine.privacy.noise_check.schedule import ALONE, GROUP, LOOKS, Watch, drawn
from engine.privacy.plan import PrivacyPlan
from engine.seeds import Secrets


def plan_of(steps: int, examples: int = 14_041, batch_size: int = 32) -> PrivacyPlan:
    return PrivacyPlan(
        examples=examples,
        batch_size=batch_size,
        steps=steps,
        noise_multiplier=1.0,
        clip_norm=1.5,
        delta=1e-5,
        sampling="poisson",
    )


def watch(size: int, steps: int, seed: int = 0, unit: str = "sentence") -> Watch:
    return Watch([plan_of(steps)], size, secrets=Secrets.seeded(seed, "run"), unit=unit)


@pytest.mark.parametrize(("size", "steps"), [(322_609, 4388), (20_439, 137), (20_439, 34), (300_000, 34), (81, 500)])
def test_weights_are_visited_equally_often(size: int, steps: int) -> None:
    seen, visits = watch(size, steps), np.zeros(size, dtype=int)
    for step in range(steps):
        visits[seen.stretch(step)] += 1
    assert visits.min() >= 16
    assert visits.max() - visits.min() <= 1


@pytest.mark.parametrize(("steps", "number"), [(1, 1), (34, 1), (79, 1), (137, 3), (4388, LOOKS)])
def test_close_looks_are_spread_evenly_over_the_run(steps: int, number: int) -> None:
    found = set()
    for seed in range(20):
        seen = watch(400, steps, seed=seed)
        looks = [step for step in range(steps) if seen.looks_closely(step)]
        assert len(looks) == number
        assert np.array_equal(np.array(looks) * number // steps, np.arange(number))
        found.add(tuple(looks))
    assert len(found) == 1 if steps == 1 else len(found) > 5  # random, and different between runs


@pytest.mark.parametrize("sampled", [0, 1, 2, 13, 32, 70, 1024, 4096])
def test_groups_partition_the_sentences_into_at_most_halves(sampled: int) -> None:
    sentences = np.random.default_rng(0).permutation(14_041)[:sampled]
    for step in range(5):
        groups = watch(400, 10).groups(step, sentences)
        assert np.array_equal(np.sort(np.concatenate([np.zeros(0, dtype=int), *groups])), np.sort(sentences))
        if sampled:
            assert len(groups[0]) <= ALONE
            assert max(map(len, groups)) <= min(GROUP[1], max(1, sampled // 2))


def test_watch_has_defaults() -> None:
    plans = [plan_of(7, 50), plan_of(5, 30)]
    seen = Watch(plans, 90)
    assert (seen.plans, seen.size, seen.unit, seen.steps) == (tuple(plans), 90, "sentence", 12)
    assert seen.layers == (("all weights", slice(0, 90)),)
    assert seen.first.tolist() == [0, 50, 80]
    seeded = Watch(plans, 90, secrets=Secrets.seeded(0, ""))
    assert [np.array_equal(*pair) for pair in zip(seen.ties, seeded.ties, strict=True)] == [True, True]
    layers = (("one", slice(0, 40)), ("other", slice(40, 90)))
    assert Watch(plans, 90, layers=layers).layers == layers
    with pytest.raises(TypeError):
        Watch(plans, 90, layers)  # only by name


def test_ties_are_drawn_per_step_and_sentence() -> None:
    secrets = Secrets.seeded(4, "run")
    steps, sentences = Watch([plan_of(7, 50), plan_of(5, 30)], 90, secrets=secrets).ties
    np.testing.assert_array_equal(steps, secrets.stream("ties of steps").random(12))
    np.testing.assert_array_equal(sentences, secrets.stream("ties of sentences").random(80))


@pytest.mark.parametrize(("size", "places"), [(127, range(0, 127, 2)), (64, range(64)), (63, range(63)), (1, [0])])
def test_fixed_weights_are_64_evenly_spaced_ones(size: int, places: range) -> None:
    seen = watch(size, 10)
    assert seen.fixed.tolist() == list(places)


@pytest.mark.parametrize(
    ("size", "steps", "stretches"),
    [
        (10_240, 10_000, 10),  # of at least 1,024 weights
        (10_241, 10_000, 11),
        (1024, 10_000, 1),
        (1025, 10_000, 2),
        (81_920, 128, 8),  # of as many weights as 16 visits require
        (81_920, 127, 8),
        (81_920, 100, 7),
        (81_920, 16, 1),
        (81_920, 3, 1),
    ],
)
def test_stretches_are_equal_with_minimum_length(size: int, steps: int, stretches: int) -> None:
    borders = watch(size, steps).borders
    assert borders.dtype == np.int64
    np.testing.assert_array_equal(borders, np.rint(np.arange(stretches + 1) * (size / stretches)))
    assert watch(size, steps, unit="client").borders.tolist() == [0, size]


@pytest.mark.parametrize(("steps", "every"), [(320, 10), (319, 9), (64, 2), (63, 1), (20, 1)])
def test_stretches_alternate_with_32_whole_looks(steps: int, every: int) -> None:
    seen = watch(81_920, steps)
    turns = itertools.cycle(itertools.pairwise(seen.borders.tolist()))
    for step in range(steps):
        whole = step % every == every - 1
        assert seen.is_whole(step) == whole
        assert seen.stretch(step) == (slice(0, 81_920) if whole else slice(*next(turns)))


def test_single_stretch_makes_each_look_whole() -> None:
    seen = watch(500, 10_000)
    assert all(seen.is_whole(step) for step in range(700))
    assert seen.stretch(3) == slice(0, 500)


@pytest.mark.parametrize(
    ("steps", "number"), [(1, 1), (40, 1), (79, 1), (80, 2), (159, 3), (160, 4), (239, 5), (240, 6), (5000, 6)]
)
def test_one_look_is_drawn_per_interval_and_first_step_is_included(steps: int, number: int) -> None:
    for seed in range(8):
        uniform = Secrets.seeded(seed, "run").stream("looks").random(number)
        expected = [int((place + uniform[place]) * steps / number) for place in range(number)]
        if number > 1:
            expected[0] = 0
        seen = watch(400, steps, seed)
        assert [step for step in range(steps) if seen.looks_closely(step)] == expected


@pytest.mark.parametrize(
    ("sampled", "alone", "low", "high"),
    [
        (4096, 12, 16, 64),
        (128, 12, 16, 64),
        (100, 12, 16, 50),
        (40, 12, 10, 20),
        (13, 6, 3, 6),
        (7, 3, 1, 3),
        (4, 2, 1, 2),
    ],
)
def test_group_sizes_cover_their_range(sampled: int, alone: int, low: int, high: int) -> None:
    seen, sizes, orders = watch(400, 1000), set(), set()
    for step in range(1000 if sampled < 4096 else 40):
        groups = seen.groups(step, np.arange(sampled))
        assert len(groups[0]) == alone
        sizes |= {len(group) for group in groups[1:-1]}  # the last one has the rest
        assert len(groups[-1]) <= high
        orders.add(tuple(groups[0]))
    assert len(orders) > 5
    if sampled > alone + high:
        assert sizes == set(range(low, high + 1))
    assert sizes <= set(range(low, high + 1))


def test_single_sentence_is_one_group() -> None:
    (group,) = watch(400, 10).groups(0, np.array([17]))
    assert group.tolist() == [17]


def test_drawn_is_true_for_random_samples_only() -> None:
    assert drawn(plan_of(10, 50, 49))
    assert not drawn(plan_of(10, 50, 50))
    assert not drawn(dataclasses.replace(plan_of(10, 50, 5), sampling="shuffle"))
    assert not drawn(dataclasses.replace(plan_of(10, 50, 50), sampling="all"))


def test_checks_and_verdicts_share_the_false_alarm_rate() -> None:
    alone, several = watch(90, 10), Watch([plan_of(10)], 90, checks=5, verdicts=1000)
    assert (alone.share(3), alone.verdicts) == (critical_values.share(3), critical_values.VERDICTS)
    assert (several.share(3), several.verdicts) == (critical_values.share(15), 1000)
    assert several.share(0) == several.share(1) == critical_values.share(5)
    assert Watch([plan_of(10)], 90, verdicts=20).verdicts == critical_values.VERDICTS

"""What the noise check looks at: every weight equally often, every sentence of a sum once."""

import numpy as np
import pytest

from engine.privacy.noise_watch import ALONE, GROUP, LOOKS, Watch
from engine.privacy.plan import PrivacyPlan
from engine.seeds import Secrets


def watch(size: int, steps: int, batch_size: int = 32, seed: int = 0) -> Watch:
    plan = PrivacyPlan(
        examples=14_041,
        batch_size=batch_size,
        steps=steps,
        noise_multiplier=1.0,
        clip_norm=1.5,
        delta=1e-5,
        sampling="poisson",
    )
    return Watch([plan], size, secrets=Secrets.seeded(seed, "run"))


@pytest.mark.parametrize(("size", "steps"), [(322_609, 4388), (20_439, 137), (20_439, 34), (300_000, 34), (81, 500)])
def test_each_weight_is_visited_and_all_equally_often(size: int, steps: int) -> None:
    seen, visits = watch(size, steps), np.zeros(size, dtype=int)
    for step in range(steps):
        visits[seen.stretch(step)] += 1
    assert visits.min() >= 16
    assert visits.max() - visits.min() <= 1


@pytest.mark.parametrize(("steps", "number"), [(1, 1), (34, 1), (79, 1), (137, 3), (4388, LOOKS)])
def test_sums_are_looked_at_in_equal_stretches_of_the_run(steps: int, number: int) -> None:
    found = set()
    for seed in range(20):
        seen = watch(400, steps, seed=seed)
        looks = [step for step in range(steps) if seen.looks_closely(step)]
        assert len(looks) == number
        assert np.array_equal(np.array(looks) * number // steps, np.arange(number))
        found.add(tuple(looks))
    assert len(found) == 1 if steps == 1 else len(found) > 5  # chance decides, and differs between runs


@pytest.mark.parametrize("sampled", [0, 1, 2, 13, 32, 70, 1024, 4096])
def test_groups_have_every_sentence_once_and_none_has_more_than_half(sampled: int) -> None:
    sentences = np.random.default_rng(0).permutation(14_041)[:sampled]
    for step in range(5):
        groups = watch(400, 10).groups(step, sentences)
        assert np.array_equal(np.sort(np.concatenate([np.zeros(0, dtype=int), *groups])), np.sort(sentences))
        if sampled:
            assert len(groups[0]) <= ALONE
            assert max(map(len, groups)) <= min(GROUP[1], max(1, sampled // 2))

"""Uploads as integers: nothing overflows, what does not fit is refused, and rounding costs no more than is said."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from engine.errors import InvalidConfig, SecAggFailed
from engine.federated.secagg.quantization import FixedPoint

GRID = FixedPoint(parties=20, clip_norm=1.0, noise_std=1 / math.sqrt(14))
sizes = st.floats(1e-6, 1e6)
grids = st.builds(FixedPoint, parties=st.integers(3, 500), clip_norm=sizes, noise_std=st.one_of(st.just(0.0), sizes))
# Of as many parties as each of these grids has room for.
parts = arrays(np.float64, (3, 8), elements=st.floats(-1, 1))


@settings(deadline=None)
@given(grids, st.sampled_from([-1.0, 1.0]))
def test_the_largest_uploads_of_all_parties_do_not_overflow(grid, sign):
    one = grid.integers(np.full(3, sign * grid.largest))
    total = np.zeros(3, dtype=np.uint32)
    for _ in range(grid.parties):
        total += one
    assert grid.values(total) == pytest.approx(np.full(3, sign * grid.parties * grid.largest), rel=1e-5)
    assert grid.parties * grid.most < 2**31


@settings(deadline=None)
@given(grids, parts)
def test_the_sum_is_exact_in_integers_and_near_in_numbers(grid, shares):
    uploads = shares * grid.largest
    total = np.zeros(8, dtype=np.uint32)
    by_hand = [0] * 8
    for upload in uploads:
        total += grid.integers(upload)
        by_hand = [one + round(value / grid.quantum) for one, value in zip(by_hand, upload.tolist(), strict=True)]
    found = grid.values(total)
    assert [int(value) for value in found / grid.quantum] == by_hand
    assert np.abs(found - uploads.sum(axis=0)).max() <= grid.error(len(uploads)) * (1 + 1e-6)


def test_the_error_is_what_is_said_and_not_much_less():
    random = np.random.default_rng(1)
    uploads = random.uniform(-GRID.largest, GRID.largest, (5, 100_000))
    off = GRID.values(np.sum([GRID.integers(upload) for upload in uploads], axis=0, dtype=np.uint32)) - uploads.sum(0)
    assert 0.8 * GRID.error(5) < np.abs(off).max() <= GRID.error(5)
    # Uniform errors have √(1/3) of the bound of each, and add up by their squares.
    assert np.linalg.norm(off) == pytest.approx(GRID.error_norm(5, 100_000) / math.sqrt(3 * 5), rel=0.02)


def test_the_quantum_is_a_power_of_two_as_fine_as_fits():
    assert GRID.quantum == 2.0**-24
    assert math.frexp(GRID.quantum)[0] == 0.5
    assert GRID.quantum / 2 * GRID.most < GRID.largest <= GRID.quantum * GRID.most


@settings(deadline=None)
@given(grids, parts)
def test_a_shortened_update_is_on_the_grid_and_no_longer(grid, shares):
    update = shares.ravel() * grid.clip_norm
    shortened = grid.truncate(update)
    assert np.all(np.abs(shortened) <= np.abs(update))
    assert np.abs(shortened - update).max() < grid.quantum
    assert np.all(shortened == np.rint(shortened / grid.quantum) * grid.quantum)


def test_noise_on_a_shortened_update_is_rounded_without_looking_at_it():
    random = np.random.default_rng(2)
    noise = random.normal(0, GRID.noise_std, 10_000)
    update = random.normal(0, 0.01, noise.size)
    on_grid, alone = GRID.truncate(update), GRID.integers(noise)
    np.testing.assert_array_equal(GRID.integers(on_grid + noise) - GRID.integers(on_grid), alone)
    assert np.any(GRID.integers(update + noise) - GRID.integers(update) != alone)


@pytest.mark.parametrize("bad", [4.0, -7.5, 1e30, math.inf, -math.inf, math.nan])
def test_what_does_not_fit_is_refused_in_a_sentence(bad):
    grid = FixedPoint(parties=10, clip_norm=1.0, noise_std=0.1)
    upload = np.zeros(5)
    upload[3] = bad
    with pytest.raises(SecAggFailed, match=r"Weight 3 .*at most 2\b.*clip norm of 1\b"):
        grid.integers(upload)


def test_honest_uploads_are_never_refused_by_a_chance_that_matters():
    assert GRID.overflow_probability(600_500) == pytest.approx(20 * 600_500 * 1.523970604832e-23)
    assert FixedPoint(parties=3, clip_norm=1.0, noise_std=0.0).overflow_probability(10**6) == 0
    random = np.random.default_rng(3)
    upload = random.normal(0, GRID.noise_std, 600_500)
    upload[7] += GRID.clip_norm
    GRID.integers(upload)
    # An update that float32 has made a little longer than its bound fits too.
    FixedPoint(parties=2, clip_norm=0.1, noise_std=0.0).integers(np.array([np.float32(0.1) * (1 + 2e-7)]))


@pytest.mark.parametrize("wrong", [{"parties": 0}, {"clip_norm": 0.0}, {"noise_std": -1.0}, {"clip_norm": math.inf}])
def test_what_cannot_be_meant_is_refused(wrong):
    with pytest.raises(InvalidConfig, match=next(iter(wrong))):
        FixedPoint(**{"parties": 2, "clip_norm": 1.0, "noise_std": 1.0} | wrong)

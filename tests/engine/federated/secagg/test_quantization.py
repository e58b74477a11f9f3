"""Quantisation of uploads: no overflow, refusal of values out of range, and a bound on the rounding error."""

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
# Uploads of three clients; each of these grids supports at least three.
parts = arrays(np.float64, (3, 8), elements=st.floats(-1, 1))


@settings(deadline=None)
@given(grids, st.sampled_from([-1.0, 1.0]))
def test_the_largest_uploads_do_not_overflow(grid, sign):
    one = grid.integers(np.full(3, sign * grid.largest))
    total = np.zeros(3, dtype=np.uint32)
    for _ in range(grid.parties):
        total += one
    assert grid.values(total) == pytest.approx(np.full(3, sign * grid.parties * grid.largest), rel=1e-5)
    assert grid.parties * grid.most < 2**31


@settings(deadline=None)
@given(grids, parts)
def test_sum_is_exact_in_integers_and_within_the_rounding_error(grid, shares):
    uploads = shares * grid.largest
    total = np.zeros(8, dtype=np.uint32)
    by_hand = [0] * 8
    for upload in uploads:
        total += grid.integers(upload)
        by_hand = [one + round(value / grid.quantum) for one, value in zip(by_hand, upload.tolist(), strict=True)]
    values = grid.values(total)
    assert [int(value) for value in values / grid.quantum] == by_hand
    assert np.abs(values - uploads.sum(axis=0)).max() <= grid.error(len(uploads)) * (1 + 1e-6)


def test_rounding_error_bound_is_tight():
    random = np.random.default_rng(1)
    uploads = random.uniform(-GRID.largest, GRID.largest, (5, 100_000))
    error = GRID.values(np.sum([GRID.integers(upload) for upload in uploads], axis=0, dtype=np.uint32)) - uploads.sum(0)
    assert 0.8 * GRID.error(5) < np.abs(error).max() <= GRID.error(5)
    # The standard deviation of a uniform error is √(1/3) of its bound, and variances add.
    assert np.linalg.norm(error) == pytest.approx(GRID.error_norm(5, 100_000) / math.sqrt(3 * 5), rel=0.02)


def test_quantum_is_the_smallest_power_of_two_that_fits():
    assert GRID.quantum == 2.0**-24
    assert math.frexp(GRID.quantum)[0] == 0.5
    assert GRID.quantum / 2 * GRID.most < GRID.largest <= GRID.quantum * GRID.most


@settings(deadline=None)
@given(grids, parts)
def test_truncate_rounds_towards_zero_to_the_grid(grid, shares):
    update = shares.ravel() * grid.clip_norm
    truncated = grid.truncate(update)
    assert np.all(np.abs(truncated) <= np.abs(update))
    assert np.abs(truncated - update).max() < grid.quantum
    assert np.all(truncated == np.rint(truncated / grid.quantum) * grid.quantum)


def test_rounding_of_noise_does_not_depend_on_a_truncated_update():
    random = np.random.default_rng(2)
    noise = random.normal(0, GRID.noise_std, 10_000)
    update = random.normal(0, 0.01, noise.size)
    on_grid, alone = GRID.truncate(update), GRID.integers(noise)
    np.testing.assert_array_equal(GRID.integers(on_grid + noise) - GRID.integers(on_grid), alone)
    assert np.any(GRID.integers(update + noise) - GRID.integers(update) != alone)


@pytest.mark.parametrize("bad", [4.0, -7.5, 1e30, math.inf, -math.inf, math.nan])
def test_uploads_out_of_range_are_refused(bad):
    grid = FixedPoint(parties=10, clip_norm=1.0, noise_std=0.1)
    upload = np.zeros(5)
    upload[3] = bad
    with pytest.raises(SecAggFailed, match=r"Weight 3 .*at most 2\b.*clip norm of 1\b"):
        grid.integers(upload)


def test_overflow_probability_of_correct_uploads_is_negligible():
    assert GRID.overflow_probability(600_500) == pytest.approx(20 * 600_500 * 1.523970604832e-23)
    assert FixedPoint(parties=3, clip_norm=1.0, noise_std=0.0).overflow_probability(10**6) == 0
    random = np.random.default_rng(3)
    upload = random.normal(0, GRID.noise_std, 600_500)
    upload[7] += GRID.clip_norm
    GRID.integers(upload)
    # An update that float32 rounding makes slightly longer than the clip norm fits too.
    FixedPoint(parties=2, clip_norm=0.1, noise_std=0.0).integers(np.array([np.float32(0.1) * (1 + 2e-7)]))


@pytest.mark.parametrize("change", [{"parties": 0}, {"clip_norm": 0.0}, {"noise_std": -1.0}, {"clip_norm": math.inf}])
def test_invalid_parameters_are_refused(change):
    with pytest.raises(InvalidConfig, match=next(iter(change))):
        FixedPoint(**{"parties": 2, "clip_norm": 1.0, "noise_std": 1.0} | change)

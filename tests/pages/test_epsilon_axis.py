"""The shared ε axis and the ticks of logarithmic axes."""

import math

import pytest

from pages.shared.charts import log_ticks
from pages.shared.epsilon_axis import SHARE_OF_NO_PRIVACY, EpsilonAxis


def test_infinity_has_a_fifth_of_the_axis_beyond_finite_values():
    axis = EpsilonAxis([0.3, 40.0, math.inf])
    assert (axis.end - axis.high) / (axis.end - axis.low) == pytest.approx(SHARE_OF_NO_PRIVACY)
    assert axis.low <= math.log10(0.1)
    assert axis.position(40.0) == pytest.approx(math.log10(40))
    assert axis.position(40.0) < axis.high
    assert axis.high < axis.position(math.inf) < axis.end


def test_progress_moves_through_the_range_of_infinity():
    axis = EpsilonAxis([])
    positions = [axis.position(math.inf, share) for share in (0.0, 0.5, 1.0)]
    assert positions == sorted(positions)
    assert axis.high < positions[0]
    assert positions[-1] < axis.end
    assert positions[1] == pytest.approx(axis.position(math.inf))


def test_axis_range_is_the_same_for_usual_data():
    ends = {(axis.low, axis.high, axis.end) for axis in map(EpsilonAxis, ([], [1.5], [0.02, 9.0, math.inf], [55.0]))}
    assert len(ends) == 1
    assert EpsilonAxis([0.002]).high == EpsilonAxis([]).high
    assert EpsilonAxis([0.002]).low < EpsilonAxis([]).low


def test_epsilon_zero_is_at_the_low_end():
    axis = EpsilonAxis([0.0, 1.0])
    assert axis.position(0.0) == axis.low


def test_ticks_are_decades_then_infinity():
    positions, labels = EpsilonAxis([0.01, 20.0]).ticks()
    assert labels == ["0.01", "0.1", "1", "10", "100", "∞"]
    assert positions[:-1] == pytest.approx([-2, -1, 0, 1, 2])
    assert positions == sorted(positions)


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (0.1, 10, [0.1, 0.2, 0.5, 1, 2, 5, 10]),
        (0.1, 100, [0.1, 0.3, 1, 3, 10, 30, 100]),
        (0.03, 300, [0.1, 1, 10, 100]),
    ],
)
def test_longer_axes_have_fewer_ticks_per_decade(low, high, ticks):
    assert log_ticks(low, high) == pytest.approx(ticks)

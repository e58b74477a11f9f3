"""The canary game is a small audit: coin flips choose the canaries, and less noise leaks more."""

import math

import numpy as np
import pytest

from engine.lessons import find_the_canary
from engine.lessons.find_the_canary import NUMBER, Game


def correct_guesses(game: Game) -> int:
    """Return the number of correct guesses when each gain above the median is taken for a member."""
    gains = np.array([canary.after - canary.before for canary in game.canaries])
    members = np.array([canary.trained_on for canary in game.canaries])
    return int(((gains > np.median(gains)) == members).sum())


@pytest.fixture(scope="module")
def rounds() -> range:
    return range(2)


@pytest.mark.repeats(area="pages")
def test_canaries_leak_without_noise_and_less_with_noise(trained_settings, rounds):
    free, private = (
        [find_the_canary.deal(trained_settings, target, number) for number in rounds] for target in (math.inf, 1.0)
    )
    assert all(math.isinf(game.epsilon) and game.right_at_most == 1 for game in free)
    assert all(game.epsilon <= 1.001 for game in private)
    assert private[0].right_at_most == pytest.approx(math.e / (1 + math.e), abs=0.01)
    gaps = []
    for games in (free, private):
        every = [(canary.after - canary.before, canary.trained_on) for game in games for canary in game.canaries]
        gaps.append(
            np.mean([gain for gain, there in every if there]) - np.mean([gain for gain, there in every if not there])
        )
    assert gaps[0] > 0.15
    assert gaps[1] < gaps[0] / 2
    assert sum(map(correct_guesses, free)) >= 0.7 * NUMBER * len(rounds)


@pytest.mark.repeats(area="dashboard")
def test_deal_is_reproducible_per_round(trained_settings):
    find_the_canary.deal.cache_clear()
    one, other = (find_the_canary.deal(trained_settings, math.inf, number) for number in (0, 1))
    find_the_canary.deal.cache_clear()
    assert find_the_canary.deal(trained_settings, math.inf, 0) == one != other
    for canary in one.canaries:
        assert len(canary.words) == len(canary.names)
        assert sum(canary.names) == 2
        assert 0 <= canary.after <= 1

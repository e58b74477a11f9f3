"""What a record says of several noise checks."""

from engine.simulation.recorder import worst
from tests.engine.factories import check


def test_a_check_that_failed_is_told_before_one_that_could_not_measure():
    good, hidden, bad = check(), check(noise_std=None), check("It cheats.")
    assert worst([good, hidden, bad, check("Another.")]) is bad
    assert worst([good, hidden]) is hidden
    assert worst([None, good, check()]) is good
    assert worst([None]) is None

"""The noise check of a record with several checks."""

from engine.simulation.recorder import worst
from tests.engine.factories import check


def test_worst_prefers_failed_over_unmeasured_checks():
    good, hidden, bad = check(), check(noise_std=None), check("It cheats.")
    assert worst([good, hidden, bad, check("Another.")]) is bad
    assert worst([good, hidden]) is hidden
    assert worst([None, good, check()]) is good
    assert worst([None]) is None

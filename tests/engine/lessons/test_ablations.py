"""One thing left out of DP-SGD: what the noise check says of each, and the figure that it rests on."""

import math

import pytest

from engine.lessons import ablations, dpsgd_step
from engine.lessons.ablations import FAULTS, HONEST

FOUND = {
    "noise": (1, "0.0 % of the planned"),
    "half": (1, "% of the planned standard deviation over all steps"),
    "mean": (1, "3.2 % of the planned"),
    "little": (8, "97"),
    "layer": (64, "“linear” has 0.0 %"),
    "fresh": (2, "Step 2 added the noise of step 1 again"),
    "clip": (1, "longer than the clip norm 1.5"),
    "each": (1, "clip norms apart"),
    "chance": (16, "as independent draws"),
}
"""After how many steps, and in which words."""


@pytest.mark.parametrize("name", FOUND)
def test_what_is_left_out_is_found(name, bench):
    watched = ablations.run_with_noise_check(bench, name)
    steps, words = FOUND[name]
    assert watched.found == steps
    assert words in watched.says
    assert not watched.fault.unseen
    figure = watched.fault.figure
    when = next(check for check in watched.checks if check.failed)
    if figure.tolerance and name != "fresh":  # fresh: noise that comes again is as strong as it should be
        assert abs(figure.read(when) - figure.planned) > figure.tolerance(when)
    elif name != "fresh":
        assert abs(figure.read(when) - figure.planned) > 0.05


@pytest.mark.parametrize("name", sorted(set(FAULTS) - set(FOUND)))
def test_what_cannot_be_found_is_said(name, bench):
    watched = ablations.run_with_noise_check(bench, name)
    assert watched.found is None
    assert watched.says == ""
    assert watched.checks[-1].passed
    assert watched.checks[-1].steps == ablations.MOMENTS[-1]
    assert bool(watched.fault.unseen) is (watched.fault is not HONEST)
    figure = watched.fault.figure
    if figure.tolerance:
        assert all(abs(figure.read(each) - figure.planned) <= figure.tolerance(each) for each in watched.checks)


def test_a_layer_that_was_not_measured_yet_has_no_figure(bench):
    first = ablations.run_with_noise_check(bench, "layer").checks[0]
    assert math.isnan(FAULTS["layer"].figure.read(first))


def test_faults_are_nobody_elses(bench):
    """What another run draws, and what another run clips, is as it was."""
    before = dpsgd_step.step.__wrapped__(bench, dpsgd_step.Setting(batch_size=16))
    for name in ("noise", "clip"):
        ablations._run(bench, FAULTS[name]).step(0)
    for made in (dpsgd_step._sum, dpsgd_step._noise):
        made.cache_clear()
    after = dpsgd_step.step.__wrapped__(bench, dpsgd_step.Setting(batch_size=16))
    assert (after.signal, after.noise, after.along) == (before.signal, before.noise, before.along)

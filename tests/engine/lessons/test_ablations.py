"""Ablations of DP-SGD: the finding of the noise check on each, and the figure behind it."""

import math

import pytest

from engine.lessons import ablations, dpsgd_step
from engine.lessons.ablations import FAULTS, HONEST

DETECTED = {
    "noise": (1, "0.0 % of the planned"),
    "half": (1, "% of the planned standard deviation over all steps"),
    "mean": (1, "3.2 % of the planned"),
    "little": (1, "draw of its key"),
    "layer": (4, "draw of its key"),
    "fresh": (2, "At step 2 "),
    "tails": (32, "draw of its key"),
    "clip": (1, "longer than the clip norm 1.5"),
    "each": (1, "clip norms apart"),
    "chance": (1, "draw of its key"),
}
"""The step at which the noise check fails, and a part of its message."""


@pytest.mark.parametrize("name", DETECTED)
def test_noise_check_detects_ablation(name, lesson_model):
    watched = ablations.run_with_noise_check(lesson_model, name)
    steps, words = DETECTED[name]
    assert watched.found == steps
    assert words in watched.says
    assert not watched.fault.unseen
    # Repeated noise has the planned strength, and few draws are truncated.
    assert watched.fault.figure.deviates(watched.checks[-1]) == (name not in ("fresh", "tails"))


@pytest.mark.parametrize("name", sorted(set(FAULTS) - set(DETECTED)))
def test_undetectable_ablation_passes_and_is_marked_unseen(name, lesson_model):
    watched = ablations.run_with_noise_check(lesson_model, name)
    assert watched.found is None
    assert watched.says == ""
    assert watched.checks[-1].passed
    assert watched.checks[-1].steps == ablations.MOMENTS[-1]
    assert bool(watched.fault.unseen) is (watched.fault is not HONEST)
    figure = watched.fault.figure
    if figure.tolerance:
        assert all(abs(figure.read(each) - figure.planned) <= figure.tolerance(each) for each in watched.checks)


def test_figure_of_unmeasured_layer_is_nan(lesson_model):
    first = ablations.run_with_noise_check(lesson_model, "layer").checks[0]
    assert math.isnan(FAULTS["layer"].figure.read(first))


def test_ablations_do_not_affect_other_runs(lesson_model):
    """Another run draws and clips as before."""
    before = dpsgd_step.step.__wrapped__(lesson_model, dpsgd_step.Setting(batch_size=16))
    for name in ("noise", "clip"):
        ablations._run(lesson_model, FAULTS[name]).step(0)
    for made in (dpsgd_step._sum, dpsgd_step._noise):
        made.cache_clear()
    after = dpsgd_step.step.__wrapped__(lesson_model, dpsgd_step.Setting(batch_size=16))
    assert (after.signal, after.noise, after.along) == (before.signal, before.noise, before.along)

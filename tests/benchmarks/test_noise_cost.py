"""Cost of the noise check, relative to runs of the same steps without the check."""

from collections.abc import Iterator

import numpy as np
import pytest

from benchmarks import noise_cost
from engine.config import PrivacyConfig, SimulationConfig, TaggerConfig, TrainingConfig
from engine.records import RoundRecord
from engine.settings import Settings
from engine.simulation import run, setup

SMALL = SimulationConfig(
    tagger=TaggerConfig(name="linear-crf"),
    training=TrainingConfig(epochs=1.0, batch_size=64),
    privacy=PrivacyConfig(noise_multiplier=1.0),
)


def last(records: Iterator[RoundRecord]) -> RoundRecord:
    *_, record = records
    return record


@pytest.mark.repeats
def test_run_without_noise_check_has_the_same_steps_and_no_result():
    settings = Settings.from_environment()
    checked = last(run.simulate(SMALL, settings))
    with noise_cost.blind():
        blind = last(run.simulate(SMALL, settings))
    assert checked.noise_check is not None
    assert not checked.noise_check.failed
    assert blind.noise_check is None
    assert (blind.loss, blind.scores) == (checked.loss, checked.scores)
    checked_again = last(run.simulate(SMALL, settings))
    assert checked_again.noise_check == checked.noise_check


@pytest.mark.repeats
def test_shares_refer_to_timed_steps_and_to_the_whole_run():
    settings = Settings.from_environment()
    setup.warm_up(settings)
    clock = iter(np.arange(0.0, 1e5, 0.5)).__next__
    parts = noise_cost.by_parts(SMALL, settings, 4, clock)
    assert parts["times"]["verdict"] > 0
    assert 4 <= parts["timed_steps"] <= parts["steps"]
    assert parts["share"] == pytest.approx(sum(parts["shares"].values()), abs=1e-4)
    assert 0 < noise_cost.training_share(SMALL, settings, clock) < 1

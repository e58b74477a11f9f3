"""Four trust models: errors compared with variances enumerated by person, and with simulated surveys."""

import math

import numpy as np
import pytest

from engine.errors import InvalidConfig
from engine.lessons.noise_mechanisms import fitting
from engine.lessons.trust_models import WAYS, Survey, estimates, truthful

BY_NAME = {way.name: way for way in WAYS}


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
@pytest.mark.parametrize("share", [0.0, 0.1, 0.9])
def test_estimates_are_unbiased_with_stated_error(way, share):
    survey = Survey(people=250, share=share, epsilon=0.8, colluding=0.2)
    found, error = estimates(survey, way, 20_000), way.error(survey)
    assert found.mean() == pytest.approx(survey.truth, abs=4 * error / math.sqrt(20_000))
    assert found.std() == pytest.approx(error, rel=0.03)
    np.testing.assert_array_equal(found, estimates(survey, way, 20_000))


def test_randomised_response_error_equals_enumeration():
    """Enumerate every outcome of a few people who each answer yes or no."""
    survey = Survey(people=6, share=1 / 3, epsilon=1.1)
    truth = truthful(1.1)
    assert truth / (1 - truth) == pytest.approx(math.exp(1.1))  # the likelihood ratio of either answer is e^ε
    chances = np.array([truth] * survey.yes + [1 - truth] * 4)
    mean = square = 0.0
    for outcome in range(2**6):
        said = np.array([outcome >> person & 1 for person in range(6)])
        chance = np.prod(np.where(said, chances, 1 - chances))
        estimate = (said.mean() - (1 - truth)) / (2 * truth - 1)
        mean, square = mean + chance * estimate, square + chance * estimate**2
    assert mean == pytest.approx(survey.truth)
    assert BY_NAME["response"].error(survey) == pytest.approx(math.sqrt(square - mean**2))


def test_error_of_noisy_sums():
    survey = Survey(people=400, share=0.5, epsilon=2.0)
    assert BY_NAME["curator"].error(survey) == pytest.approx(math.sqrt(2) / 2 / 400)
    assert BY_NAME["local"].error(survey) == pytest.approx(math.sqrt(400) * math.sqrt(2) / 2 / 400)
    planned = fitting("gaussian", 2.0, survey.delta).scale
    assert BY_NAME["secure"].error(survey) == pytest.approx(planned / 400)


def test_noise_of_honest_clients_meets_the_plan():
    survey = Survey(people=100, share=0.5, epsilon=1.0, colluding=0.36)
    of_one = BY_NAME["secure"].error(survey) * survey.people / math.sqrt(survey.people)
    assert of_one * math.sqrt(64) == pytest.approx(fitting("gaussian", 1.0, survey.delta).scale)


def test_curator_error_falls_faster_with_size_than_local_error():
    few, many = Survey(people=100, share=0.5, epsilon=1.0), Survey(people=10_000, share=0.5, epsilon=1.0)
    assert BY_NAME["curator"].error(few) / BY_NAME["curator"].error(many) == pytest.approx(100)
    assert BY_NAME["response"].error(few) / BY_NAME["response"].error(many) == pytest.approx(10)


def test_survey_rejects_out_of_range_values():
    for wrong in ({"people": 1}, {"share": 1.5}, {"epsilon": 0.0}, {"colluding": 1.0}):
        with pytest.raises(InvalidConfig, match=next(iter(wrong))):
            Survey(**({"people": 10, "share": 0.5, "epsilon": 1.0} | wrong))

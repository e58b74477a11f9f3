"""Four ways to ask: errors against variances worked out person by person, and against simulated surveys."""

import math

import numpy as np
import pytest

from engine.errors import InvalidConfig
from engine.lessons.noise_mechanisms import fitting
from engine.lessons.trust_models import WAYS, Survey, estimates, truthful

BY_NAME = {way.name: way for way in WAYS}


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
@pytest.mark.parametrize("share", [0.0, 0.1, 0.9])
def test_surveys_are_right_on_average_and_off_by_the_error(way, share):
    survey = Survey(people=250, share=share, epsilon=0.8, colluding=0.2)
    found, error = estimates(survey, way, 20_000), way.error(survey)
    assert found.mean() == pytest.approx(survey.truth, abs=4 * error / math.sqrt(20_000))
    assert found.std() == pytest.approx(error, rel=0.03)
    np.testing.assert_array_equal(found, estimates(survey, way, 20_000))


def test_randomised_response_person_by_person():
    """Each of few people says yes or no with its probability: every outcome is counted."""
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


def test_errors_of_the_sums():
    survey = Survey(people=400, share=0.5, epsilon=2.0)
    assert BY_NAME["curator"].error(survey) == pytest.approx(math.sqrt(2) / 2 / 400)
    assert BY_NAME["local"].error(survey) == pytest.approx(math.sqrt(400) * math.sqrt(2) / 2 / 400)
    planned = fitting("gaussian", 2.0, survey.delta).scale
    assert BY_NAME["secure"].error(survey) == pytest.approx(planned / 400)


def test_the_noise_of_those_who_do_not_collude_is_what_was_planned():
    survey = Survey(people=100, share=0.5, epsilon=1.0, colluding=0.36)
    of_one = BY_NAME["secure"].error(survey) * survey.people / math.sqrt(survey.people)
    assert of_one * math.sqrt(64) == pytest.approx(fitting("gaussian", 1.0, survey.delta).scale)


def test_more_people_help_a_curator_more_than_those_who_trust_nobody():
    few, many = Survey(people=100, share=0.5, epsilon=1.0), Survey(people=10_000, share=0.5, epsilon=1.0)
    assert BY_NAME["curator"].error(few) / BY_NAME["curator"].error(many) == pytest.approx(100)
    assert BY_NAME["response"].error(few) / BY_NAME["response"].error(many) == pytest.approx(10)


def test_a_survey_that_cannot_be_is_refused():
    for wrong in ({"people": 1}, {"share": 1.5}, {"epsilon": 0.0}, {"colluding": 1.0}):
        with pytest.raises(InvalidConfig, match=next(iter(wrong))):
            Survey(**({"people": 10, "share": 0.5, "epsilon": 1.0} | wrong))

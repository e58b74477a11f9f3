"""Fixtures shared by the tests of lessons on training."""

import pytest

from engine.lessons import fixtures as lesson_models


@pytest.fixture(scope="session")
def lesson_model(lesson_settings) -> lesson_models.LessonModel:
    return lesson_models.load(lesson_settings)

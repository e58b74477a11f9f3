"""What tests of lessons on training share."""

import pytest

from engine.lessons import fixtures as benches


@pytest.fixture(scope="session")
def bench(lesson_settings) -> benches.LessonModel:
    return benches.load(lesson_settings)

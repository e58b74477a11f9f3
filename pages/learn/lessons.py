"""The lessons, in the order in which they are given.

To try one before it stands here: put its ``LESSON`` into the tuple, start the dashboard and open
``/learn?lesson=NAME``. Its controls take ``bind="query-params"`` and a key that begins with ``l``, the lesson's number
and ``_``: then the link restores them. Nothing of a lesson is called before somebody has guessed, or has chosen to see
it without a guess (``&guess=none``); from then on ``show`` is called each time a control is moved.
"""

from pages.learn import (
    lesson_1_linkage,
    lesson_2_posterior,
    lesson_3_noise,
    lesson_4_trust,
    lesson_5_gradient_leakage,
    lesson_6_step,
    lesson_7_utility,
)
from pages.learn.lesson import Lesson

LESSONS: tuple[Lesson, ...] = (
    lesson_1_linkage.LESSON,
    lesson_2_posterior.LESSON,
    lesson_3_noise.LESSON,
    lesson_4_trust.LESSON,
    lesson_5_gradient_leakage.LESSON,
    lesson_6_step.LESSON,
    lesson_7_utility.LESSON,
)

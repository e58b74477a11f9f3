"""The lessons in teaching order.

To try a new lesson, add its ``LESSON`` to the tuple, start the dashboard and open ``/learn?lesson=NAME``. Its controls
take ``bind="query-params"`` and a key that begins with ``l``, the lesson's number and ``_``, so that the link restores
them.
``show`` is called only after the user has submitted or skipped the guess (``&guess=none``). From then on it is called
at every change of a control.
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

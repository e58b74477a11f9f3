"""Assumptions of an ε: how the ε of one training depends on what is assumed about it.

A training is n sentences, batches, steps and σ. Its ε depends on the accountant, the sampling of batches, the protected
unit, the adjacency, and other trainings on the same sentences. Each of these is an *assumption* with a few choices.
Some choices hold for a run; others are common in reported values but do not hold. The engine's accountants recompute ε
for any choice. Where no sound value is known, there is none.
"""

from engine.privacy.assumptions.evaluation import epsilon
from engine.privacy.assumptions.labels import ACCOUNTANTS, NEIGHBOURS, SAMPLINGS, TITLES, why
from engine.privacy.assumptions.lower_bounds import at_least, has_incomplete_epoch
from engine.privacy.assumptions.scenario import FIELDS, Choices, Part, Training
from engine.privacy.assumptions.table import (
    AS_PRINTED,
    Row,
    Step,
    adjacency_text,
    alternatives,
    choice_text,
    neighbours,
    printed_row,
    rows,
    samplings,
    waterfall,
)

__all__ = [
    "ACCOUNTANTS",
    "AS_PRINTED",
    "FIELDS",
    "NEIGHBOURS",
    "SAMPLINGS",
    "TITLES",
    "Choices",
    "Part",
    "Row",
    "Step",
    "Training",
    "adjacency_text",
    "alternatives",
    "at_least",
    "choice_text",
    "epsilon",
    "has_incomplete_epoch",
    "neighbours",
    "printed_row",
    "rows",
    "samplings",
    "waterfall",
    "why",
]

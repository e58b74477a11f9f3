"""ε as a ledger of assumptions: what the same training costs if one thing is taken for granted, or another.

A training is n sentences, batches, steps, σ. Which ε stands beside it follows from how it is accounted, how batches
are thought to be drawn, who is protected and from what, and what else was done with the same sentences. Each of these
is an *assumption* with a few choices; some hold for a run, others are what is often printed all the same. ε is worked
out anew for any choice, by the engine's accountants alone; where no sound number is known, there is none.
"""

from engine.privacy.assumptions.evaluation import epsilon
from engine.privacy.assumptions.labels import ACCOUNTANTS, NEIGHBOURS, SAMPLINGS, TITLES, why
from engine.privacy.assumptions.lower_bounds import at_least
from engine.privacy.assumptions.scenario import FIELDS, Choices, Part, Training
from engine.privacy.assumptions.table import (
    AS_PRINTED,
    Row,
    Step,
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
    "alternatives",
    "at_least",
    "choice_text",
    "epsilon",
    "neighbours",
    "printed_row",
    "rows",
    "samplings",
    "waterfall",
    "why",
]

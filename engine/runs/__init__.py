"""The one door to runs, for pages and the command line."""

from engine.runs.catalogue import Overview
from engine.runs.door import LONGEST_NOTE, Runs
from engine.runs.estimates import Estimate
from engine.runs.intake import Intake
from engine.runs.previews import Holdings, Preview
from engine.runs.tagging import MOST_CHARACTERS, Answer, Offer

__all__ = [
    "LONGEST_NOTE",
    "MOST_CHARACTERS",
    "Answer",
    "Estimate",
    "Holdings",
    "Intake",
    "Offer",
    "Overview",
    "Preview",
    "Runs",
]

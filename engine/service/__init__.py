"""The one door to runs, for pages and the command line."""

from engine.service.corpus_import import Intake
from engine.service.run_preview import Holdings, Preview
from engine.service.run_queries import Overview
from engine.service.run_service import LONGEST_NOTE, Runs
from engine.service.runtime_estimates import Estimate
from engine.service.tagging_client import MOST_CHARACTERS, Answer, Offer

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

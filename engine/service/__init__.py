"""The application service: the only entry point of pages and command line to runs, corpora and budgets."""

from engine.service.application import Application
from engine.service.corpus_import import ImportSummary
from engine.service.run_preview import Holdings, Preview
from engine.service.run_queries import Overview
from engine.service.run_service import LONGEST_NOTE
from engine.service.runtime_estimates import Estimate
from engine.service.tagging_client import MOST_CHARACTERS, AvailableModel, TaggingResult

__all__ = [
    "LONGEST_NOTE",
    "MOST_CHARACTERS",
    "Application",
    "AvailableModel",
    "Estimate",
    "Holdings",
    "ImportSummary",
    "Overview",
    "Preview",
    "TaggingResult",
]

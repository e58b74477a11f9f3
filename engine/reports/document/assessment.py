"""The record of an assessment: fields that the reader fills in before the document is filed."""

from engine.reports.document.model import Facts, Section

FIELDS = (
    "Controller",
    "Processor",
    "Purpose of the processing",
    "Assessor",
    "Decision",
    "Date",
    "Signature",
    "Review date",
)


def record() -> Section:
    """Return the section with empty fields."""
    return Section("Record of the assessment", (Facts("To fill in", tuple((name, "") for name in FIELDS)),))

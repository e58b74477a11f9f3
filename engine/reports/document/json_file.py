"""A document as JSON (``docs/report.schema.json``), with a checksum of all other fields."""

import json

from engine.reports.document.model import Document, checksum


def render(document: Document) -> str:
    """Return the JSON file; its ``sha256`` is that of the canonical JSON of all other fields."""
    fields = document.to_dict()
    return json.dumps(fields | {"sha256": checksum(fields)}, indent=1, ensure_ascii=False) + "\n"

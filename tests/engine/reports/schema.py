"""Validation of a report's JSON file against its published schema."""

import json
from collections.abc import Iterator
from typing import Any

from engine.reports.document import json_file
from engine.settings import REPOSITORY


def violations(document: Any) -> Iterator[Any]:
    """Yield the violations of the schema by a document's JSON file."""
    import jsonschema  # takes 2.5 s: it parses a grammar of URLs

    schema = json.loads((REPOSITORY / "docs" / "report.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    yield from jsonschema.Draft202012Validator(schema).iter_errors(json.loads(json_file.render(document)))

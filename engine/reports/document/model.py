"""What a document is made of: sections of paragraphs, lists, tables and facts. Values only, and plain text only.

No text in here is markup, whatever signs it has: whoever draws a document escapes it.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

FORMAT = "epsilon-explorer-report"
VERSION = 1
"""Of the fields below, as ``docs/report.schema.json`` describes them."""


@dataclass(frozen=True)
class Paragraph:
    """Sentences. warning: whether they must not be overlooked."""

    text: str
    warning: bool = False


@dataclass(frozen=True)
class Points:
    """A list, in no order that matters."""

    items: tuple[str, ...]


@dataclass(frozen=True)
class Facts:
    """Names and what they are, a line each. title: what they are facts of. framed: to be seen first."""

    title: str
    rows: tuple[tuple[str, str], ...]
    framed: bool = False


@dataclass(frozen=True)
class Table:
    """title: said above it. columns: headings; the first column names the row. rows: as many cells each."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Code:
    """Lines to be taken as they are, such as a command. title: what they are."""

    title: str
    text: str


Block = Paragraph | Points | Facts | Table | Code
KINDS: dict[type, str] = {Paragraph: "paragraph", Points: "points", Facts: "facts", Table: "table", Code: "code"}
"""Names of blocks in JSON."""


@dataclass(frozen=True)
class Section:
    """A heading and what stands under it."""

    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True, kw_only=True)
class Document:
    """The whole. alarm: what stands in red at the head of each page; empty where nothing is wrong. first: of the
    sections, how many stand on the first page by themselves. figures: numbers of the text for programs, plain values.
    written: when, ISO 8601, UTC. program: what wrote it, with its version."""

    title: str
    subtitle: str
    sections: tuple[Section, ...]
    written: str
    program: str
    alarm: str = ""
    first: int = 1
    language: str = "en"
    figures: Mapping[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON, without the checksum."""
        return {
            "format": FORMAT,
            "version": VERSION,
            "title": self.title,
            "subtitle": self.subtitle,
            "language": self.language,
            "written": self.written,
            "program": self.program,
            "alarm": self.alarm,
            "sections": [
                {
                    "title": section.title,
                    "blocks": [{"kind": KINDS[type(block)], **_listed(asdict(block))} for block in section.blocks],
                }
                for section in self.sections
            ],
            "figures": dict(self.figures),
        }

    @property
    def checksum(self) -> str:
        """SHA-256 of the canonical JSON of :meth:`to_dict`: equal for equal documents, whatever they are drawn as."""
        return checksum(self.to_dict())


def checksum(fields: Mapping[str, Any]) -> str:
    """SHA-256 of plain values as canonical JSON: keys in order, no spaces, UTF-8."""
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()


def _listed(value: Any) -> Any:
    """The same with lists in the place of tuples, as JSON gives them back."""
    if isinstance(value, dict):
        return {name: _listed(each) for name, each in value.items()}
    return [_listed(each) for each in value] if isinstance(value, tuple) else value

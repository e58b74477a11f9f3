"""The document model: sections of paragraphs, lists, tables and facts, with plain text only.

No text is markup, whatever characters it contains; each renderer escapes it.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

FORMAT = "epsilon-explorer-report"
VERSION = 1
"""Version of the fields, as ``docs/report.schema.json`` describes them."""


@dataclass(frozen=True)
class Paragraph:
    """Sentences; ``warning`` marks those that the reader must not overlook."""

    text: str
    warning: bool = False


@dataclass(frozen=True)
class Points:
    """An unordered list."""

    items: tuple[str, ...]


@dataclass(frozen=True)
class Facts:
    """A list of names and values.

    Attributes:
        title: the subject.
        rows: name and value of each line.
        framed: whether it is emphasised by a frame.
    """

    title: str
    rows: tuple[tuple[str, str], ...]
    framed: bool = False


@dataclass(frozen=True)
class Table:
    """A table.

    Attributes:
        title: the caption.
        columns: headings; the first column names the row.
        rows: rows with one cell per column.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Code:
    """Verbatim lines, such as a command, with a title."""

    title: str
    text: str


Block = Paragraph | Points | Facts | Table | Code
KINDS: dict[type, str] = {Paragraph: "paragraph", Points: "points", Facts: "facts", Table: "table", Code: "code"}
"""Names of blocks in JSON."""


@dataclass(frozen=True)
class Section:
    """A heading with its blocks."""

    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True, kw_only=True)
class Document:
    """A document.

    Attributes:
        title: the title.
        subtitle: the subtitle.
        sections: the sections.
        written: time of writing, ISO 8601, UTC.
        program: name and version of the program that wrote it.
        alarm: red warning at the head of each page; empty without one.
        first: number of sections on the first page, before a page break.
        language: language code, ISO 639-1.
        figures: the numbers of the text for programs, as plain values.
    """

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
        """Return plain values for JSON, without the checksum."""
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
        """SHA-256 of the canonical JSON of :meth:`to_dict`; it is equal in all file formats."""
        return checksum(self.to_dict())


def checksum(fields: Mapping[str, Any]) -> str:
    """Return the SHA-256 of plain values as canonical JSON: sorted keys, no spaces, UTF-8."""
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()


def _listed(value: Any) -> Any:
    """Return the value with lists instead of tuples, as after a JSON round trip."""
    if isinstance(value, dict):
        return {name: _listed(item) for name, item in value.items()}
    return [_listed(item) for item in value] if isinstance(value, tuple) else value

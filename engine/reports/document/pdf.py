"""A document as PDF/UA-1 (ISO 14289-1): tagged for screen readers, with language and title, byte-identical each time.

Typst renders it with its embedded fonts and ignores system fonts. ``report.typ`` receives the text as data.
"""

import json
import re
import unicodedata
from datetime import datetime
from pathlib import Path
from typing import Any

from engine.reports.document.model import Document

_TEMPLATE = Path(__file__).with_name("report.typ")
_SUPPORTED = re.compile(
    "[\n\x20-\x7e\xa0-\u024f\u0370-\u03ff\u0400-\u04ff\u1e00-\u1eff\u2010-\u2027\u2030-\u2040\u20a0-\u20bf"
    "\u2190-\u2193\u2200-\u22ff]"
)
"""Characters that Typst's embedded fonts contain; PDF/UA allows no others."""
_JOINER = "\u2060"
"""Word joiner: it prevents a line break and has no glyph."""
_NO_GLYPHS = ("Cn", "Cf")
"""Unicode categories without glyphs: unassigned and format characters."""


def render(document: Document) -> bytes:
    """Return the PDF file.

    A character that the fonts lack appears as its code point, [U+8A9E]. Typst is imported on first use.
    """
    import typst

    compiler = typst.Compiler(
        _TEMPLATE.read_bytes(),
        ignore_system_fonts=True,
        sys_inputs={
            "document": json.dumps(_with_code_points(document.to_dict()), ensure_ascii=False),
            "first": str(document.first),
            "sha256": document.checksum,
        },
    )
    output = compiler.compile(format="pdf", pdf_standards=["ua-1"], timestamp=datetime.fromisoformat(document.written))
    if not isinstance(output, bytes):
        raise TypeError(f"typst returned {type(output).__name__}, expected bytes")
    return output


def _with_code_points(value: Any) -> Any:
    """Return the values with each character that the fonts lack replaced by its code point."""
    if isinstance(value, str):
        letters = value.replace(_JOINER, "")
        return "".join(letter if _is_supported(letter) else f"[U+{ord(letter):04X}]" for letter in letters)
    if isinstance(value, dict):
        return {name: _with_code_points(item) for name, item in value.items()}
    return [_with_code_points(item) for item in value] if isinstance(value, list) else value


def _is_supported(letter: str) -> bool:
    return bool(_SUPPORTED.match(letter)) and unicodedata.category(letter) not in _NO_GLYPHS

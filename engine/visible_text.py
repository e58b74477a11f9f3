"""Text from outside with its invisible controls made visible.

Escape sequences command a terminal, and direction marks (Unicode Bidirectional Algorithm, UAX 9) change the order of
the text around them. Letters that are written from right to left stay.
"""

import re

_DIRECTIONS = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
"""Marks, embeddings, overrides and isolates (UAX 9, section 2)."""
_CONTROLS = re.compile(f"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff\ud800-\udfff{_DIRECTIONS}]")
"""Controls except tab and line feed, other line ends, the byte order mark, and halves of surrogate pairs."""


def visible(text: str) -> str:
    """Return the text with the code point of each control in its place: [U+202E]."""
    return _CONTROLS.sub(lambda found: f"[U+{ord(found[0]):04X}]", text)


def visible_json(text: str) -> str:
    r"""Return JSON of the same value in which controls are escaped, as in \u202e."""
    return _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)

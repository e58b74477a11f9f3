"""What there is to read on a page, for tests that count it."""

import re
from collections.abc import Iterable, Iterator
from typing import Any

_FOLDED = ("expander", "expandable", "status", "popover")
_TEXTS = ("markdown", "caption", "info", "warning", "error", "success")


def in_sight(block: Any) -> Iterator[str]:
    """The texts of a part of the page: not what is folded, the labels of controls, the picture, and the last line."""
    for child in block.children.values():
        if hasattr(child, "children"):
            if child.type not in _FOLDED:
                yield from in_sight(child)
        elif child.type in _TEXTS and not child.value.startswith("Epsilon Explorer"):
            yield child.value


def figures(text: str) -> list[str]:
    """The numbers of a text in their order, with sign, exponent and per cent sign; those inside words are left out."""
    plain = text.replace("\N{NO-BREAK SPACE}", " ").replace("\N{WORD JOINER}", "").replace("\\", "")
    return re.findall(r"(?<![\w.])(?:[+−])?(?:\d+(?:,\d{3})*(?:\.\d+)?(?:e-?\d+)?(?: ?%)?|∞)(?!\w)", plain)


def words_in(texts: Iterable[str]) -> int:
    """How many words they have together."""
    return len(re.findall(r"\w[\w'’.,-]*", " ".join(texts)))

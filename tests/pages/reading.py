"""Visible texts, numbers and words of a page."""

import re
from collections.abc import Iterable, Iterator
from typing import Any

_FOLDED = ("expander", "expandable", "status", "popover")
_TABS = {"diagnose": "question", "medical": "medical_tab", "paper": "paper_table"}
"""Keys of the tabs of pages that draw the open one only."""
_TEXTS = ("markdown", "caption", "info", "warning", "error", "success")


def in_sight(block: Any) -> Iterator[str]:
    """Yield the texts of a block, without folded parts, labels of controls, charts and the footer."""
    for child in block.children.values():
        if hasattr(child, "children"):
            if child.type not in _FOLDED:
                yield from in_sight(child)
        elif child.type in _TEXTS and not child.value.startswith("Epsilon Explorer"):
            yield child.value


def figures(text: str) -> list[str]:
    """Return the numbers of a text in order, with sign, exponent and per cent sign, without those inside words."""
    plain = text.replace("\N{NO-BREAK SPACE}", " ").replace("\N{WORD JOINER}", "").replace("\\", "")
    return re.findall(r"(?<![\w.])(?:[+−])?(?:\d+(?:,\d{3})*(?:\.\d+)?(?:e-?\d+)?(?: ?%)?|∞)(?!\w)", plain)


def words_in(texts: Iterable[str]) -> int:
    """Return the total number of words."""
    return len(re.findall(r"\w[\w'’.,-]*", " ".join(texts)))


def open_tab(test: Any, key: str, name: str) -> None:
    """Open one of the page's tabs."""
    test.session_state[key] = name
    test.run()


def each_tab(test: Any, page: str) -> Iterator[None]:
    """Open one tab of a page after another; the first one is open already."""
    yield
    if page in _TABS:
        for name in [tab.label for tab in test.tabs][1:]:
            open_tab(test, _TABS[page], name)
            yield

"""What a report can be had as."""

from collections.abc import Callable
from dataclasses import dataclass

from engine.reports.document import html_file, json_file, markdown, pdf
from engine.reports.document.model import Document


@dataclass(frozen=True)
class Format:
    """name: in options, and the end of a file's name. title: what people see. mime: for browsers."""

    name: str
    title: str
    mime: str
    draw: Callable[[Document], bytes]


def _bytes(text: str) -> bytes:
    """Half of a letter, as in a file's name that is no UTF-8, becomes a question mark."""
    return text.encode(errors="replace")


FORMATS = {
    each.name: each
    for each in (
        Format("pdf", "PDF", "application/pdf", pdf.render),
        Format("html", "HTML", "text/html", lambda document: _bytes(html_file.render(document))),
        Format("json", "JSON", "application/json", lambda document: _bytes(json_file.render(document))),
        Format("md", "Markdown", "text/markdown", lambda document: _bytes(markdown.render(document))),
    )
}

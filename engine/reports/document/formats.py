"""The file formats of a report."""

from collections.abc import Callable
from dataclasses import dataclass

from engine.reports.document import html_file, json_file, markdown, pdf
from engine.reports.document.model import Document


@dataclass(frozen=True)
class Format:
    """A file format.

    Attributes:
        name: value of the option, and the file extension.
        title: label in the user interface.
        mime: media type for browsers.
        draw: renders a document as bytes.
    """

    name: str
    title: str
    mime: str
    draw: Callable[[Document], bytes]


def _bytes(text: str) -> bytes:
    """Encode as UTF-8; a lone surrogate, as in a file name that is not UTF-8, becomes a question mark."""
    return text.encode(errors="replace")


FORMATS = {
    file_format.name: file_format
    for file_format in (
        Format("pdf", "PDF", "application/pdf", pdf.render),
        Format("html", "HTML", "text/html", lambda document: _bytes(html_file.render(document))),
        Format("json", "JSON", "application/json", lambda document: _bytes(json_file.render(document))),
        Format("md", "Markdown", "text/markdown", lambda document: _bytes(markdown.render(document))),
    )
}

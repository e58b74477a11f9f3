"""A document as Markdown (CommonMark with tables), every text escaped."""

import re

from engine.reports.document.model import Block, Code, Document, Facts, Paragraph, Points, Section, Table
from engine.visible_text import visible

_SPECIAL = re.compile(r"([\\`*_{}\[\]()#+!|<>~$&-])")


def render(document: Document) -> str:
    """Return the Markdown file."""
    alarm = [f"> **{plain(document.alarm)}**"] if document.alarm else []
    parts = [part for section in document.sections for part in (*_section(section), *alarm)]
    end = f"Written {document.written} by {plain(document.program)}. Checksum of the content (SHA-256): "
    return (
        "\n\n".join(
            [*alarm, f"# {plain(document.title)}", plain(document.subtitle), *parts, f"{end}`{document.checksum}`"]
        )
        + "\n"
    )


def plain(text: str) -> str:
    """Escape a text so that Markdown shows it unchanged, on one line."""
    # A digit before a full stop at the start would begin a list.
    return re.sub(r"^(\d+)\.", r"\1\\.", _SPECIAL.sub(r"\\\1", visible(" ".join(text.split()))))


def _section(section: Section) -> list[str]:
    return [f"## {plain(section.title)}", *(part for block in section.blocks for part in _block(block))]


def _block(block: Block) -> list[str]:
    if isinstance(block, Paragraph):
        return [f"**{plain(block.text)}**" if block.warning else plain(block.text)]
    if isinstance(block, Points):
        return ["\n".join(f"- {plain(item)}" for item in block.items)]
    if isinstance(block, Facts):
        return [f"**{plain(block.title)}**", _rows(("", ""), block.rows)]
    if isinstance(block, Code):
        fence = "`" * max(3, 1 + max(map(len, re.findall("`+", block.text)), default=0))
        return [f"**{plain(block.title)}**", f"{fence}text\n{block.text.rstrip()}\n{fence}"]
    return _table(block)


def _table(block: Table) -> list[str]:
    return [f"**{plain(block.title)}**", _rows(block.columns, block.rows)]


def _rows(columns: tuple[str, ...], rows: tuple[tuple[str, ...], ...]) -> str:
    lines = [columns, tuple("---" for _ in columns), *rows]
    return "\n".join(
        "| " + " | ".join(cell if cell == "---" else plain(cell) for cell in line) + " |" for line in lines
    )

"""A document as HTML: one file without scripts or external resources, with every text escaped."""

import html

from engine.reports.document.model import Block, Code, Document, Facts, Paragraph, Points, Section, Table
from engine.visible_text import visible

STYLE = """
.report { line-height: 1.5; overflow-wrap: break-word; }
.report td:last-child, .report code { overflow-wrap: anywhere; }
.report .part { border-top: 1px solid; margin-top: 2rem; padding-top: .25rem; }
.report table { border-collapse: collapse; width: 100%; margin: .5rem 0 1.25rem; font-size: .93em; }
.report caption { text-align: left; font-weight: 600; padding-bottom: .3rem; }
.report th, .report td {
  text-align: left; vertical-align: top; padding: .3rem .6rem .3rem 0; border-bottom: 1px solid rgba(128,128,118,.45);
}
.report th { font-weight: 600; }
.report .facts th { width: 30%; }
.report .label { border: 2px solid; padding: .25rem 1rem 0; margin: 1rem 0; }
.report .label table { margin-bottom: .5rem; }
.report .warning { border: 2px solid; padding: .5rem .75rem; font-weight: 600; }
.report .alarm { border: 4px double #c00; color: #c00; background: #fff; padding: .5rem .75rem; font-weight: 700; }
.report pre { white-space: pre-wrap; border-left: 3px solid; padding: .25rem .75rem; font-size: .85em; }
.report .code-title { font-weight: 600; margin-bottom: .2rem; }
.report .quiet { font-size: .85em; }
@media (max-width: 640px) {
  .report tbody tr { display: block; border-bottom: 2px solid rgba(128,128,118,.6); padding: .3rem 0; }
  .report tbody :is(td, th) { display: block; width: auto !important; border: 0; padding: .1rem 0; }
  .report thead { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
  .report td:empty { display: none; }
  .report td[data-name]::before { content: attr(data-name) ": "; font-weight: 600; }
}
"""
_PAGE = """
body { font: 1rem system-ui, sans-serif; color: #16191b; background: #fff; margin: 2rem auto; max-width: 52rem;
  padding: 0 1rem; }
@media print {
  body { margin: 0; max-width: none; font-size: 10pt; }
  .report section { break-inside: auto; } .report tr, .report pre { break-inside: avoid; }
  .report .part { break-before: auto; } .report .rest { break-before: page; }
  .alarmed .report { display: table; width: 100%; }
  /* The head of a table is repeated on each page. */
  .alarmed .each { display: table-header-group; break-inside: avoid; }
  .alarmed section .alarm { display: none; }
}
"""


def render(document: Document) -> str:
    """Return the HTML file."""
    alarmed = ' class="alarmed"' if document.alarm else ""
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    return (
        f'<!DOCTYPE html>\n<html lang="{escape(document.language)}">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        f"<title>{escape(document.title)}</title>\n<style>{STYLE}{_PAGE}</style>\n</head>\n"
        f"<body{alarmed}>\n{body(document)}</body>\n</html>\n"
    )


def body(document: Document, *, heading: int = 1) -> str:
    """Return the content without the page around it, for use in another page.

    Args:
        document: the document.
        heading: heading level of the title.
    """
    alarm = f'<div class="each"><p class="alarm">{escape(document.alarm)}</p></div>\n' if document.alarm else ""
    parts = [_section(section, heading + 1, number, document) for number, section in enumerate(document.sections)]
    return (
        f'<div class="report">\n{alarm}<div>\n<h{heading}>{escape(document.title)}</h{heading}>\n'
        f"<p>{escape(document.subtitle)}</p>\n{''.join(parts)}"
        f'<p class="quiet">Written {escape(document.written)} by {escape(document.program)}. Checksum of the content '
        f"(SHA-256): <code>{document.checksum}</code></p>\n</div>\n</div>\n"
    )


def _section(section: Section, heading: int, number: int, document: Document) -> str:
    kind = "part rest" if number == document.first else "part"
    # In print the alarm is repeated at the head of each page, on a screen in each part.
    again = f'<p class="alarm">{escape(document.alarm)}</p>\n' if document.alarm and number else ""
    blocks = "".join(map(_block, section.blocks))
    return f'<section class="{kind}">\n{again}<h{heading}>{escape(section.title)}</h{heading}>\n{blocks}</section>\n'


def _block(block: Block) -> str:
    if isinstance(block, Paragraph):
        kind = ' class="warning"' if block.warning else ""
        return f"<p{kind}>{escape(block.text)}</p>\n"
    if isinstance(block, Points):
        return "<ul>\n" + "".join(f"<li>{escape(item)}</li>\n" for item in block.items) + "</ul>\n"
    if isinstance(block, Facts):
        rows = "".join(
            f'<tr><th scope="row">{escape(name)}</th><td>{escape(text)}</td></tr>\n' for name, text in block.rows
        )
        table = f'<table class="facts"><caption>{escape(block.title)}</caption>\n<tbody>\n{rows}</tbody></table>\n'
        return f'<div class="label">{table}</div>\n' if block.framed else table
    if isinstance(block, Code):
        return f'<p class="code-title">{escape(block.title)}</p>\n<pre><code>{escape(block.text)}</code></pre>\n'
    return _table(block)


def _table(block: Table) -> str:
    heads = "".join(f'<th scope="col">{escape(name)}</th>' for name in block.columns)
    rows = []
    for first, *rest in block.rows:
        cells = "".join(
            f'<td data-name="{escape(name)}">{escape(cell)}</td>'
            for name, cell in zip(block.columns[1:], rest, strict=True)
        )
        rows.append(f'<tr><th scope="row">{escape(first)}</th>{cells}</tr>\n')
    return (
        f"<table><caption>{escape(block.title)}</caption>\n<thead><tr>{heads}</tr></thead>\n"
        f"<tbody>\n{''.join(rows)}</tbody></table>\n"
    )


def escape(text: str) -> str:
    """Return a text as HTML that shows it unchanged, except for invisible controls."""
    return html.escape(visible(text))

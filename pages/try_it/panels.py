"""HTML of a text with each model's entities; all outside text is escaped. It does not import streamlit.

The colours are those of displaCy, which users of spaCy know; their dark text is readable in both themes. Missed
entities are dashed and labelled.
"""

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from engine.tagging.entities import Entity, Tagged
from engine.tagging.missed_entities import Name, gaps
from pages.shared.messages import percent
from pages.shared.palette import ENTITIES

OTHERS = ("#feca74", "#f0d0ff", "#9cc9cc", "#ffeb80", "#bfe1d9", "#e4e7d2", "#c887fb")
"""Colours of other entity types, also from displaCy."""
STYLE = """
  .try-panels { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 20rem), 1fr)); gap: 0.8rem; }
  .try-panel { border: 1px solid color-mix(in srgb, currentColor 22%, transparent); border-radius: 0.45rem;
    padding: 0.7rem 0.9rem; min-width: 0; }
  .try-panel h4 { padding: 0; margin: 0 0 0.2rem; font-size: 1.1rem; }
  .try-panel p { margin: 0 0 0.5rem; font-size: 0.85rem; line-height: 1.45; }
  .try-panel .try-text { white-space: pre-wrap; overflow-wrap: anywhere; font-size: 0.95rem; line-height: 1.75;
    max-height: 26rem; overflow-y: auto; }
  .try-name { color: #16191b; padding: 0.1em 0.3em; border-radius: 0.3em; box-decoration-break: clone;
    -webkit-box-decoration-break: clone; }
  .try-name small, .try-missed small { font-size: 0.68em; font-weight: 600; margin-left: 0.4em;
    letter-spacing: 0.02em; }
  .try-missed { text-decoration: underline dashed 2px; text-underline-offset: 0.25em; font-weight: 600; }
  .try-missed small { border: 1px solid currentColor; border-radius: 0.3em; padding: 0 0.25em; display: inline-block;
    line-height: 1.4; }
  .try-note { opacity: 0.85; }
"""


@dataclass(frozen=True)
class Panel:
    """The panel of one model.

    Attributes:
        title: The ε of the model.
        facts: A summary of its result on this text, or the reason why there is none.
        tagged: The result; None where the model could not tag the text.
        names: The entities to find.
        notes: Recall on the test set and warnings.
        ledger: Link to the assumptions of its ε.
    """

    title: str
    facts: str
    tagged: Tagged | None
    names: Sequence[Name]
    notes: Sequence[str]
    ledger: str | None = None


def drawing(text: str, panels: Sequence[Panel]) -> str:
    """Return the HTML of all panels: side by side, or stacked on narrow screens."""
    types = {entity.type for panel in panels if panel.tagged for entity in panel.tagged.entities}
    colours = ENTITIES | dict(zip(sorted(types - ENTITIES.keys()), OTHERS * len(types), strict=False))
    return f'<div class="try-panels">{"".join(_panel(text, panel, colours) for panel in panels)}</div>'


def _panel(text: str, panel: Panel, colours: Mapping[str, str]) -> str:
    body = ""
    if panel.tagged:
        body = f'<p class="try-text" dir="auto" tabindex="0">{marked(text, panel.tagged, panel.names, colours)}</p>'
    notes = "".join(f'<p class="try-note">{html.escape(note)}</p>' for note in panel.notes)
    if panel.ledger:
        notes += f'<p class="try-note"><a href="{html.escape(panel.ledger)}">Assumptions of this ε</a></p>'
    return (
        f'<section class="try-panel"><h4>{html.escape(panel.title)}</h4><p>{html.escape(panel.facts)}</p>'
        f"{body}{notes}</section>"
    )


def marked(text: str, tagged: Tagged, names: Sequence[Name], colours: Mapping[str, str]) -> str:
    """Return the HTML of the text with entities, missed entities, and each token's confidence as a tooltip.

    Args:
        text: The text that was tagged.
        tagged: The result of one model.
        names: The entities to find.
        colours: The background colour of each entity type.
    """
    inside = tagged.inside
    missed = gaps(text, tagged, names)
    parts, at = [], 0
    for of, numbers in groupby(range(len(tagged.spans)), key=lambda number: inside.get(number) or missed.get(number)):
        first, *rest = numbers
        last = rest[-1] if rest else first
        start, end = tagged.spans[first][0], tagged.spans[last][1]
        words = _tokens(text, tagged, first, last)
        parts.append(html.escape(text[at:start]))
        if isinstance(of, Entity):
            kind = html.escape(of.type)
            colour = colours[of.type]
            parts.append(f'<mark class="try-name" style="background:{colour}">{words}<small>{kind}</small></mark>')
        elif of is not None:
            title = html.escape(_missed_text(of), quote=True)
            parts.append(f'<span class="try-missed" title="{title}">{words}<small>missed</small></span>')
        else:
            parts.append(words)
        at = end
    return "".join([*parts, html.escape(text[at:])])


def _tokens(text: str, tagged: Tagged, first: int, last: int) -> str:
    """Return the HTML of adjacent tokens with tag and confidence, and the white space between them."""
    parts, at = [], tagged.spans[first][0]
    for number in range(first, last + 1):
        start, end = tagged.spans[number]
        tag = "no entity" if tagged.tags[number] == "O" else tagged.tags[number]
        title = html.escape(f"{tag}: {percent(tagged.confidence[number])}", quote=True)
        parts.append(f'{html.escape(text[at:start])}<span title="{title}">{html.escape(text[start:end])}</span>')
        at = end
    return "".join(parts)


def _missed_text(name: Name) -> str:
    if not name.by:
        return f"{name.entity.type}, missed: it stays in the redacted text"
    return f"{name.entity.type}, found by: {', '.join(name.by)}. This model misses it, so it stays in the redacted text"

"""Corpora as fields and as text: all of them, and what one of them holds."""

from typing import Any

from engine.reports.runs import overlap_fields, overlap_text
from engine.service import Application
from engine.service.corpus_statistics import CorpusStatistics


def listed(app: Application) -> tuple[list[dict[str, Any]], str]:
    """All corpora, what is here and what can be fetched."""
    rows = app.corpora.all()
    overlaps = {info.name: app.corpora.overlap(info.name) for info in rows if info.available}
    fields = [
        {name: getattr(info, name) for name in ("name", "title", "licence", "source", "size", "sentences")}
        | {name: getattr(info, name) for name in ("synthetic", "available", "where", "fetchable", "note")}
        | {"entity_types": list(info.entity_types)}
        | {"fitted_on": overlap_fields(overlaps.get(info.name))}
        for info in rows
    ]
    text = "\n".join(
        f"{info.name:12} {info.where:12} {f'{info.sentences:,}' if info.sentences else '?':>8} sentences  "
        f"{info.title} ({info.licence})"
        + ("; can be fetched" if info.fetchable and not info.available else "")
        + overlap_text(overlaps.get(info.name))
        for info in rows
    )
    return fields, text


def held(name: str, found: CorpusStatistics) -> str:
    """A table of its parts, then what was left out and what stands elsewhere too."""
    lines = [f"{name:12}{'sentences':>12}{'tokens':>12}  names"]
    for part, each in found.parts.items():
        names = ", ".join(f"{number:,} {kind}" for kind, number in each.names.items())
        lines.append(f"{part:12}{each.sentences:12,}{each.tokens:12,}  {names}")
    lines += [f"Left out: {number:,} mentions {why}." for why, number in found.left_out.items()]
    lines += [f"Also in {other}: {number:,} sentences." for other, number in found.shared.items()]
    lines += [f"Of the test sentences, {found.repeated:,} stand in the training part too."] if found.repeated else []
    return "\n".join(lines)

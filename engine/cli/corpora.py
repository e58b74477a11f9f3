"""Output of the command `corpora`: the list of all corpora, and the statistics of one, as fields and as text."""

from typing import Any

from engine.reports.runs import overlap_fields, overlap_text
from engine.service import Application
from engine.service.corpus_statistics import CorpusStatistics


def corpora_list(service: Application) -> tuple[list[dict[str, Any]], str]:
    """Return all corpora, both available and downloadable ones, as fields and as text."""
    rows = service.corpora.all()
    overlaps = {info.name: service.corpora.overlap(info.name) for info in rows if info.available}
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
        + ("; can be downloaded" if info.fetchable and not info.available else "")
        + overlap_text(overlaps.get(info.name))
        for info in rows
    )
    return fields, text


def statistics_text(name: str, statistics: CorpusStatistics) -> str:
    """Return a table of a corpus's parts, then its excluded mentions and its sentences that other corpora share."""
    lines = [f"{name:12}{'sentences':>12}{'tokens':>12}  entities"]
    for part, counts in statistics.parts.items():
        entities = ", ".join(f"{number:,} {entity_type}" for entity_type, number in counts.names.items())
        lines.append(f"{part:12}{counts.sentences:12,}{counts.tokens:12,}  {entities}")
    lines += [f"Excluded: {number:,} mentions {reason}." for reason, number in statistics.left_out.items()]
    lines += [f"Also in {other}: {number:,} sentences." for other, number in statistics.shared.items()]
    if statistics.repeated:
        lines.append(f"Of the test sentences, {statistics.repeated:,} are in the training set too.")
    return "\n".join(lines)

"""The command `upload`, and the output of `corpora`: all corpora, and the statistics of one, as fields and as text."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from engine.cli.output import Json, write
from engine.corpus.declared_types import OUTSIDE, REFUSE
from engine.errors import CorpusError
from engine.reports.runs import overlap_fields, overlap_text
from engine.service import Application
from engine.service.budget_accounts import sharing_text
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


def upload(
    file: Annotated[Path, typer.Argument(help="Column file, .rel file, or zip of a corpus.")],
    types: Annotated[
        str | None,
        typer.Option(
            help="Entity types of the corpus, separated by commas. They are public: each tagger shows them.  "
            "[default: those that the file declares]"
        ),
    ] = None,
    undeclared: Annotated[
        str,
        typer.Option(help=f"Mentions of other types: {REFUSE} the file, or read them as {OUTSIDE} and count them."),
    ] = REFUSE,
    as_json: Json = False,
) -> None:
    """Add a corpus of your own, with its entity types. Prints the name that `train --corpus` takes."""
    try:
        data = file.read_bytes()
    except OSError as error:
        raise CorpusError(f"{file} cannot be read: {error.strerror}") from error
    app = Application.from_environment()
    name, summary = app.corpora.add(file.name, data, types=types, undeclared=undeclared)
    text = "\n".join(filter(None, [f"{name}: {summary.text}", sharing_text(app.budgets.accounts.sharing(name))]))
    write(as_json, {"name": name} | asdict(summary), text)


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

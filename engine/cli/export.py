"""The commands `export` and `export-person`: runs for other programs, and all data of one person."""

from pathlib import Path
from typing import Annotated

import typer

from engine.artifact_store import atomic_write
from engine.cli.output import Json, progress_bar, write
from engine.errors import InvalidConfig
from engine.service import Application, mlflow_export, table_export


def export(
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="File to write, .csv or .parquet.", show_default=False)
    ] = None,
    records: Annotated[bool, typer.Option("--records", help="Write a row for each record, not for each run.")] = False,
    mlflow: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="URL of a tracking server to send finished runs to, such as http://localhost:5000. Runs that the "
            "server has are skipped.",
            show_default=False,
        ),
    ] = None,
    experiment: Annotated[str, typer.Option(help="Experiment of the tracking server; created if missing.")] = (
        "epsilon-explorer"
    ),
    corpus: Annotated[str | None, typer.Option(help="Export the runs on this corpus only.", show_default="all")] = None,
    as_json: Json = False,
) -> None:
    """Export runs for other programs, including published ones."""
    if (out is None) == (mlflow is None):
        raise InvalidConfig("export: expected either --out FILE or --mlflow ADDRESS")
    if records and mlflow:
        raise InvalidConfig("records: expected with --out only; a tracking server gets the records of each run")
    service = Application.from_environment()
    overviews = [item for item in service.queries.overview(100_000) if corpus in (None, item.run.config.corpus)]
    if out:
        table = (
            table_export.records_table(service.queries.get(item.run.run_id) for item in overviews) if records else None
        )
        table_export.write(table_export.runs_table(overviews) if table is None else table, out)
        rows = len(overviews) if table is None else len(table)
        write(as_json, {"file": str(out), "rows": rows}, f"{out}: {rows:,} rows")
        return
    finished = [
        service.queries.get(item.run.run_id) for item in overviews if item.last_record and item.last_record.final
    ]
    with progress_bar(quiet=as_json) as on_progress:
        sent, skipped = mlflow_export.send_all(finished, str(mlflow), experiment, on_progress)
    write(as_json, {"sent": sent, "there_already": skipped}, f"{sent:,} runs sent; {skipped:,} skipped as already sent")


def export_person(
    name: Annotated[str, typer.Argument(help="The person, as the sign-in provider names them: mostly an address.")],
    out: Annotated[Path, typer.Option(metavar="FILE", help="Zip to write; it must not exist.")],
    as_json: Json = False,
) -> None:
    """Export all that is held on a person who signs in: account, runs, corpora, audit log, budget entries."""
    from engine.service import person_export

    if out.exists():
        raise InvalidConfig(f"out={out} exists, expected a new file")
    app = Application.from_environment()
    with atomic_write(out, "The export") as path, path.open("wb") as file:
        numbers = person_export.write(app, name, file)
    text = ", ".join(f"{number:,} {kind.replace('_', ' ')}" for kind, number in numbers.items())
    write(as_json, {"file": str(out)} | numbers, f"{out}: {text}.")

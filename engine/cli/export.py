"""`export`: runs as a table for other programs, or in an MLflow tracking server."""

from pathlib import Path
from typing import Annotated

import typer

from engine.cli.output import progress_bar, write
from engine.errors import InvalidConfig
from engine.service import Application, mlflow_export, table_export


def export(
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A file to write, .csv or .parquet.", show_default=False)
    ] = None,
    records: Annotated[bool, typer.Option("--records", help="A row for each record, not for each run.")] = False,
    mlflow: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="A tracking server that finished runs are sent to, http://localhost:5000; those that it has are not "
            "sent again.",
            show_default=False,
        ),
    ] = None,
    experiment: Annotated[str, typer.Option(help="Of the tracking server; made where there is none.")] = (
        "epsilon-explorer"
    ),
    corpus: Annotated[str | None, typer.Option(help="Application on this corpus alone.", show_default="all")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for other programs.")] = False,
) -> None:
    """Hand runs to other programs, published ones included."""
    if (out is None) == (mlflow is None):
        raise InvalidConfig("export: expected either --out FILE or --mlflow ADDRESS")
    if records and mlflow:
        raise InvalidConfig("records: expected with --out alone; a tracking server gets the records of each run")
    app = Application.from_environment()
    found = [each for each in app.queries.overview(100_000) if corpus in (None, each.run.config.corpus)]
    if out:
        chosen = [each.run for each in found]
        table = table_export.records_table(app.queries.get(run.run_id) for run in chosen) if records else None
        table_export.write(table_export.runs_table(found) if table is None else table, out)
        rows = len(found) if table is None else len(table)
        write(as_json, {"file": str(out), "rows": rows}, f"{out}: {rows:,} rows")
        return
    done = [app.queries.get(each.run.run_id) for each in found if each.last_record and each.last_record.final]
    with progress_bar(quiet=as_json) as tell:
        sent, there = mlflow_export.send_all(done, str(mlflow), experiment, tell)
    write(as_json, {"sent": sent, "there_already": there}, f"{sent:,} runs sent; {there:,} were there already")

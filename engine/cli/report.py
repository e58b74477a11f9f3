"""`report`: what a run promises and to whom, as a document for the people who must sign."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from engine.errors import InvalidConfig
from engine.reports.document.formats import FORMATS
from engine.reports.privacy_report import builder
from engine.service import Application, report_evidence
from engine.validation import one_of

_USUAL = "md"


def report(
    run_id: Annotated[str, typer.Argument(metavar="ID", help="Identity of a run that is done, as `runs` lists it.")],
    beside: Annotated[
        str | None, typer.Argument(metavar="ID2", help="Another one, to be seen side by side.", show_default=False)
    ] = None,
    name: Annotated[str, typer.Option("--format", help=f"{', '.join(FORMATS)}.")] = _USUAL,
    output: Annotated[
        Path | None, typer.Option(help="File to write.  [default: standard output; pdf: report-ID.pdf]")
    ] = None,
) -> None:
    """Write what a run promises, to whom and on what grounds, as a document to file."""
    one_of("format", name, tuple(FORMATS))
    app = Application.from_environment()
    first = report_evidence.evidence(app, run_id)
    document = builder.of_two(first, report_evidence.evidence(app, beside)) if beside else builder.of_run(first)
    drawn = FORMATS[name].draw(document)
    if output is None and name != "pdf":
        sys.stdout.write(drawn.decode())
        return
    path = output or Path(f"report-{run_id}{f'-{beside}' if beside else ''}.{name}")
    try:
        path.write_bytes(drawn)
    except OSError as error:
        raise InvalidConfig(f"output={str(path)!r} cannot be written: {error.strerror}") from None
    typer.echo(str(path))

"""The command `report`: the privacy guarantee of a run as a document to sign."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from engine.cli.output import say
from engine.errors import InvalidConfig
from engine.reports.document.formats import FORMATS
from engine.reports.privacy_report import builder
from engine.service import Application, report_evidence
from engine.validation import one_of

_USUAL = "md"


def report(
    run_id: Annotated[str, typer.Argument(metavar="ID", help="Identity of a finished run, as `runs` lists it.")],
    beside: Annotated[
        str | None, typer.Argument(metavar="ID2", help="Second run, to compare side by side.", show_default=False)
    ] = None,
    name: Annotated[str, typer.Option("--format", help=f"{', '.join(FORMATS)}.")] = _USUAL,
    output: Annotated[
        Path | None, typer.Option(help="File to write.  [default: standard output; pdf: report-ID.pdf]")
    ] = None,
) -> None:
    """Write a privacy report of a run: its guarantee, its assumptions, its evidence."""
    one_of("format", name, tuple(FORMATS))
    service = Application.from_environment()
    first = report_evidence.evidence(service, run_id)
    document = builder.of_two(first, report_evidence.evidence(service, beside)) if beside else builder.of_run(first)
    rendered = FORMATS[name].draw(document)
    if output is None and name != "pdf":
        sys.stdout.write(rendered.decode())
        return
    path = output or Path(f"report-{run_id}{f'-{beside}' if beside else ''}.{name}")
    try:
        path.write_bytes(rendered)
    except OSError as error:
        raise InvalidConfig(f"output={str(path)!r} cannot be written: {error.strerror}") from None
    say(str(path))

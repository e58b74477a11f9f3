"""`plan`: from scores, an ε or a number of seconds to settings that known runs say reach them."""

from typing import Annotated

import typer

from engine.cli.output import write
from engine.experiments.planner.targets import USUAL_DELTA, Target, read
from engine.reports.planner import plan_fields, plan_text
from engine.service import Application, planner

_LEAST = typer.Option(metavar="[TYPE=]NUMBER", help="At least, of all names or of a type; can be given several times.")


def plan(
    corpus: Annotated[str, typer.Argument(help="Name of a corpus, as runs have it.", show_default=False)],
    f1: Annotated[list[str] | None, _LEAST] = None,
    precision: Annotated[list[str] | None, _LEAST] = None,
    recall: Annotated[list[str] | None, _LEAST] = None,
    epsilon: Annotated[float | None, typer.Option(help="ε at most.", show_default=False)] = None,
    seconds: Annotated[float | None, typer.Option(help="Of a run, at most.", show_default=False)] = None,
    delta: Annotated[float, typer.Option(help="δ of every ε that is compared.")] = USUAL_DELTA,
    clients: Annotated[
        int | None, typer.Option(help="How many parties hold the data.", show_default="any number")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for other programs.")] = False,
) -> None:
    """Say which settings reach what is needed, by the runs that are known; or that none does, and what to run next."""
    target = Target(
        corpus=corpus,
        thresholds=tuple(read(f1 or [], "f1") + read(precision or [], "precision") + read(recall or [], "recall")),
        epsilon=epsilon,
        seconds=seconds,
        delta=delta,
        clients=clients,
    )
    found = planner.plan(Application.from_environment(), target)
    write(as_json, plan_fields(found), plan_text(found))

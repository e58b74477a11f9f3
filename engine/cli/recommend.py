"""The command `recommend`: settings that reach required scores, ε or seconds, according to existing runs."""

from typing import Annotated

import typer

from engine.cli.output import Json, write
from engine.experiments.planner.targets import USUAL_DELTA, Target, read
from engine.reports.planner import plan_fields, plan_text
from engine.service import Application, planner

_MINIMUM = typer.Option(
    metavar="[TYPE=]NUMBER", help="Minimum over all entities, or over one type; can be repeated.", show_default=False
)


def recommend(
    corpus: Annotated[str, typer.Argument(help="Name of a corpus that has runs.", show_default=False)],
    f1: Annotated[list[str] | None, _MINIMUM] = None,
    precision: Annotated[list[str] | None, _MINIMUM] = None,
    recall: Annotated[list[str] | None, _MINIMUM] = None,
    epsilon: Annotated[float | None, typer.Option(help="Maximum ε.", show_default=False)] = None,
    seconds: Annotated[float | None, typer.Option(help="Maximum duration of a run.", show_default=False)] = None,
    delta: Annotated[float, typer.Option(help="δ of every ε that is compared.")] = USUAL_DELTA,
    clients: Annotated[int | None, typer.Option(help="Number of clients.", show_default="any number")] = None,
    as_json: Json = False,
) -> None:
    """Recommend settings that meet the requirements, according to existing runs, or the next run to try."""
    target = Target(
        corpus=corpus,
        thresholds=tuple(read(f1 or [], "f1") + read(precision or [], "precision") + read(recall or [], "recall")),
        epsilon=epsilon,
        seconds=seconds,
        delta=delta,
        clients=clients,
    )
    result = planner.plan(Application.from_environment(), target)
    write(as_json, plan_fields(result), plan_text(result))

"""`budget`: what a corpus may lose in all, and what was booked."""

from typing import Annotated

import typer

from engine.cli.output import write
from engine.reports.budgets import account_fields, account_text
from engine.service import Application

budget_app = typer.Typer(help="What a corpus may lose in all, and what runs have taken of it.", no_args_is_help=True)

Corpus = Annotated[str, typer.Argument(help="Name of a corpus, or a file.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for other programs.")]


@budget_app.command("set")
def set_budget(
    corpus: Corpus,
    epsilon: Annotated[float, typer.Option(help="ε over all runs that are ever made.")],
    delta: Annotated[float, typer.Option(help="δ, a probability.")] = 1e-5,
    unit: Annotated[str, typer.Option(help="Whose loss: sentence, or client.")] = "sentence",
    as_json: Json = False,
) -> None:
    """Give a corpus a budget, or another total: from now on runs that do not fit are refused."""
    app = Application.from_environment()
    now = app.budgets.set_total(corpus, epsilon, delta, unit)
    possible = app.budgets.affordable_runs(now)
    write(as_json, account_fields(now, possible), account_text(now, possible))


@budget_app.command("show")
def show_budget(corpus: Corpus, as_json: Json = False) -> None:
    """What is left, what spent it, what could still be run."""
    app = Application.from_environment()
    now = app.budgets.state(corpus)
    possible = app.budgets.affordable_runs(now)
    write(as_json, account_fields(now, possible), account_text(now, possible))

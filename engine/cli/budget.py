"""The commands `budget set` and `budget show`: the total ε of a corpus, and the charges against it."""

from typing import Annotated

import typer

from engine.cli.output import Json, write
from engine.reports.budgets import account_fields, account_text
from engine.service import Application
from engine.service.budget_accounts import sharing_text

budget_app = typer.Typer(help="Set or show the privacy budget of a corpus.", no_args_is_help=True)

Corpus = Annotated[str, typer.Argument(help="Name of a corpus, or a file.")]


@budget_app.command("set")
def set_budget(
    corpus: Corpus,
    epsilon: Annotated[float, typer.Option(help="Total ε over all runs, past and future.")],
    delta: Annotated[float, typer.Option(help="δ, a probability.")] = 1e-5,
    unit: Annotated[str, typer.Option(help="Unit that is protected: sentence, or client.")] = "sentence",
    as_json: Json = False,
) -> None:
    """Set or change a corpus's budget. Runs that exceed it are refused from then on."""
    app = Application.from_environment()
    now = app.budgets.set_total(corpus, epsilon, delta, unit)
    possible = app.budgets.affordable_runs(now)
    write(as_json, account_fields(now, possible), account_text(now, possible))


@budget_app.command("show")
def show_budget(corpus: Corpus, as_json: Json = False) -> None:
    """Show the remaining budget, the charges, and the runs that still fit."""
    app = Application.from_environment()
    now = app.budgets.state(corpus)
    possible, sharing = app.budgets.affordable_runs(now), app.budgets.accounts.sharing(corpus)
    fields = account_fields(now, possible) | {"sharing": {account.name: account.shared for account in sharing}}
    write(as_json, fields, "\n".join(filter(None, [account_text(now, possible), sharing_text(sharing)])))

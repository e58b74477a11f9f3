"""What is looked at before a shell trains by itself, without a run in the store."""

import typer

from engine.config import SimulationConfig
from engine.errors import InvalidConfig
from engine.service import Application


def warn_of_overlap(config: SimulationConfig) -> None:
    """Say it where the features were fitted on sentences of the corpus."""
    for warning in Application.from_environment().queries.overlap(config).warnings:
        typer.echo(warning, err=True)


def book(config: SimulationConfig) -> None:
    """Book a training whole where its corpus has a budget: nobody sees when it stops. Raises BudgetExceeded."""
    app = Application.from_environment()
    if not app.budgets.exists():
        return
    identity = app.queries.identity(config)
    app.budgets.charge(app.budgets.charge_requests(identity, identity, config, app.previews.plan(config), ended=True))


def refuse_budgets(*corpora: str) -> None:
    """Raises InvalidConfig for a corpus with a budget: a search books its trials by itself, and not there."""
    app = Application.from_environment()
    for corpus in corpora:
        if app.budgets.state(corpus).budget:
            raise InvalidConfig(
                f"corpus={corpus!r} has a budget, on which trials of a search would not be booked: run settings one "
                "by one"
            )

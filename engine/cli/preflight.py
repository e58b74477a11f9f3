"""What is looked at before a shell trains by itself, without a run in the store."""

import typer

from engine.config import SimulationConfig
from engine.errors import InvalidConfig
from engine.service import Application


def warn_of_overlap(config: SimulationConfig) -> None:
    """Say it where the features were fitted on sentences of the corpus."""
    for warning in Application.from_environment().overlap(config).warnings:
        typer.echo(warning, err=True)


def book(config: SimulationConfig) -> None:
    """Book a training whole where its corpus has a budget: nobody sees when it stops. Raises BudgetExceeded."""
    from engine.service import budget_service

    runs = Application.from_environment()
    if not budget_service.any_set(runs):
        return
    identity = runs.identity(config)
    budget_service.book(
        runs, budget_service.charge_requests(runs, identity, identity, config, runs.plan(config), ended=True)
    )


def refuse_budgets(*corpora: str) -> None:
    """Raises InvalidConfig for a corpus with a budget: a search books its trials by itself, and not there."""
    from engine.service import budget_service

    runs = Application.from_environment()
    for corpus in corpora:
        if budget_service.account(runs, corpus).budget:
            raise InvalidConfig(
                f"corpus={corpus!r} has a budget, on which trials of a search would not be booked: run settings one "
                "by one"
            )

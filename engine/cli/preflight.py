"""Checks before a command trains in the foreground, without a run in the store."""

import typer

from engine.config import SimulationConfig
from engine.errors import InvalidConfig
from engine.service import Application


def warn_of_overlap(config: SimulationConfig) -> None:
    """Print a warning if the features were fitted on sentences of the corpus."""
    for warning in Application.from_environment().queries.overlap(config).warnings:
        typer.echo(warning, err=True)


def charge_budget(config: SimulationConfig) -> None:
    """Charge a whole training to the budget of its corpus, since no record shows when it stops early.

    Does nothing for a corpus without a budget. Raises BudgetExceeded.
    """
    service = Application.from_environment()
    if not service.budgets.exists():
        return
    identity = service.queries.identity(config)
    service.budgets.charge(
        service.budgets.charge_requests(identity, identity, config, service.previews.plan(config), ended=True)
    )


def refuse_budgets(*corpora: str) -> None:
    """Raise InvalidConfig for a corpus with a budget: a search accounts for its trials outside that budget."""
    service = Application.from_environment()
    for corpus in corpora:
        if service.budgets.state(corpus).budget:
            raise InvalidConfig(
                f"corpus={corpus!r} has a budget, to which the trials of a search are not charged: submit the "
                "settings one by one"
            )

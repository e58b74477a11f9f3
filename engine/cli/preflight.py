"""Checks before a command trains in the foreground, without a run in the store."""

import typer

from engine.config import SimulationConfig
from engine.errors import InvalidConfig
from engine.records.assumption_texts import UNDECLARED_TYPES
from engine.service import Application


def warn_of_corpus(config: SimulationConfig) -> None:
    """Print a warning if features were fitted on sentences of the corpus, or its entity types are not declared."""
    queries = Application.from_environment().queries
    for warning in queries.overlap(config).warnings:
        typer.echo(warning, err=True)
    if config.privacy.private and not queries.corpus(config).declared:
        typer.echo(f"{UNDECLARED_TYPES} See docs/cli.md, Corpora.", err=True)


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

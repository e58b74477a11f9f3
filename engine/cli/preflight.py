"""Checks before a command trains in the foreground, without a run in the store."""

from contextlib import suppress

from engine.cli.output import say
from engine.config import SimulationConfig
from engine.errors import CorpusError, InvalidConfig
from engine.records.assumption_texts import UNDECLARED_TYPES
from engine.service import Application


def warn_of_corpus(config: SimulationConfig) -> None:
    """Print a warning if features were fitted on sentences of the corpus, or its entity types are not declared."""
    queries = Application.from_environment().queries
    for warning in queries.overlap(config).warnings:
        say(warning, err=True)
    with suppress(CorpusError):  # the command itself reports a corpus that cannot be read
        if config.privacy.private and not queries.corpus(config).declared:
            say(f"{UNDECLARED_TYPES} See docs/cli.md, Corpora.", err=True)


def charge_budget(config: SimulationConfig, *, unprotected: bool) -> None:
    """Charge a whole training to the budget of its corpus, since no record shows when it stops early.

    Does nothing for a corpus without a budget. Raises BudgetExceeded, NotAllowed.

    Args:
        config: The configuration.
        unprotected: Whether the user accepts a training without privacy on a corpus with a budget.
    """
    service = Application.from_environment()
    if not service.budgets.exists():
        return
    identity = service.queries.identity(config)
    service.budgets.charge(
        service.budgets.charge_requests(
            identity, identity, config, service.previews.plan(config), ended=True, unprotected=unprotected
        )
    )


def charge_crosscheck(config: SimulationConfig, *, unprotected: bool) -> None:
    """List a cross-check, which compares sums without noise, as an unprotected access to a corpus with a budget.

    Raises BudgetExceeded, NotAllowed.

    Args:
        config: The configuration.
        unprotected: Whether the user accepts that.
    """
    service = Application.from_environment()
    if service.budgets.exists():
        identity, what = service.queries.identity(config), "a cross-check of its first steps"
        accesses = service.budgets.unprotected_accesses(identity, config, what, unprotected=unprotected)
        service.budgets.charge(accesses)


def refuse_budgets(*corpora: str) -> None:
    """Raise InvalidConfig for a corpus that draws on a budget: a search accounts for its trials outside that budget."""
    service = Application.from_environment()
    for corpus in corpora:
        if service.budgets.state(corpus).budget or service.budgets.accounts.sharing(corpus):
            raise InvalidConfig(
                f"corpus={corpus!r} draws on a budget, to which the trials of a search are not charged: submit the "
                "settings one by one"
            )

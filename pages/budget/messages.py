"""Texts of the page Privacy budget. It does not import streamlit."""

from collections.abc import Sequence
from typing import Any

from engine.privacy.budget import BudgetState
from engine.reports.budgets import total_text
from engine.reports.numbers import delta_text
from engine.service.budget_service import AffordableRun
from pages.shared import address

WHAT = (
    "Each run on the same sentences reveals a little more about them, and runs chosen adaptively cannot be composed "
    "after the fact. A **budget** fixes a total ε before the first run. Each run is charged in full before its first "
    "step; a run that does not fit is refused. The privacy guarantee is the total, over all charges."
)
HOLDS = (
    "**What is counted.** A cancelled or failed run counts up to its last record; a deleted run stays charged. Runs "
    "with the same noise count once; with noise from the operating system each run counts. A budget per client is for "
    "one partition: runs with other clients are refused. Seeded noise is for simulation: anyone who knows the seed can "
    "subtract it, and no budget prevents that. The budget does not cover changed copies of the corpus, other programs, "
    "or users with write access to the database. Entries form a hash chain: a manual change is detected. Save the "
    "chain head to detect a rewritten ledger.\n\n"
    "**What is not counted.** Before the first total: deleted runs, and `simulate` in a shell. At any time: the rounds "
    "of a real federation, which each client's own ledger counts; `second-opinion`; and published runs, listed as one "
    "line among the unprotected accesses. A total raised after seeing results depends on them, which the theorem on "
    "privacy filters does not cover; all totals stay on record."
)
LOOKS = (
    "Scores on the validation and test sets have no noise: each run is also an unprotected access to these sets, which "
    "is not listed here. A run whose noise check failed is in both tables: its share is the planned one, and is no "
    "upper bound."
)


def answer(now: BudgetState) -> str:
    """Return the state of the budget in one sentence."""
    if now.budget is None:
        return "This corpus has no budget yet."
    taken = "nothing" if not now.booked else f"{now.share:.0%}"
    return f"{total_text(now.budget)}: {taken} spent."


def bookings(now: BudgetState) -> list[dict[str, Any]]:
    """Return one row for each entry, the newest first."""
    allowance = now.budget.filter.capacity if now.budget else 1.0
    return [
        {
            "share": 100 * each.rdp / allowance,
            "what": each.what,
            "": "running" if each.pending else "finished",
            "identity": each.run,
            "charged": each.at[:16].replace("T", " "),
        }
        for each in sorted(now.bookings, key=lambda each: each.at, reverse=True)
    ]


def looks(now: BudgetState) -> list[dict[str, Any]]:
    """Return one row for each entry, the newest first."""
    return [
        {"what": each.what, "identity": each.run, "when": each.at[:16].replace("T", " ")}
        for each in sorted(now.looks, key=lambda each: each.at, reverse=True)
    ]


def totals(now: BudgetState) -> list[dict[str, Any]]:
    """Return one row for each total that was ever set."""
    return [
        {
            "set": each.set_at[:16].replace("T", " "),
            "ε": each.epsilon,
            "δ": delta_text(each.delta),
            "unit": each.unit,
        }
        for each in now.totals
    ]


def possible(found: Sequence[AffordableRun]) -> list[dict[str, Any]]:
    """Return one row for each configuration that is still affordable or refused."""
    return [
        {"setting": each.title, "share": 100 * each.share, "times": each.times, "run": address.link(each.config)}
        for each in found
    ]

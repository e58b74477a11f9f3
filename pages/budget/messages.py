"""Texts and table rows of the page Privacy budget. Without Streamlit."""

from collections.abc import Sequence
from typing import Any

from engine.privacy.budget import BudgetState
from engine.reports.budgets import total_text
from engine.reports.numbers import delta_text
from engine.service.budget_service import AffordableRun
from pages.shared import address

INTRODUCTION = (
    "Each run on the same sentences reveals a little more about them, and runs chosen adaptively cannot be composed "
    "after the fact. A **budget** fixes a total ε before the first run. Each run is charged in full before its first "
    "step; a run that does not fit is refused. The privacy guarantee is the total, over all charges."
)
COVERAGE = (
    "**What is counted.** A cancelled or failed run counts up to its last record; a deleted run stays charged. Runs "
    "with the same noise count once; with noise from the operating system each run counts. A budget per client is for "
    "one partition: runs with other clients are refused. Seeded noise is for simulation: anyone who knows the seed can "
    "subtract it, and no budget prevents that. The budget does not cover changed copies of the corpus, other programs, "
    "or users with write access to the database. Entries form a hash chain: a manual change is detected. Save the "
    "chain head to detect a rewritten ledger.\n\n"
    "**What is not counted.** Before the first total: deleted runs, and runs of `train` in a shell. At any time: "
    "`crosscheck`; published runs, listed as one line among the unprotected accesses; and the rounds of a real "
    "federation, which each client's own ledger counts. A total raised after seeing results depends on them, which "
    "the theorem on privacy filters does not cover; all totals stay on record."
)
ACCESSES = (
    "Scores on the validation and test sets have no noise: each run is also an unprotected access to these sets, which "
    "is not listed here. A run whose noise check failed is in both tables: its share is the planned one, and is no "
    "upper bound."
)


def answer(now: BudgetState) -> str:
    """Return the state of the budget in one sentence."""
    if now.budget is None:
        return "This corpus has no budget yet."
    spent = "nothing" if not now.booked else f"{now.share:.0%}"
    return f"{total_text(now.budget)}: {spent} spent."


def charges(now: BudgetState) -> list[dict[str, Any]]:
    """Return one row for each charge, the newest first."""
    capacity = now.budget.filter.capacity if now.budget else 1.0
    return [
        {
            "share": 100 * charge.rdp / capacity,
            "what": charge.what,
            "": "running" if charge.pending else "finished",
            "identity": charge.run,
            "charged": charge.at[:16].replace("T", " "),
        }
        for charge in sorted(now.bookings, key=lambda charge: charge.at, reverse=True)
    ]


def unprotected_accesses(now: BudgetState) -> list[dict[str, Any]]:
    """Return one row for each unprotected access, the newest first."""
    return [
        {"what": access.what, "identity": access.run, "when": access.at[:16].replace("T", " ")}
        for access in sorted(now.looks, key=lambda access: access.at, reverse=True)
    ]


def totals(now: BudgetState) -> list[dict[str, Any]]:
    """Return one row for each total that was ever set."""
    return [
        {
            "set": total.set_at[:16].replace("T", " "),
            "ε": total.epsilon,
            "δ": delta_text(total.delta),
            "unit": total.unit,
        }
        for total in now.totals
    ]


def affordable(runs: Sequence[AffordableRun]) -> list[dict[str, Any]]:
    """Return one row for each configuration, with the number of runs that still fit (0: refused)."""
    return [
        {"setting": run.title, "share": 100 * run.share, "times": run.times, "run": address.link(run.config)}
        for run in runs
    ]

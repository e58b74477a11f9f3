"""What the page Budget says. No streamlit."""

from collections.abc import Sequence
from typing import Any

from engine.privacy.budget import BudgetState
from engine.reports.budgets import total_text
from engine.reports.numbers import delta_text
from engine.service.budget_service import AffordableRun
from pages.shared import address

WHAT = (
    "Each run on the same sentences tells a little more of them, and who chooses the next run after seeing the last "
    "one may not just add up what suits. A **budget** is a total that is fixed beforehand: each run is booked whole "
    "before its first step, and one that does not fit is refused. What is promised is the total, over all that is "
    "booked, whatever was used of it."
)
HOLDS = (
    "**What it holds against, and what not.** A run that was cancelled or failed counts as far as its last record; one "
    "that was deleted stays booked; runs with the same noise count once, and with noise from the operating system each "
    "counts. A budget of each client is for one split: runs with other clients are refused. Noise from a printed seed "
    "is for simulation: whoever knows the seed subtracts it, and no budget helps. "
    "Copies of the corpus with other content, programs beside this one, and whoever may write to the database are "
    "outside of it. Entries are sealed one by one: a change by hand is found, and who keeps the last seal finds a book "
    "that was rewritten.\n\n"
    "**What is not counted.** Of what came before the first total: runs that were deleted before it, and `simulate` in "
    "a shell. At any time: the rounds of a real federation, which each client's own ledger counts, `second-opinion`, "
    "and published runs, which stand among the looks as one line. Whoever raises the total after seeing results has "
    "chosen it by them, which the theorem on filters does not cover: all totals stay on record."
)
LOOKS = (
    "Scores on the validation and test parts have no noise: each run, with noise or without, is also a look at these, "
    "and such looks are not listed one by one. A run whose noise check failed stands here and above: its share is what "
    "was meant, and bounds nothing."
)


def answer(now: BudgetState) -> str:
    """How it stands, in a sentence."""
    if now.budget is None:
        return "This corpus has no budget yet."
    taken = "nothing is" if not now.booked else f"{now.share:.0%} is"
    return f"{total_text(now.budget)}: {taken} booked."


def bookings(now: BudgetState) -> list[dict[str, Any]]:
    """A row for each, the newest first."""
    allowance = now.budget.filter.capacity if now.budget else 1.0
    return [
        {
            "share": 100 * each.rdp / allowance,
            "what": each.what,
            "": "under way" if each.pending else "ended",
            "identity": each.run,
            "booked": each.at[:16].replace("T", " "),
        }
        for each in sorted(now.bookings, key=lambda each: each.at, reverse=True)
    ]


def looks(now: BudgetState) -> list[dict[str, Any]]:
    """A row for each, the newest first."""
    return [
        {"what": each.what, "identity": each.run, "when": each.at[:16].replace("T", " ")}
        for each in sorted(now.looks, key=lambda each: each.at, reverse=True)
    ]


def totals(now: BudgetState) -> list[dict[str, Any]]:
    """A row for each that was ever set."""
    return [
        {
            "set": each.set_at[:16].replace("T", " "),
            "ε": each.epsilon,
            "δ": delta_text(each.delta),
            "of each": each.unit,
        }
        for each in now.totals
    ]


def possible(found: Sequence[AffordableRun]) -> list[dict[str, Any]]:
    """A row for each setting."""
    return [
        {"setting": each.title, "share": 100 * each.share, "times": each.times, "run": address.link(each.config)}
        for each in found
    ]

"""Privacy budgets as text and as plain fields."""

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Protocol

from engine.privacy.budget import Budget, BudgetState, Charge
from engine.reports.numbers import delta_text


class Fits(Protocol):
    """A setting within the remaining budget: its share of the budget, and how many runs of it fit."""

    @property
    def title(self) -> str: ...  # noqa: D102
    @property
    def share(self) -> float: ...  # noqa: D102
    @property
    def times(self) -> int: ...  # noqa: D102


def total_text(now: BudgetState, budget: Budget) -> str:
    """Return the privacy guarantee of a budget, which holds for the charges in ``now``."""
    guarantee = f"ε = {budget.epsilon:g} at δ = {delta_text(budget.delta)} for each {budget.unit}"
    return f"{guarantee} (adjacency: {now.adjacency})"


def headline(now: BudgetState) -> str:
    """Return the state of a budget in one sentence, first of all whether its total holds."""
    if now.budget is None:
        return "This corpus has no budget yet."
    if not now.holds:
        number = sum(not access.published for access in now.looks)
        accesses = "1 unprotected access" if number == 1 else f"{number:,} unprotected accesses"
        return f"The total no longer holds: {accesses}. It was {total_text(now, now.budget)}."
    spent = "nothing" if not now.booked else f"{now.share:.0%}"
    return f"{total_text(now, now.budget)}: {spent} spent."


def account_text(now: BudgetState, possible: Sequence[Fits]) -> str:
    """Return the state of a budget as lines of text.

    Args:
        now: the budget, its charges and its unprotected accesses.
        possible: settings within the remaining budget.
    """
    if now.budget is None:
        return f"{now.name} has no budget: the ε of its runs are not composed. Set one with `budget set {now.name}`."
    lines = [
        f"{now.name}: {total_text(now, now.budget)}, over all models trained on it. {now.share:.1%} of the budget is "
        "used."
    ]
    if not now.holds:
        lines.insert(0, f"{now.name}: {headline(now)}")
    capacity = now.budget.filter.capacity
    for charge in now.bookings:
        state = ", pending" if charge.pending else ""
        lines.append(f"  {charge.rdp / capacity:7.1%}  {charge.run}  {charge.what}{state}  {charge.at[:16]}")
    lines += [f"  unprotected access  {access.run}  {access.what}  {access.at[:16]}" for access in now.looks]
    lines.append(
        "Each run also accesses the validation and test sets without protection; these accesses are not listed."
    )
    lines += [
        f"  within the budget: {setting.title}: {setting.share:.1%} each, {setting.times:,} runs"
        for setting in possible
    ]
    lines.append(f"Chain hash: {now.chain_hash}")
    return "\n".join(lines)


def account_fields(now: BudgetState, possible: Sequence[Fits]) -> dict[str, Any]:
    """Return the state of a budget for JSON; shares are fractions of the budget, 0 to 1."""
    capacity = now.budget.filter.capacity if now.budget else math.nan
    return {
        "corpus": now.name,
        "checksum": now.corpus,
        "budget": asdict(now.budget) if now.budget else None,
        "totals": [asdict(total) for total in now.totals],
        "neighbouring": now.adjacency if now.bookings else None,
        "booked": now.share,
        "holds": now.holds,
        "bookings": [_charge_fields(charge, capacity) for charge in now.bookings],
        "looks": [asdict(access) for access in now.looks],
        "possible": [{"title": setting.title, "share": setting.share, "times": setting.times} for setting in possible],
        "seal": now.chain_hash,
    }


def _charge_fields(charge: Charge, capacity: float) -> dict[str, Any]:
    """Return the fields of a charge under the names that the JSON output has had from the beginning."""
    fields = asdict(charge)
    renamed = {"open": fields.pop("pending"), "booked": fields.pop("rdp") / capacity}
    renamed["neighbouring"] = charge.neighbouring or None
    return fields | renamed

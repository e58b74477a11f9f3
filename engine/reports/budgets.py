"""Budgets as words and plain fields."""

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Protocol

from engine.privacy.budget import Budget, BudgetState, Charge
from engine.reports.numbers import delta_text


class Fits(Protocol):
    """A setting that could be run: what of the allowance it takes, and how often it fits."""

    @property
    def title(self) -> str: ...  # noqa: D102
    @property
    def share(self) -> float: ...  # noqa: D102
    @property
    def times(self) -> int: ...  # noqa: D102


def total_text(budget: Budget) -> str:
    """The promise that a total is."""
    return f"ε = {budget.epsilon:g} at δ = {delta_text(budget.delta)} of each {budget.unit}"


def account_text(now: BudgetState, possible: Sequence[Fits]) -> str:
    """For a shell."""
    if now.budget is None:
        return f"{now.name} has no budget: runs on it are not counted together. `budget set {now.name}` gives it one."
    lines = [
        f"{now.name}: {total_text(now.budget)}, over all that is trained on it. {now.share:.1%} of that is booked."
    ]
    allowance = now.budget.filter.capacity
    for each in now.bookings:
        state = ", under way" if each.pending else ""
        lines.append(f"  {each.rdp / allowance:7.1%}  {each.run}  {each.what}{state}  {each.at[:16]}")
    lines += [f"     look  {each.run}  {each.what}  {each.at[:16]}" for each in now.looks]
    lines.append("Each run is also a look at the validation and test parts, which are not listed one by one.")
    lines += [f"  could still be run: {each.title}: {each.share:.1%} each, {each.times:,} times" for each in possible]
    lines.append(f"Seal: {now.chain_hash}")
    return "\n".join(lines)


def account_fields(now: BudgetState, possible: Sequence[Fits]) -> dict[str, Any]:
    """For JSON: shares are of the allowance, 0 to 1."""
    allowance = now.budget.filter.capacity if now.budget else math.nan
    return {
        "corpus": now.name,
        "checksum": now.corpus,
        "budget": asdict(now.budget) if now.budget else None,
        "totals": [asdict(each) for each in now.totals],
        "booked": now.share,
        "bookings": [_charge_fields(charge, allowance) for charge in now.bookings],
        "looks": [asdict(each) for each in now.looks],
        "possible": [{"title": each.title, "share": each.share, "times": each.times} for each in possible],
        "seal": now.chain_hash,
    }


def _charge_fields(charge: Charge, capacity: float) -> dict[str, Any]:
    """Return the fields of a charge under the names that the JSON output has had from the beginning."""
    fields = asdict(charge)
    renamed = {"open": fields.pop("pending"), "booked": fields.pop("rdp") / capacity}
    return fields | renamed

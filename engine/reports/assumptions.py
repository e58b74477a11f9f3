"""The ledger of assumptions as words and plain fields."""

import math
from collections.abc import Sequence
from typing import Any

from engine.privacy.assumptions import TITLES, Row, Step
from engine.reports.numbers import delta_text, epsilon_text

UNKNOWN = "no sound number is known"


def ledger_epsilon(epsilon: float | None, at_least: float | None = None) -> str:
    """In words. at_least: a bound from below."""
    if epsilon is None:
        return UNKNOWN
    return f"ε = {epsilon_text(epsilon)}" + (f", at least {epsilon_text(at_least)}" if at_least else "")


def ledger_fields(rows: Sequence[Row], steps: Sequence[Step]) -> dict[str, Any]:
    """For JSON: ε is null where it is infinite or not known; ``known`` tells which."""
    return {
        "rows": [
            {
                "assumption": row.assumption,
                "choice": row.choice,
                "claimed": row.claimed,
                "epsilon": _finite(row.epsilon),
                "known": row.epsilon is not None,
                "at_least": row.at_least,
                "delta": row.delta,
                "why": row.why,
            }
            for row in rows
        ],
        "waterfall": [
            {
                "assumption": step.assumption or "printed",
                "choice": step.choice,
                "epsilon": _finite(step.epsilon),
                "at_least": step.at_least,
            }
            for step in steps
        ],
    }


def ledger_text(rows: Sequence[Row], steps: Sequence[Step], own: Sequence[Step] = ()) -> str:
    """For a shell: each assumption with its choices, then the way from what a paper would print, and on to what else is
    assumed (``own``)."""
    lines = []
    for row in rows:
        if row.claimed:
            lines.append(f"{TITLES[row.assumption]}: {row.choice}")
        else:
            lines.append(f"    if instead: {row.choice}: {ledger_epsilon(row.epsilon, row.at_least)}")
    promised = next(row for row in rows if row.claimed)
    first, *others = steps
    lines.append(f"Promised: {ledger_epsilon(promised.epsilon, promised.at_least)} at δ = {delta_text(promised.delta)}")
    if others:
        way = "; ".join(map(_step_text, others))
        lines.append(f"A paper would print {ledger_epsilon(first.epsilon)}. Set right: {way}")
    if own:
        way = "; ".join(f"{TITLES[step.assumption]} {step.choice}" for step in own)
        lines.append(f"As you assume ({way}): {ledger_epsilon(own[-1].epsilon, own[-1].at_least)}")
    return "\n".join(lines)


def _step_text(step: Step) -> str:
    return f"{TITLES[step.assumption]} {step.choice}: {ledger_epsilon(step.epsilon, step.at_least)}"


def _finite(value: float | None) -> float | None:
    return None if value is None or math.isinf(value) else value

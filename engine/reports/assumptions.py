"""The table of assumptions of an ε as text and as plain fields."""

import math
from collections.abc import Sequence
from typing import Any

from engine.privacy.assumptions import TITLES, Row, Step, Training, has_incomplete_epoch
from engine.reports.numbers import delta_text, epsilon_text

UNKNOWN = "no valid ε is known"


def ledger_epsilon(epsilon: float | None, at_least: float | None = None) -> str:
    """Return an ε as text, with a lower bound (``at_least``) where there is one."""
    if epsilon is None:
        return UNKNOWN
    return f"ε = {epsilon_text(epsilon)}" + (f", at least {epsilon_text(at_least)}" if at_least else "")


def incomplete_epochs(training: Training) -> str:
    """Return what the lower bound for shuffled batches leaves out; empty if all epochs are complete."""
    if training.unit == "client":
        return ""
    parts = [part for part in training.own if has_incomplete_epoch(training, part)]
    if not parts:
        return ""
    if len(training.own) > 1 or not training.parts:
        return "The last epoch is incomplete, so the lower bound for shuffled batches does not count it."
    (part,) = parts
    batches = math.ceil(part.examples / part.batch_size)
    epochs = math.ceil(part.steps / batches)
    return (
        f"The training takes {part.steps:,} steps; {epochs:,} complete epochs would take {batches * epochs:,}. So the "
        f"lower bound for shuffled batches counts {epochs - 1:,} of {epochs:,} epochs."
    )


def ledger_fields(rows: Sequence[Row], steps: Sequence[Step]) -> dict[str, Any]:
    """Return the table for JSON; ε is null where it is infinite or unknown, and ``known`` distinguishes the two."""
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
    """Return the table for a shell.

    Args:
        rows: each assumption with its choices.
        steps: corrections from the ε by Rényi accounting, which a paper would report.
        own: changes that the user assumes.
    """
    lines = []
    for row in rows:
        if row.claimed:
            lines.append(f"{TITLES[row.assumption]}: {row.choice}")
        else:
            lines.append(f"    alternative: {row.choice}: {ledger_epsilon(row.epsilon, row.at_least)}")
    claimed = next(row for row in rows if row.claimed)
    first, *others = steps
    lines.append(f"Guarantee: {ledger_epsilon(claimed.epsilon, claimed.at_least)} at δ = {delta_text(claimed.delta)}")
    if others:
        corrections = "; ".join(map(_step_text, others))
        lines.append(
            f"By Rényi accounting, as in most papers: {ledger_epsilon(first.epsilon)}. Corrected: {corrections}"
        )
    if own:
        changes = "; ".join(f"{TITLES[step.assumption]} {step.choice}" for step in own)
        lines.append(f"Under your assumptions ({changes}): {ledger_epsilon(own[-1].epsilon, own[-1].at_least)}")
    return "\n".join(lines)


def _step_text(step: Step) -> str:
    return f"{TITLES[step.assumption]} {step.choice}: {ledger_epsilon(step.epsilon, step.at_least)}"


def _finite(value: float | None) -> float | None:
    return None if value is None or math.isinf(value) else value

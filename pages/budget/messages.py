"""Texts and table rows of the page Privacy budget. Without Streamlit."""

from collections.abc import Sequence
from typing import Any

from engine.config.mechanism_registry import NOT_RECORDED
from engine.privacy.budget import BudgetState
from engine.reports.numbers import delta_text
from engine.service.budget_totals import AffordableRun
from pages.shared import address

INTRODUCTION = (
    "Each run on the same sentences reveals a little more about them. The usual composition theorems need values of ε "
    "that are fixed in advance. They do not cover an ε that you choose by earlier results. A **budget** fixes a "
    "total ε before the first run. Each run is charged in full before its first step. A run that costs more than the "
    "remaining budget is refused. The privacy guarantee for all charged runs together is the total ε."
)
COVERAGE = """\
**Counted runs**

- The charge of a cancelled run, or of one that is deleted before it ends, falls to the cost of the steps up to its last
  saved scores. Without saved scores it is 0. With shuffled batches, phases or sampled clients, such a run stays charged
  in full: its cost is not proportional to the number of steps. So does a failed run, and one deleted after its end.
- Runs with the same noise, such as reruns with the same seed, count once. With noise from the operating system, each
  run counts.
- A budget per client is valid for one partition of the corpus: a run with other clients is refused.
- The total holds under the adjacency that all charged runs have in common. An ε for adding or removing one sentence
  also holds for zeroing a sentence out. Charges of earlier versions have no recorded adjacency.
- A corpus that shares sentences with this one, such as a changed copy, draws on this budget too. The comparison
  ignores case and punctuation, and finds neither cut nor reworded sentences. It includes only corpora that the user
  may use.

**Runs that are not counted**

- Before the first total was set: deleted runs, and runs of the command `train`.
- Published runs: once there is a budget, the table *Unprotected accesses* shows them in one line.
- Rounds of a real federation: each client's own ledger counts them.
- Runs on deleted corpora, runs with other programs, and runs whose entries a user with write access removed from the
  database.

**Limits of the guarantee**

- Seeded noise is for simulation: anyone who knows the seed can subtract the noise, and no budget prevents that.
- A total that you raise after you have seen results depends on these results. The theorem on privacy filters does not
  cover such a total. All totals remain stored.
- The entries form a hash chain, so a manual change of an entry is detected. To detect a complete rewrite of the
  entries, save the *chain head*, the hash of the newest entry, and compare it later. Once there is a
  budget, the chain head is at the end of this page.
"""
BROKEN = (
    "At least one run on this corpus had no privacy guarantee. So no ε bounds what all runs together reveal, whatever "
    "the charges below are. A larger total does not change this."
)
ACCESSES = (
    "A run without a privacy guarantee is refused, unless its user accepts it as an unprotected access. Scores on the "
    "validation and test sets have no noise. So each run is also an unprotected access to these two sets; these "
    "accesses are not listed. A run with a failed noise check is charged and is also listed as an unprotected access. "
    "Its charge is the planned cost, which is no upper bound on the true cost."
)
AFFORDABLE = (
    "The budget adds Rényi divergences, which gives a larger ε than PLD accounting. So a run can cost more than the "
    "whole budget although its own ε is not above the total."
)


def charges(now: BudgetState) -> list[dict[str, Any]]:
    """Return one row for each charge, the newest first."""
    capacity = now.budget.filter.capacity if now.budget else 1.0
    return [
        {
            "share": 100 * charge.rdp / capacity,
            "what": charge.what,
            "status": "running" if charge.pending else "finished",
            "adjacency": charge.neighbouring or NOT_RECORDED,
            "run ID": charge.run or "–",
            "charged": charge.at[:16].replace("T", " "),
        }
        for charge in sorted(now.bookings, key=lambda charge: charge.at, reverse=True)
    ]


def unprotected_accesses(now: BudgetState) -> list[dict[str, Any]]:
    """Return one row for each unprotected access, the newest first."""
    return [
        {"what": access.what, "run ID": access.run or "–", "when": access.at[:16].replace("T", " ")}
        for access in sorted(now.looks, key=lambda access: access.at, reverse=True)
    ]


def totals(now: BudgetState) -> list[dict[str, Any]]:
    """Return one row for each total that was ever set."""
    return [
        {
            "set on": total.set_at[:16].replace("T", " "),
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

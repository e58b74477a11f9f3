"""Power of a canary audit: the median bound on correct mechanisms of known ε, ÷ ε.

The table beside this module has calibration runs with the settings of ``benchmarks.audit_power``, which writes it:
correct DP-SGD steps for the white-box attacker, the published audits of correct runs for the black-box attacker.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

TABLE = Path(__file__).with_suffix(".json")
"""The calibration runs."""
COUNT, RATES = "count", "error rates"
"""Methods of the white-box attacker's bound, and names in the table: count of correct guesses; error rates on half of
the canaries, in older audits.
"""
GUESSES = "guesses"
"""Method of the black-box attacker's bound."""


@dataclass(frozen=True)
class Power:
    """Power of an audit.

    Attributes:
        canaries: Canaries of each calibration run, at most those of the audit.
        seeds: Runs whose guesses share one bound, at most those of the audit.
        medians: Median of bound ÷ ε by true ε.
    """

    canaries: int
    seeds: int
    medians: Mapping[float, float]


def power(kind: str, canaries: int, *, method: str, seeds: int = 1) -> Power | None:
    """Return the power of an audit of this size, from calibration runs that were not larger; None without any.

    Args:
        kind: Type of canary, "directions" or "sentences".
        canaries: Canaries of each run.
        method: How the bound was computed.
        seeds: Runs whose guesses share one bound.
    """
    sizes = [
        (int(cell["seeds"]), int(cell["canaries"]))
        for cell in cells()
        if cell["kind"] == kind and cell["method"] == method
        if cell["canaries"] <= canaries and cell["seeds"] <= seeds
    ]
    if not sizes:
        return None
    number, size = max(sizes)
    medians = {
        float(cell["epsilon"]): float(cell["median"])
        for cell in cells()
        if (cell["kind"], cell["method"], cell["seeds"], cell["canaries"]) == (kind, method, number, size)
    }
    return Power(size, number, medians)


@lru_cache(maxsize=1)
def cells() -> tuple[Mapping[str, Any], ...]:
    """Return the cells of the table."""
    return tuple(json.loads(TABLE.read_text(encoding="utf-8"))["cells"])


def command() -> str:
    """Return the command that wrote the table."""
    return str(json.loads(TABLE.read_text(encoding="utf-8"))["command"])

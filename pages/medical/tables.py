"""Table rows of FedNER's table and figures. Without Streamlit."""

from collections.abc import Sequence
from typing import Any

from engine.experiments.papers import fedner_2020, fedner_2020_scores
from engine.experiments.papers.fedner_2020_scores import Row
from engine.experiments.seed_aggregates import seeds_text
from engine.reports.fedner import TITLES
from engine.reports.numbers import points_text
from pages.shared import address

HEADINGS = {
    "strict F1": "strict F1, %",
    "± sd": "± sd, %",
    "P": "strict precision, %",
    "R": "strict recall, %",
    "relaxed F1": "relaxed F1, %",
    "one to one": "one-to-one F1, %",
    "reported strict": "reported strict F1, %",
    "reported relaxed": "reported relaxed F1, %",
}
"""Headings of the columns of scores."""


def rows(results: Sequence[Row]) -> list[dict[str, Any]]:
    """Return one row for each cell, in per cent as in the paper: measured scores, and reported ones where available."""
    table, reported = [], any(row.cell.published for row in results)
    for row in results:
        reported_scores = row.cell.published or {}
        table.append(
            {
                "method": fedner_2020.title(fedner_2020.what(row.cell)),
                "strict F1": _percent(row.strict.f1.mean if row.strict else None),
                "± sd": _percent(row.strict.f1.known_sd if row.strict else None),
                "P": _percent(row.strict.precision.mean if row.strict else None),
                "R": _percent(row.strict.recall.mean if row.strict else None),
                "relaxed F1": _percent(row.relaxed.f1.mean if row.relaxed else None),
                "one to one": _percent(row.one_to_one.f1.mean if row.one_to_one else None),
                **({"reported strict": _percent(reported_scores.get("strict_f1"))} if reported else {}),
                **({"reported relaxed": _percent(reported_scores.get("relaxed_f1"))} if reported else {}),
                "seeds": seeds_text(row.runs) if row.runs else "",
                "run": address.link(row.cell.config),
            }
        )
    return table


def gains(results: Sequence[Row]) -> list[dict[str, Any]]:
    """Return the gain of FedNER over each way of training alone, paired by seed."""
    return [
        {
            "within FedNER": fedner_2020.title(fedner_2020.what(together.cell)),
            "silo": TITLES[together.cell.platform],
            "compared with": fedner_2020.baseline(alone.cell),
            "gain, points": 100 * gain.mean,
            "95 % CI": f"{points_text(gain.interval.low)} to {points_text(gain.interval.high)}",
            "significant (5 %)": "yes" if gain.significant else "no",
            "seeds": gain.number,
        }
        for together, alone, gain in fedner_2020_scores.gains(results)
    ]


def _percent(share: float | None) -> float | None:
    return None if share is None else 100 * share

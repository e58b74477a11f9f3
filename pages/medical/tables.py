"""FedNER's rows → tables: no streamlit."""

from collections.abc import Sequence
from typing import Any

from engine.experiments.papers import fedner_2020
from engine.experiments.papers.fedner_2020 import Row
from engine.experiments.seed_aggregates import seeds_text
from engine.reports.fedner import TITLES
from engine.reports.numbers import points_text
from pages.shared import address


def rows(found: Sequence[Row]) -> list[dict[str, Any]]:
    """One for each cell, in per cent, as the paper prints: measured, and what was printed where there is something."""
    shown, known = [], any(each.cell.published for each in found)
    for each in found:
        printed = each.cell.published or {}
        shown.append(
            {
                "method": fedner_2020.what(each.cell),
                "strict F1": _percent(each.strict.f1.mean if each.strict else None),
                "± sd": _percent(each.strict.f1.known_sd if each.strict else None),
                "P": _percent(each.strict.precision.mean if each.strict else None),
                "R": _percent(each.strict.recall.mean if each.strict else None),
                "relaxed F1": _percent(each.relaxed.f1.mean if each.relaxed else None),
                "one to one": _percent(each.one_to_one.f1.mean if each.one_to_one else None),
                **({"printed strict": _percent(printed.get("strict_f1"))} if known else {}),
                **({"printed relaxed": _percent(printed.get("relaxed_f1"))} if known else {}),
                "seeds": seeds_text(each.runs) if each.runs else "",
                "run": address.link(each.cell.config),
            }
        )
    return shown


def gains(found: Sequence[Row]) -> list[dict[str, Any]]:
    """What FedNER has above each way of training alone, paired by seed."""
    return [
        {
            "within FedNER": fedner_2020.what(together.cell),
            "platform": TITLES[together.cell.platform],
            "compared with": str(alone.cell.setting["trained"]),
            "gain, points": 100 * gain.mean,
            "95 % interval": f"{points_text(gain.interval.low)} to {points_text(gain.interval.high)}",
            "told from chance": "yes" if gain.significant else "no",
            "seeds": gain.number,
        }
        for together, alone, gain in fedner_2020.gains(found)
    ]


def _percent(share: float | None) -> float | None:
    return None if share is None else 100 * share

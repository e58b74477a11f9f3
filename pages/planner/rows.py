"""Table rows of a plan, and the names of its curves. Without Streamlit and Plotly."""

from collections.abc import Sequence
from typing import Any

import pandas as pd

from engine.config import FLAT, SimulationConfig
from engine.experiments.planner.ranking import Judged
from engine.experiments.planner.recommendation import NextRun, Recommendation
from engine.reports.csv_export import csv_text
from engine.reports.numbers import epsilon_text
from engine.reports.planner import GRADES, measure_text, next_text, reading_text, rows, seeds
from pages.shared import address, metrics, titles


def settings(judged: Sequence[Judged]) -> list[dict[str, Any]]:
    """Return the configurations of an answer as table rows."""
    return [
        {
            "ε": epsilon_text(result.setting.epsilon),
            "adjacency": result.setting.adjacency or "–",
            **_reached(result),
            **{measure_text(reading.measure): reading_text(reading) for reading in result.readings},
            metrics.INTERVAL: metrics.interval(*(done.last.test for done in result.setting.done if done.last.test)),
            "seconds": result.setting.seconds,
            "seeds": seeds(result.setting),
            "run": address.link(result.setting.config),
            "report": f"./report?run={result.setting.done[0].run.run_id}",
            "ε rests on": address.ledger(result.setting.done[0].run),
            "setting": titles.setting(result.setting.config, with_corpus=False),
        }
        for result in judged
    ]


def _reached(result: Judged) -> dict[str, str]:
    number = len(result.setting.done)
    return {"reached": f"{GRADES[result.grade]}, {result.hits:,} of {number:,} runs"} if result.thresholds else {}


def selection(plan: Recommendation) -> str:
    """Return a sentence on the choice of the rows in the table."""
    if not plan.target.thresholds:
        return "Each row has the highest F1 within the limits among configurations with at most its ε and seconds."
    reached = plan.answer.reached
    return (
        f"{reached:,} of {len(plan.answer.compared):,} private configurations {'meets' if reached == 1 else 'meet'} "
        "the requirements. The table shows the Pareto-optimal ones in ε, seconds and strength of evidence."
    )


def next_run(run: NextRun) -> str:
    """Return a sentence on a suggested run, with its link."""
    return f"{address.plain(next_text(run))}. [Open it in Explore]({address.link(run.config)})"


def csv(plan: Recommendation) -> str:
    """Return all compared private configurations as CSV, by grade and by margin over the target, highest first."""
    compared = rows(sorted(plan.answer.compared, key=lambda result: (-result.grade, -result.margin)))
    return csv_text(pd.DataFrame([row | {"runs": " ".join(row["runs"])} for row in compared]))


def names(configs: Sequence[SimulationConfig]) -> list[str]:
    """Return a short name for each configuration family, whatever its noise.

    A name has the tagger, and features, clients and rounds where these differ. Families that still share a name get
    as many more fields as are needed to distinguish them.
    """
    flats = [config.flat() for config in configs]
    by_index: dict[int, str] = {}
    common = [name for name in ("features", "clients", "rounds") if _differ(flats, name)]
    short = [_name(flat, common) for flat in flats]
    for name in dict.fromkeys(short):
        same = [index for index, other in enumerate(short) if other == name]
        more: list[str] = []
        for field in FLAT:
            distinct = {_name(flats[index], [*common, *more]) for index in same}
            if len(distinct) < len(same) and field not in _NOISE and _differ([flats[index] for index in same], field):
                more.append(field)
        by_index |= {index: _name(flats[index], [*common, *more]) for index in same}
    return [by_index[index] for index in range(len(flats))]


_NOISE = ("noise_multiplier", "seed", "noise_source")
"""Fields in which the runs of one family may differ."""


def _differ(flats: Sequence[dict[str, Any]], name: str) -> bool:
    return len({repr(flat[name]) for flat in flats}) > 1


def _name(flat: dict[str, Any], fields: Sequence[str]) -> str:
    parts = [titles.TAGGERS.get(flat["tagger"], flat["tagger"])]
    for name in fields:
        value = titles.value(name, flat[name])
        parts.append(value if name in ("features", "data_fraction") else f"{titles.heading(name)} {value}")
    return " · ".join(parts)

"""A plan as tables, and what its curves are called: no streamlit, no plotly."""

from collections.abc import Sequence
from typing import Any

import pandas as pd

from engine.config import FLAT, SimulationConfig
from engine.experiments.planner.ranking import Judged
from engine.experiments.planner.recommendation import NextRun, Recommendation
from engine.reports.numbers import epsilon_text
from engine.reports.planner import GRADES, measure_text, next_text, reading_text, rows, seeds
from pages.shared import address, metrics, titles


def settings(judged: Sequence[Judged]) -> list[dict[str, Any]]:
    """The settings of an answer."""
    return [
        {
            "ε": epsilon_text(each.setting.epsilon),
            **_reached(each),
            **{measure_text(one.measure): reading_text(one) for one in each.readings},
            metrics.INTERVAL: metrics.interval(*(one.last.test for one in each.setting.done if one.last.test)),
            "seconds": each.setting.seconds,
            "seeds": seeds(each.setting),
            "run": address.link(each.setting.config),
            "report": f"./report?run={each.setting.done[0].run.run_id}",
            "ε rests on": address.ledger(each.setting.done[0].run),
            "setting": titles.setting(each.setting.config, with_corpus=False),
        }
        for each in judged
    ]


def _reached(each: Judged) -> dict[str, str]:
    number = len(each.setting.done)
    return {"reached": f"{GRADES[each.grade]}, {each.hits:,} of {number:,}"} if each.thresholds else {}


def selection(plan: Recommendation) -> str:
    """Which settings stand in the table."""
    if not plan.target.thresholds:
        return "None of the others within these limits has a higher F1 at the same price."
    reached = plan.answer.reached
    return (
        f"{reached:,} of {len(plan.answer.compared):,} private settings {'reaches' if reached == 1 else 'reach'} it; "
        "here are those that none of the others beats in ε, seconds and sureness."
    )


def next_run(each: NextRun) -> str:
    """A next run with its link."""
    return f"{address.plain(next_text(each))}. [Open it in Explore]({address.link(each.config)})"


def csv(plan: Recommendation) -> str:
    """All private settings that were compared, those that clear the target most first."""
    found = rows(sorted(plan.answer.compared, key=lambda each: (-each.grade, -each.margin)))
    return pd.DataFrame([each | {"runs": " ".join(each["runs"])} for each in found]).to_csv(index=False)


def names(configs: Sequence[SimulationConfig]) -> list[str]:
    """What tells recipes apart, whatever their noise: tagger, features and clients, and of those that have these alike
    so much more as is needed."""
    flats = [config.flat() for config in configs]
    found: dict[int, str] = {}
    telling = [name for name in ("features", "clients", "rounds") if _differ(flats, name)]
    short = [_name(flat, telling) for flat in flats]
    for name in dict.fromkeys(short):
        alike = [place for place, each in enumerate(short) if each == name]
        more: list[str] = []
        for field in FLAT:
            said = {_name(flats[place], [*telling, *more]) for place in alike}
            if len(said) < len(alike) and field not in _NOISE and _differ([flats[place] for place in alike], field):
                more.append(field)
        found |= {place: _name(flats[place], [*telling, *more]) for place in alike}
    return [found[place] for place in range(len(flats))]


_NOISE = ("noise_multiplier", "seed", "noise_source")
"""Fields in which runs of one recipe may differ."""


def _differ(flats: Sequence[dict[str, Any]], name: str) -> bool:
    return len({repr(flat[name]) for flat in flats}) > 1


def _name(flat: dict[str, Any], fields: Sequence[str]) -> str:
    said = [titles.TAGGERS.get(flat["tagger"], flat["tagger"])]
    for name in fields:
        value = titles.value(name, flat[name])
        said.append(value if name in ("features", "data_fraction") else f"{titles.heading(name)} {value}")
    return " · ".join(said)

"""Finished runs → the best F1 that is known for each ε, drawn: no streamlit."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import plotly.graph_objects as go

from engine.config import SimulationConfig, with_noise
from engine.experiments import paper
from engine.experiments.paper import Measured
from engine.records import EntityScores
from engine.reports.numbers import epsilon_text
from engine.runs import Overview
from pages.shared import address, charts, compare, palette

ALL = "all names"
_SHARE_OF_NO_PRIVACY = 0.18
"""How much of the axis the place of ε = ∞ takes."""
FEDERATED = ((5, palette.TYPES[0], "square"), (20, palette.TYPES[2], "triangle-up"))
"""Numbers of clients that have a line of their own, and how it looks."""


@dataclass(frozen=True)
class Place:
    """Runs that differ in their seed alone. epsilon: the largest spent. f1, sd: mean and standard deviation over so
    many seeds; seeds_text: the same, those of an older engine marked."""

    config: SimulationConfig
    epsilon: float
    f1: float
    sd: float
    seeds: int
    seeds_text: str

    @property
    def private(self) -> bool:
        """Whether anything is promised."""
        return not math.isinf(self.epsilon)


def f1_of(scores: EntityScores, metric: str, kind: str) -> float:
    """F1 of whole names of a type, or of all, or as the paper counts."""
    if metric == "published":
        return paper.published_metric(scores).f1
    if kind == ALL:
        return scores.f1
    return scores.strict[kind].ratios.f1 if kind in scores.strict else 0.0


def places(found: Sequence[Overview], corpus: str, metric: str, kind: str) -> list[Place]:
    """Settings of finished runs on a corpus that protect sentences and sample as the accounting has it: other ε promise
    other things. Runs whose noise check failed are left out."""
    here = [each for each in found if each.run.config.corpus == corpus and _alike(each.run.config)]
    by_id = {each.run.run_id: each for each in here}
    result = []
    for config, by_seed in compare.configurations(here).items():
        tested = [each for run_id in by_seed.values() if (each := by_id[run_id]).last and each.last.test]
        lasts = [each.last for each in tested if each.last]
        scores = [f1_of(last.test, metric, kind) for last in lasts if last.test]
        if scores:
            spread = statistics.stdev(scores) if len(scores) > 1 else 0.0
            epsilon = max(last.privacy.epsilon for last in lasts)
            marked = paper.seeds_text([each.run for each in tested])
            result.append(Place(config, epsilon, statistics.fmean(scores), spread, len(scores), marked))
    return result


def _alike(config: SimulationConfig) -> bool:
    return config.privacy.mechanism == "dp-sgd" and config.privacy.sampling == "poisson"


def best(found: Sequence[Place], clients: int | None = None) -> list[Place]:
    """Private settings that none beats, with so many clients or any number: no other has a higher F1 at the same or a
    smaller ε. By ε."""
    top, kept = -math.inf, []
    among = [each for each in found if each.private and clients in (None, each.config.federation.clients)]
    for place in sorted(among, key=lambda each: (each.epsilon, -each.f1)):
        if place.f1 > top:
            top = place.f1
            kept.append(place)
    return kept


def ceiling(found: Sequence[Place], frontier: Sequence[Place]) -> Place | None:
    """The twin without privacy of the best private setting, or else the best without privacy."""
    open_ones = {each.config: each for each in found if not each.private}
    if frontier and (twin := open_ones.get(with_noise(frontier[-1].config, 0.0))):
        return twin
    return max(open_ones.values(), key=lambda each: each.f1, default=None)


def printed(found: Sequence[Measured]) -> list[tuple[float, float, str]]:
    """The paper's private rows: ε by honest accounting, as far as it is known, printed F1, what they are."""
    return [
        (each.epsilon, each.cell.published["f1"], paper.setting_text(each.cell))
        for each in found
        if each.epsilon is not None and not math.isinf(each.epsilon)
    ]


def rows(frontier: Sequence[Place], top: Place | None) -> list[dict[str, Any]]:
    """The frontier as a table, and the ceiling last."""
    return [
        {
            "ε": epsilon_text(each.epsilon),
            "F1": each.f1,
            "± sd": each.sd if each.seeds > 1 else None,
            "seeds": each.seeds_text,
            "setting": compare.label(each.config),
            "run": address.link(each.config),
        }
        for each in (*frontier, *([top] if top else []))
    ]


def answer(frontier: Sequence[Place], top: Place | None) -> str:
    """The frontier in a sentence."""
    if not frontier:
        return "No private run is done on this corpus yet."
    last = frontier[-1]
    text = f"The most that is known: F1 {last.f1:.2f} at ε = {epsilon_text(last.epsilon)}"
    small = [each for each in frontier if each.epsilon <= 1.0]
    if small and small[-1] is not last:
        text += f", {small[-1].f1:.2f} at ε = {epsilon_text(small[-1].epsilon)}"
    return text + (f"; without privacy {top.f1:.2f}." if top else ".")


def picture(
    found: Sequence[Place],
    frontier: Sequence[Place],
    top: Place | None,
    published: Sequence[tuple[float, float, str]],
    floor: float,
    *,
    key: str,
) -> go.Figure:
    """F1 against ε: every setting, the frontier, the ceiling and the floor. A click opens the setting in Explore."""
    known = [each.epsilon for each in found if each.private] + [epsilon for epsilon, _, _ in published]
    low = math.floor(math.log10(min([0.5, *known])) * 2) / 2
    high = math.ceil(math.log10(max([10.0, *known])) * 2) / 2
    end = high + (high - low) * _SHARE_OF_NO_PRIVACY

    def x(epsilon: float) -> float:
        return (high + end) / 2 if math.isinf(epsilon) else math.log10(epsilon)

    figure = go.Figure()
    figure.add_trace(_points(found, x, "all settings", palette.QUIET, "circle-open", 7))
    line = _points(frontier, x, "best known", palette.F1, "circle", 12)
    line.mode, line.line = "lines+markers", {"shape": "hv", "color": palette.F1, "width": 2.5}
    line.error_y = {"type": "data", "array": [each.sd for each in frontier], "thickness": 1.5}
    figure.add_trace(line)
    for (clients, colour, symbol), dash in zip(FEDERATED, ("dash", "dot"), strict=True):
        if split := best(found, clients):
            line = _points(split, x, f"{clients} clients", colour, symbol, 9)
            line.mode, line.line = "lines+markers", {"shape": "hv", "color": colour, "width": 2, "dash": dash}
            figure.add_trace(line)
    if published:
        figure.add_trace(
            go.Scatter(
                x=[x(epsilon) for epsilon, _, _ in published],
                y=[f1 for _, f1, _ in published],
                mode="markers",
                name="printed, at honest ε",
                marker={"symbol": "diamond-open", "size": 11, "color": palette.RECALL, "line": {"width": 2.2}},
                text=[name for _, _, name in published],
                hovertemplate="%{text}: printed F1 %{y:.3f}<extra></extra>",
            )
        )
    for value, text in ((top.f1 if top else None, "not private"), (floor, "finds no name")):
        if value is not None:
            figure.add_hline(
                y=value,
                line={"dash": "dot", "width": 1.5, "color": palette.QUIET},
                annotation={"text": text, "font": {"size": 11}},
                annotation_position="top left",
            )
    ticks = [step * 10.0**decade for decade in range(math.floor(low), math.ceil(high) + 1) for step in (1, 3)]
    ticks = [tick for tick in ticks if low - 1e-9 <= math.log10(tick) <= high + 1e-9]
    return figure.update_layout(
        **charts.plain_layout(key, height=440),
        margin={"l": 52, "r": 8, "t": 64, "b": 48},
        hovermode="closest",
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
        xaxis={
            "title": {"text": "ε, less is more private (log axis)"},
            "range": [low - 0.05, end],
            "tickvals": [*map(math.log10, ticks), (high + end) / 2],
            "ticktext": [*(f"{tick:g}" for tick in ticks), "∞"],
            "gridcolor": palette.GRID,
            "zeroline": False,
        },
        yaxis={"title": {"text": "F1, test part"}, "range": [-0.03, 1], "gridcolor": palette.GRID, "zeroline": False},
    )


def _points(found: Sequence[Place], x: Any, name: str, colour: str, symbol: str, size: int) -> go.Scatter:
    return go.Scatter(
        x=[x(each.epsilon) for each in found],
        y=[each.f1 for each in found],
        mode="markers",
        name=name,
        marker={"symbol": symbol, "size": size, "color": colour},
        text=[
            f"<b>{compare.label(each.config)}</b><br>ε = {epsilon_text(each.epsilon)}, F1 {each.f1:.3f}"
            + (f" ± {each.sd:.3f}, seeds: {each.seeds_text}" if each.seeds > 1 else f", seeds: {each.seeds_text}")
            for each in found
        ],
        customdata=[address.link(each.config) for each in found],
        hovertemplate="%{text}<extra>" + name + "</extra>",
    )

"""Finished runs → the best F1 that is known for each ε, drawn: no streamlit."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import plotly.graph_objects as go

from engine.config import SimulationConfig, with_noise
from engine.experiments import paper
from engine.experiments.frontier import frontier as unbeaten
from engine.experiments.over_seeds import seeds_text
from engine.experiments.paper import Row
from engine.experiments.published_metric import published_metric
from engine.experiments.spread import Spread, spread
from engine.records import EntityScores
from engine.reports.numbers import epsilon_text
from engine.runs import Overview
from pages.shared import address, charts, palette, titles
from pages.shared.epsilon_axis import EpsilonAxis
from pages.shared.finished import configurations

ALL = "all names"
FEDERATED = ((5, palette.TYPES[0], "square"), (20, palette.TYPES[2], "triangle-up"))
"""Numbers of clients that have a line of their own, and how it looks."""


@dataclass(frozen=True)
class Setting:
    """Runs that differ in their seed alone. epsilon: the largest spent. f1: over the seeds. seeds_text: how many they
    are, those of an older engine marked."""

    config: SimulationConfig
    epsilon: float
    f1: Spread
    seeds_text: str

    @property
    def private(self) -> bool:
        """Whether anything is promised."""
        return not math.isinf(self.epsilon)


def f1_of(scores: EntityScores, metric: str, kind: str) -> float:
    """F1 of whole names of a type, or of all, or as the paper counts."""
    if metric == "published":
        return published_metric(scores).f1
    if kind == ALL:
        return scores.f1
    return scores.strict[kind].ratios.f1 if kind in scores.strict else 0.0


def settings(found: Sequence[Overview], corpus: str, metric: str, kind: str) -> list[Setting]:
    """Settings of finished runs on a corpus that protect sentences and sample as the accounting has it: other ε promise
    other things. Runs whose noise check failed are left out."""
    here = [each for each in found if each.run.config.corpus == corpus and _alike(each.run.config)]
    by_id = {each.run.run_id: each for each in here}
    result = []
    for config, by_seed in configurations(here).items():
        tested = [each for run_id in by_seed.values() if (each := by_id[run_id]).last and each.last.test]
        lasts = [each.last for each in tested if each.last]
        scores = [f1_of(last.test, metric, kind) for last in lasts if last.test]
        if scores:
            epsilon = max(last.privacy.epsilon for last in lasts)
            result.append(Setting(config, epsilon, spread(scores), seeds_text([each.run for each in tested])))
    return result


def _alike(config: SimulationConfig) -> bool:
    return config.privacy.mechanism == "dp-sgd" and config.privacy.sampling == "poisson"


def best(found: Sequence[Setting], clients: int | None = None) -> list[Setting]:
    """Private settings that none beats, with so many clients or any number: no other has a higher F1 at the same or a
    smaller ε. By ε."""
    among = [each for each in found if each.private and clients in (None, each.config.federation.clients)]
    return unbeaten(among, epsilon=lambda each: each.epsilon, f1=lambda each: each.f1.mean)


def ceiling(found: Sequence[Setting], frontier: Sequence[Setting]) -> Setting | None:
    """The twin without privacy of the best private setting, or else the best without privacy."""
    open_ones = {each.config: each for each in found if not each.private}
    if frontier and (twin := open_ones.get(with_noise(frontier[-1].config, 0.0))):
        return twin
    return max(open_ones.values(), key=lambda each: each.f1.mean, default=None)


def printed(found: Sequence[Row]) -> list[tuple[float, float, str]]:
    """The paper's private rows: ε by honest accounting, as far as it is known, printed F1, what they are."""
    return [
        (epsilon, row.cell.published["f1"], paper.setting_text(row.cell))
        for row in found
        if (epsilon := row.found.epsilon) is not None and not math.isinf(epsilon)
    ]


def rows(frontier: Sequence[Setting], top: Setting | None) -> list[dict[str, Any]]:
    """The frontier as a table, and the ceiling last."""
    return [
        {
            "ε": epsilon_text(each.epsilon),
            "F1": each.f1.mean,
            "± sd": each.f1.known_sd,
            "seeds": each.seeds_text,
            "setting": titles.setting(each.config),
            "run": address.link(each.config),
        }
        for each in (*frontier, *([top] if top else []))
    ]


def answer(frontier: Sequence[Setting], top: Setting | None) -> str:
    """The frontier in a sentence."""
    if not frontier:
        return "No private run is done on this corpus yet."
    last = frontier[-1]
    text = f"The most that is known: F1 {last.f1.mean:.2f} at ε = {epsilon_text(last.epsilon)}"
    small = [each for each in frontier if each.epsilon <= 1.0]
    if small and small[-1] is not last:
        text += f", {small[-1].f1.mean:.2f} at ε = {epsilon_text(small[-1].epsilon)}"
    return text + (f"; without privacy {top.f1.mean:.2f}." if top else ".")


def picture(
    found: Sequence[Setting],
    frontier: Sequence[Setting],
    top: Setting | None,
    published: Sequence[tuple[float, float, str]],
    floor: float,
    *,
    key: str,
) -> go.Figure:
    """F1 against ε: every setting, the frontier, the ceiling and the floor. A click opens the setting in Explore."""
    known = [each.epsilon for each in found if each.private] + [epsilon for epsilon, _, _ in published]
    axis = EpsilonAxis(known, least=0.5)
    figure = go.Figure()
    axis.shade(figure)
    figure.add_trace(_points(found, axis, "all settings", palette.QUIET, "circle-open", 7))
    line = _points(frontier, axis, "best known", palette.F1, "circle", 12)
    line.mode, line.line = "lines+markers", {"shape": "hv", "color": palette.F1, "width": 2.5}
    line.error_y = {"type": "data", "array": [each.f1.sd for each in frontier], "thickness": 1.5}
    figure.add_trace(line)
    for (clients, colour, symbol), dash in zip(FEDERATED, ("dash", "dot"), strict=True):
        if split := best(found, clients):
            line = _points(split, axis, f"{clients} clients", colour, symbol, 9)
            line.mode, line.line = "lines+markers", {"shape": "hv", "color": colour, "width": 2, "dash": dash}
            figure.add_trace(line)
    if published:
        figure.add_trace(
            go.Scatter(
                x=[axis.position(epsilon) for epsilon, _, _ in published],
                y=[f1 for _, f1, _ in published],
                mode="markers",
                name="printed, at honest ε",
                marker={"symbol": "diamond-open", "size": 11, "color": palette.RECALL, "line": {"width": 2.2}},
                text=[name for _, _, name in published],
                hovertemplate="%{text}: printed F1 %{y:.3f}<extra></extra>",
            )
        )
    for value, text in ((top.f1.mean if top else None, "not private"), (floor, "finds no name")):
        if value is not None:
            figure.add_hline(
                y=value,
                line={"dash": "dot", "width": 1.5, "color": palette.QUIET},
                annotation={"text": text, "font": {"size": 11}},
                annotation_position="top left",
            )
    return figure.update_layout(
        **charts.plain_layout(key, height=440),
        margin={"l": 52, "r": 8, "t": 64, "b": 48},
        hovermode="closest",
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
        xaxis=axis.layout(),
        yaxis={"title": {"text": "F1, test part"}, "range": [-0.03, 1], "gridcolor": palette.GRID, "zeroline": False},
    )


def _points(found: Sequence[Setting], axis: EpsilonAxis, name: str, colour: str, symbol: str, size: int) -> go.Scatter:
    return go.Scatter(
        x=[axis.position(each.epsilon) for each in found],
        y=[each.f1.mean for each in found],
        mode="markers",
        name=name,
        marker={"symbol": symbol, "size": size, "color": colour},
        text=[
            f"<b>{titles.setting(each.config)}</b><br>ε = {epsilon_text(each.epsilon)}, F1 {each.f1.text}, "
            f"seeds: {each.seeds_text}"
            for each in found
        ],
        customdata=[address.link(each.config) for each in found],
        hovertemplate="%{text}<extra>" + name + "</extra>",
    )

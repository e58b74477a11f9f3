"""Rows and charts of the paper's tables. Without Streamlit."""

from collections.abc import Mapping, Sequence
from typing import Any

import plotly.graph_objects as go

from engine.config import SimulationConfig
from engine.experiments.papers import jana_biemann_2021
from engine.experiments.papers.jana_biemann_2021 import Row
from engine.experiments.seed_aggregates import OverSeeds
from engine.reports.numbers import epsilon_text
from engine.service.reproducibility import Rerun
from pages.shared import address, charts, palette
from pages.shared.metrics import in_metric

COUNTERFACTUAL_SCORES = ("F1, paper's metric", "F1, entity-level")
"""Score columns of the counterfactual runs."""


def rows(table_rows: Sequence[Row], metric: str, repeats: Mapping[str, Rerun]) -> list[dict[str, Any]]:
    """Return table rows: reported and measured scores, their difference, rerun results, links.

    Args:
        table_rows: The rows of a table of the paper.
        metric: A key of :data:`pages.shared.metrics.METRICS`; the difference exists in the paper's metric only.
        repeats: Reruns by the identity of their first run.
    """
    table = []
    for row in table_rows:
        scores, cell, ours = in_metric(row.found, metric), row.cell, row.found
        reported = cell.published
        table.append(
            {
                "setting": jana_biemann_2021.setting_text(cell),
                "reported P": reported["precision"],
                "reported R": reported["recall"],
                "reported F1": reported["f1"],
                "P": scores.precision.mean if scores else None,
                "R": scores.recall.mean if scores else None,
                "F1": scores.f1.mean if scores else None,
                "± sd": scores.f1.known_sd if scores else None,
                "difference": scores.f1.mean - reported["f1"] if scores and metric == "published" else None,
                "reported ε": f"{reported['epsilon']:g}" if "epsilon" in reported else _reported_epsilon(row),
                "ε": epsilon_text(ours.epsilon) if ours.epsilon is not None else "",
                "seeds": ours.seeds_text,
                "reruns": _rerun_text([repeats[run.run_id] for run in ours.runs if run.run_id in repeats]),
                "run": address.link(cell.config),
                "ε rests on": address.ledger(*ours.runs),
            }
        )
    return table


def _rerun_text(repeats: Sequence[Rerun]) -> str:
    """Return how many reruns of a row are identical to their first run, or else the largest difference of F1."""
    outcomes = [rerun.comparison for rerun in repeats if rerun.comparison]
    different = [outcome for outcome in outcomes if not outcome.identical]
    if different:
        return max(different, key=lambda outcome: abs(outcome.f1_difference)).text
    return f"{len(outcomes)} of {len(repeats)} identical" if repeats else ""


def _reported_epsilon(row: Row) -> str:
    """Return the ε that the paper reports outside of a table: tables 5 and 6 have one ε for all of their rows."""
    return "0.688" if row.cell.table in ("table5", "table6") else "∞"


def counterfactuals(table: str, configs: Mapping[str, SimulationConfig]) -> dict[str, SimulationConfig]:
    """Return the counterfactual configurations of a table: those in phases for table 6, the others for table 2."""
    if table not in ("table2", "table6"):
        return {}
    return {name: config for name, config in configs.items() if name.startswith("phases") == (table == "table6")}


def counterfactual_rows(runs: Sequence[tuple[str, OverSeeds]]) -> list[dict[str, Any]]:
    """Return the rows of counterfactual configurations with their scores."""
    rows = []
    for name, results in runs:
        rows.append(
            {
                "counterfactual": name,
                COUNTERFACTUAL_SCORES[0]: results.token.f1.mean if results.token else None,
                COUNTERFACTUAL_SCORES[1]: results.entity.f1.mean if results.entity else None,
                "± sd": results.entity.f1.known_sd if results.entity else None,
                "seeds": results.seeds_text,
                "run": address.link(results.config),
                "ε rests on": address.ledger(*results.runs),
            }
        )
    return rows


def picture(table_rows: Sequence[Row], metric: str, *, key: str) -> go.Figure:
    """Draw the reported and the measured F1 of each row, with a line at the F1 of a tagger that marks no entity."""
    names = [jana_biemann_2021.setting_text(row.cell) for row in table_rows]
    figure = go.Figure()
    reported_sd = [row.cell.published.get("f1_sd", 0.0) for row in table_rows]
    figure.add_trace(
        go.Scatter(
            x=names,
            y=[row.cell.published["f1"] for row in table_rows],
            error_y={"type": "data", "array": reported_sd, "visible": any(reported_sd), "thickness": 1.5},
            mode="markers",
            name="reported",
            marker={"symbol": "diamond-open", "size": 12, "color": palette.RECALL, "line": {"width": 2.5}},
            hovertemplate="%{x}<br>reported F1 %{y:.3f}<extra></extra>",
        )
    )
    measured = [
        (name, scores) for name, row in zip(names, table_rows, strict=True) if (scores := in_metric(row.found, metric))
    ]
    figure.add_trace(
        go.Scatter(
            x=[name for name, _ in measured],
            y=[scores.f1.mean for _, scores in measured],
            error_y={"type": "data", "array": [scores.f1.sd for _, scores in measured], "thickness": 1.5},
            mode="markers",
            name="measured here",
            marker={"symbol": "circle", "size": 12, "color": palette.F1},
            hovertemplate="%{x}<br>measured F1 %{y:.3f} ± %{error_y.array:.3f}<extra></extra>",
        )
    )
    floors = [row.found.floor.f1 for row in table_rows if row.found.floor]
    if floors and metric == "published":
        figure.add_hline(
            y=floors[0],
            line={"dash": "dot", "width": 1.5, "color": palette.QUIET},
            annotation={"text": "tagger that predicts no entity", "font": {"size": 11}},
            annotation_position="bottom left",
        )
    figure.update_layout(
        **charts.plain_layout(key, height=360),
        margin={"l": 52, "r": 8, "t": 72, "b": 40},
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
        xaxis={"categoryorder": "array", "categoryarray": names, "gridcolor": palette.GRID, "automargin": True},
        yaxis={"title": {"text": "F1"}, "range": [0, 1.02], "gridcolor": palette.GRID, "zeroline": False},
    )
    return figure

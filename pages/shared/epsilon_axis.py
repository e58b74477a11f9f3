"""The ε axis of every picture: logarithmic, with a place of its own for ε = ∞ at its end. No streamlit."""

import math
from collections.abc import Iterable
from typing import Any

import plotly.graph_objects as go

from pages.shared import palette
from pages.shared.charts import log_ticks

SHARE_OF_NO_PRIVACY = 0.2
"""How much of the axis the place of ε = ∞ takes."""
TITLE = "ε, less is more private (log axis)"


LEAST, MOST = 0.01, 100.0
"""The axis of every picture reaches from here to there, wherever its data lie, so that a place means the same in all;
only what lies beyond moves an end."""


class EpsilonAxis:
    """Positions are powers of ten. low, high: ends of what is finite; from high to end is the place of ∞."""

    def __init__(self, epsilons: Iterable[float]) -> None:
        finite = [LEAST, MOST, *(epsilon for epsilon in epsilons if 0 < epsilon < math.inf)]
        self.low = math.floor(math.log10(min(finite)) * 2) / 2
        self.high = math.ceil(math.log10(max(finite)) * 2) / 2
        self.width = (self.high - self.low) * SHARE_OF_NO_PRIVACY / (1 - SHARE_OF_NO_PRIVACY)
        self.end = self.high + self.width

    def position(self, epsilon: float, progress: float | None = None) -> float:
        """Where an ε stands. progress: of a run, 0 to 1, that walks through the place of ∞ as it learns."""
        if math.isinf(epsilon):
            share = 0.5 if progress is None else 0.12 + 0.76 * progress
            return self.high + self.width * share
        return math.log10(max(epsilon, 10**self.low))

    def ticks(self) -> tuple[list[float], list[str]]:
        """Tick positions and labels, ∞ the last."""
        values = log_ticks(10**self.low, 10**self.high)
        positions = [*map(math.log10, values), self.position(math.inf)]
        return positions, [*(f"{value:g}" for value in values), "∞"]

    def shade(self, figure: go.Figure) -> None:
        """Sand behind the place of ∞."""
        figure.add_vrect(x0=self.high, x1=self.end, fillcolor=palette.BAND["none"], line_width=0, layer="below")

    def layout(self) -> dict[str, Any]:
        """Plotly's settings of a horizontal axis."""
        positions, labels = self.ticks()
        return {
            "title": {"text": TITLE, "standoff": 6},
            "range": [self.low - 0.04, self.end],
            "tickvals": positions,
            "ticktext": labels,
            "gridcolor": palette.GRID,
            "zeroline": False,
        }

"""The ε axis of every chart: logarithmic, with a separate section for ε = ∞ at its end. Does not use Streamlit."""

import math
from collections.abc import Iterable
from typing import Any

import plotly.graph_objects as go

from pages.shared import palette
from pages.shared.charts import band, log_ticks

SHARE_OF_NO_PRIVACY = 0.2
"""Share of the axis, 0 to 1, that the section of ε = ∞ takes."""
_GAP = 0.15
"""Share of that section, 0 to 1, between the finite values and the shaded part."""
TITLE = "ε (smaller is more private, log axis)"


LEAST, MOST = 0.01, 100.0
"""Range of ε that every axis covers, so that charts can be compared; only values outside of it extend an axis."""


class EpsilonAxis:
    """An axis whose positions are powers of ten.

    Attributes:
        low: Lower end of the finite values.
        high: Upper end of the finite values, where the section of ∞ starts.
        width: Width of the section of ∞.
        infinity: Start of the shaded part of this section. The gap before it stands for all larger finite values.
        end: End of the section of ∞, and of the axis.
    """

    def __init__(self, epsilons: Iterable[float]) -> None:
        finite = [LEAST, MOST, *(epsilon for epsilon in epsilons if 0 < epsilon < math.inf)]
        self.low = math.floor(math.log10(min(finite)) * 2) / 2
        self.high = math.ceil(math.log10(max(finite)) * 2) / 2
        self.width = (self.high - self.low) * SHARE_OF_NO_PRIVACY / (1 - SHARE_OF_NO_PRIVACY)
        self.infinity = self.high + self.width * _GAP
        self.end = self.high + self.width

    def position(self, epsilon: float, progress: float | None = None) -> float:
        """Return the position of an ε.

        Args:
            epsilon: The value; ∞ has its own section.
            progress: Progress of a run, 0 to 1, which moves through the section of ∞ during training.
        """
        if math.isinf(epsilon):
            share = 0.5 if progress is None else 0.2 + 0.6 * progress
            return self.high + self.width * share
        return math.log10(max(epsilon, 10**self.low))

    def ticks(self) -> tuple[list[float], list[str]]:
        """Return the tick positions and their labels; ∞ is the last."""
        values = log_ticks(10**self.low, 10**self.high)
        positions = [*map(math.log10, values), self.position(math.inf)]
        return positions, [*(f"{value:g}" for value in values), "∞"]

    def shade(self, figure: go.Figure) -> None:
        """Shade the section of ∞ in the colour of runs without privacy."""
        figure.add_shape(band(self.infinity, self.end, palette.BAND["none"]))

    def layout(self) -> dict[str, Any]:
        """Return Plotly's settings of a horizontal axis."""
        positions, labels = self.ticks()
        return {
            "title": {"text": TITLE, "standoff": 6},
            "range": [self.low - 0.04, self.end],
            "tickvals": positions,
            "ticktext": labels,
            "ticklabelstandoff": 4,
            "gridcolor": palette.GRID,
            "zeroline": False,
        }

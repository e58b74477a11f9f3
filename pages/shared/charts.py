"""Settings that all charts share. Does not use Streamlit. Text has no colour of its own; it takes the theme's."""

import math
from typing import Any

from engine.visible_text import visible
from pages.shared import palette

CONFIG = {
    "displaylogo": False,
    "displayModeBar": True,
    "modeBarButtons": [["toImage", "zoom2d", "pan2d", "resetScale2d"]],
    "toImageButtonOptions": {"format": "png", "scale": 2, "filename": "epsilon-explorer"},
}
"""Plotly's buttons above a chart; the camera saves it as PNG."""
WHOLE_HEIGHT = {"y0": 0, "y1": 1, "yref": "y domain"}
"""Vertical extent of a shape. Plotly's ``add_vline`` and ``add_vrect`` do the same in seven times the time."""
_MODEBAR = {"bgcolor": "rgba(0,0,0,0)", "color": palette.QUIET, "activecolor": palette.PRIVATE}


def plain_layout(key: str, *, height: int) -> dict[str, Any]:
    """Return the layout that all charts share; a chart with the same key keeps its zoom and selection."""
    return {
        "uirevision": key,
        "height": height,
        "font": {"size": 13},
        "modebar": _MODEBAR,
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
    }


def band(start: float, end: float, colour: str) -> dict[str, Any]:
    """Return the shape that colours the section of the horizontal axis from ``start`` to ``end``, behind all curves."""
    shape = {"type": "rect", "x0": start, "x1": end, "fillcolor": colour, "line": {"width": 0}, "layer": "below"}
    return shape | WHOLE_HEIGHT


def literal(text: str) -> str:
    """Return text from outside as Plotly displays it literally, in titles, names, ticks and hover texts.

    Plotly reads tags such as <b> and <a>, entities, and in hover templates %{…}.
    """
    return visible(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("%", "&#37;")


def log_ticks(low: float, high: float) -> list[float]:
    """Return the tick values of a logarithmic axis: as many in each decade as fit on a phone's screen."""
    decades = math.log10(high) - math.log10(low)
    steps = (1, 2, 5) if decades <= 2 else (1, 3) if decades <= 3 else (1,)
    exponents = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    values = [step * 10.0**exponent for exponent in exponents for step in steps]
    return [value for value in values if low * (1 - 1e-9) <= value <= high * (1 + 1e-9)]

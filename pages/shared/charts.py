"""What all pictures have in common: no streamlit. Colours stay off the text, which takes the theme's."""

import math
from typing import Any

from pages.shared import palette

CONFIG = {
    "displaylogo": False,
    "displayModeBar": True,
    "modeBarButtons": [["toImage", "zoom2d", "pan2d", "resetScale2d"]],
    "toImageButtonOptions": {"format": "png", "scale": 2, "filename": "epsilon-explorer"},
}
"""Plotly's buttons above a picture; the camera saves it as PNG."""
_MODEBAR = {"bgcolor": "rgba(0,0,0,0)", "color": palette.QUIET, "activecolor": palette.PRIVATE}


def plain_layout(key: str, *, height: int) -> dict[str, Any]:
    """What all pictures share; one with the same key keeps zoom and selection."""
    return {
        "uirevision": key,
        "height": height,
        "font": {"size": 13},
        "modebar": _MODEBAR,
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
    }


def log_ticks(low: float, high: float) -> list[float]:
    """Where a logarithmic axis has its labels: as many of each decade as have room beside each other on a phone."""
    decades = math.log10(high) - math.log10(low)
    steps = (1, 2, 5) if decades <= 2 else (1, 3) if decades <= 3 else (1,)
    exponents = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    values = [step * 10.0**exponent for exponent in exponents for step in steps]
    return [value for value in values if low * (1 - 1e-9) <= value <= high * (1 + 1e-9)]

"""Shows a plotly figure that keeps zoom and hidden curves while its data move.

``st.plotly_chart`` of the pinned Streamlit makes a new picture whenever the data change, and a live curve would lose
its zoom with every record. Here plotly.js changes the picture that is there (``Plotly.react`` with ``uirevision``).
"""

from collections.abc import Callable, Hashable, Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import plotly
import plotly.graph_objects as go
import streamlit as st
from streamlit.components.v2.types import ComponentRenderer

from engine.artifact_store import atomic_write
from pages.shared import charts

_STATIC = Path(__file__).resolve().parents[2] / "static"
_SCRIPT = f"plotly-{plotly.__version__}.min.js"

_HTML = '<div class="picture"></div>'
_CSS = """
.picture { width: 100%; }
/* Numbers of parallel axes stand on the lines: an edge in the colour of the ground keeps them apart. */
.picture .parcoords .axis text {
  paint-order: stroke; stroke: var(--st-background-color); stroke-width: 4px; text-shadow: none !important;
}
.picture .parcoords .axis .tick line { display: none; }
.picture .parcoords .axis .domain { stroke: var(--st-text-color) !important; stroke-opacity: 0.6 !important; }
"""
_JS = """
let loading;

function library(address) {
  loading ??= new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = address;
    script.onload = () => resolve(window.Plotly);
    script.onerror = () => { loading = undefined; reject(new Error(`${address} cannot be loaded`)); };
    document.head.append(script);
  });
  return loading;
}

// How much larger letters are on this page than usual: in class mode, or by the browser's settings.
function larger() {
  return Math.max(1, parseFloat(getComputedStyle(document.documentElement).fontSize) / 16 || 1);
}

// The theme's colour and font, as they are now: light, dark or the user's own.
function themed(layout, place) {
  const style = getComputedStyle(place);
  const value = name => style.getPropertyValue(name).trim();
  const font = { color: value("--st-text-color") || style.color, family: value("--st-font") || style.fontFamily };
  const ground = value("--st-background-color") || "white";
  const axes = Object.keys(layout).filter(name => /^[xy]axis/.test(name));
  if (larger() > 1) for (const name of axes) layout[name].automargin = true;
  return {
    ...layout,
    font: { ...layout.font, ...font, size: (layout.font?.size ?? 13) * larger() },
    height: Math.round(layout.height * larger()),
    hoverlabel: { bgcolor: ground, bordercolor: font.color, font, align: "left" },
    width: Math.floor(place.clientWidth),
  };
}

// On a phone: two short names a line in a legend, or a long one, and names of parallel axes aslant, so that they do not
// meet.
function narrowed(traces, layout) {
  const names = traces.filter(trace => trace.showlegend !== false).map(trace => (trace.name ?? "").length);
  const across = Math.max(0, ...names) > 19 ? 1 : 2;
  const lines = Math.ceil(names.length / across);
  layout.legend = { ...layout.legend, entrywidth: 1 / across, entrywidthmode: "fraction" };
  if (layout.legend.y > 1) {  // above the picture, where the buttons are too
    const top = Math.max(layout.margin.t + 28, 36 + 20 * larger() * lines);
    layout.height += top - layout.margin.t;
    layout.margin = { ...layout.margin, t: top };
  } else if (across < 2 && layout.showlegend !== false) {
    layout.height += 10 * larger() * lines;
  }
  for (const trace of traces) if (trace.type === "parcoords") trace.labelangle = -35;
}

// Ranges that somebody marked on parallel axes, by the names of the axes.
function marks(trace) {
  const found = {};
  for (const axis of trace.dimensions ?? []) {
    const ranges = axis.constraintrange;
    if (ranges?.length) found[axis.label] = Array.isArray(ranges[0]) ? ranges : [ranges];
  }
  return found;
}

// Called at every change of the data, with the same place: what is drawn, and whoever may ask for it to be drawn
// again, belongs to the place and is there once.
export default function ({ parentElement, data, setStateValue }) {
  const place = parentElement.querySelector(".picture");
  place.tell = setStateValue;
  if (place.drawnFigure === data.figure) return place.release;  // a look at the store that found nothing new
  place.drawnFigure = data.figure;
  const figure = JSON.parse(data.figure);
  place.style.minHeight = `${figure.layout.height * larger()}px`;
  place.draw = () => library(data.script).then(Plotly => {
    if (!place.isConnected || !place.clientWidth) return;  // in a tab that is not open
    place.drawnWidth = place.clientWidth;
    const layout = themed(figure.layout, place);
    if (place.clientWidth < 500) narrowed(figure.data, layout);
    Plotly.react(place, figure.data, layout, data.config);
    place.setAttribute("role", "img");
    if (!place.opens) place.opens = place.on("plotly_click", event => {
      const link = event.points[0].customdata;  // of our own making: where a point leads
      if (typeof link === "string" && link.startsWith("./")) window.location.assign(link);
    });
    if (data.marked && !place.marked) {
      place.marked = place.on("plotly_restyle", () => place.tell("marks", marks(place.data[0])));
    }
    place.setAttribute("aria-label", figure.layout.meta.label);
  });
  place.draw();
  if (place.release) return place.release;
  const again = () => place.draw();
  const sizes = new ResizeObserver(() => { if (place.clientWidth !== place.drawnWidth) again(); });
  sizes.observe(place);
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const later = () => setTimeout(again, 200);  // when the theme's variables have changed too
  system.addEventListener("change", later);
  place.release = () => {
    sizes.disconnect();
    system.removeEventListener("change", later);
    place.release = undefined;
  };
  return place.release;
}
"""


@st.cache_resource(show_spinner=False)
def _component() -> ComponentRenderer:
    """Registered once for each server."""
    return st.components.v2.component("picture", html=_HTML, css=_CSS, js=_JS, isolate_styles=False)


@lru_cache(maxsize=256)
def memoized_figure(make: Callable[..., go.Figure], *what: Hashable, label: str, **how: Hashable) -> str:
    """What ``make`` draws, for :func:`show`: once for all who look at the same, and for all polls that find nothing
    new."""
    return _written(make(*what, **how), label)


def _written(figure: go.Figure, label: str) -> str:
    figure.update_layout(template="none", meta={"label": label})
    return str(figure.to_json())


def show(figure: go.Figure | str, *, key: str, label: str, marked: bool = False) -> Mapping[str, Any]:
    """Draw ``figure``, or what :func:`memoized_figure` gave; ``label`` says in words what it shows, for those who
    cannot see it.
    marked: whether marks on parallel axes come back, as ranges by the name of an axis; else nothing comes back."""
    written = figure if isinstance(figure, str) else _written(figure, label)
    config = charts.CONFIG | ({"modeBarButtons": [["toImage"]]} if marked else {})  # nothing to zoom
    data = {"figure": written, "config": config, "script": _script_address(), "marked": marked}
    if not marked:
        _component()(key=key, data=data)
        return {}
    return _component()(key=key, data=data, on_marks_change=lambda: None).get("marks") or {}


@cache
def _script_address() -> str:
    """Where the browser finds the plotly.js of the installed plotly; put there on first use.

    Raises StoreError when the folder ``static`` cannot be written.
    """
    place = _STATIC / "vendor" / _SCRIPT
    if not place.exists():
        with atomic_write(place, "What draws pictures") as passing:
            passing.write_bytes((Path(plotly.__file__).parent / "package_data" / "plotly.min.js").read_bytes())
    return f"app/static/vendor/{_SCRIPT}"

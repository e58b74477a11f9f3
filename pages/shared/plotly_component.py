"""A Plotly chart that keeps its zoom and its hidden curves while its data change.

``st.plotly_chart`` of the pinned Streamlit creates a new chart whenever the data change, so a live curve would lose its
zoom with every record. This component updates the existing chart (``Plotly.react`` with ``uirevision``).
"""

from collections.abc import Callable, Hashable, Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import plotly
import plotly.graph_objects as go
import streamlit as st
from streamlit.components.v2.types import ComponentRenderer

from engine.artifact_store import PUBLIC, atomic_write
from pages.shared import charts

_STATIC = Path(__file__).resolve().parents[2] / "static"
_SCRIPT = f"plotly-{plotly.__version__}.min.js"

_HTML = '<div class="picture"></div>'
_CSS = """
.picture { width: 100%; }
/* Tick labels of parallel axes overlap the lines: an outline in the background's colour keeps them legible. */
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

// Font scale of this page: above 1 in class mode, or by the browser's settings.
function larger() {
  return Math.max(1, parseFloat(getComputedStyle(document.documentElement).fontSize) / 16 || 1);
}

// The layout with the colours and font of the current theme: light, dark or the user's own.
function themed(layout, container) {
  const style = getComputedStyle(container);
  const value = name => style.getPropertyValue(name).trim();
  const font = { color: value("--st-text-color") || style.color, family: value("--st-font") || style.fontFamily };
  const background = value("--st-background-color") || "white";
  const axes = Object.keys(layout).filter(name => /^[xy]axis/.test(name));
  if (larger() > 1) for (const name of axes) layout[name].automargin = true;
  return {
    ...layout,
    font: { ...layout.font, ...font, size: (layout.font?.size ?? 13) * larger() },
    height: Math.round(layout.height * larger()),
    hoverlabel: { bgcolor: background, bordercolor: font.color, font, align: "left" },
    width: Math.floor(container.clientWidth),
  };
}

// On a phone, a line of the legend has two names if both fit, a long title of the horizontal axis has several lines,
// and labels of parallel axes are slanted, so that they do not overlap.
function narrowed(traces, layout) {
  const letter = 7 * larger();  // width of a letter, in pixels
  const across = layout.width - labelled(traces, layout, letter) - (layout.margin.r ?? 80);
  const names = traces.filter(trace => trace.showlegend !== false).map(trace => (trace.name ?? "").length);
  const inLine = Math.max(0, ...names) * letter + 40 > across / 2 ? 1 : 2;
  const entries = Math.ceil(names.length / inLine);
  layout.legend = { ...layout.legend, entrywidth: 1 / inLine, entrywidthmode: "fraction" };
  if (layout.legend.y > 1) {  // above the chart, beside the buttons
    const top = Math.max(layout.margin.t + 28, 36 + 20 * larger() * entries);
    layout.height += top - layout.margin.t;
    layout.margin = { ...layout.margin, t: top };
  } else if (inLine < 2 && layout.showlegend !== false) {
    layout.height += 10 * larger() * entries;
  }
  for (const trace of traces) if (trace.type === "parcoords") trace.labelangle = -35;
  const axis = layout.xaxis;
  if (axis?.nticks && across < 220) layout.xaxis = { ...axis, nticks: 3 };
  const lines = axis?.title?.text ? wrapped(axis.title.text, across / letter) : [];
  if (lines.length < 2) return;
  const more = 17 * larger() * (lines.length - 1);
  layout.xaxis = { ...layout.xaxis, title: { ...axis.title, text: lines.join("<br>") } };
  layout.height += more;
  layout.margin = { ...layout.margin, b: (layout.margin.b ?? 80) + more };
}

// Estimated space for the labels of the vertical axis, in pixels: Plotly measures it only while it draws.
function labelled(traces, layout, letter) {
  const axis = layout.yaxis;
  if (!axis?.automargin) return layout.margin.l ?? 80;
  const labels = axis.ticktext ?? traces.flatMap(trace => (Array.isArray(trace.y) ? trace.y : []));
  const lengths = labels.flatMap(label => String(label).split("<br>")).map(line => line.length);
  return Math.max(layout.margin.l ?? 80, letter * Math.max(0, ...lengths) + 12);
}

// A text in lines of at most so many characters, where words permit.
function wrapped(text, most) {
  const lines = [];
  for (const word of text.split(" ")) {
    const longer = lines.length ? `${lines.at(-1)} ${word}` : word;
    if (lines.length && longer.length <= most) lines[lines.length - 1] = longer;
    else lines.push(word);
  }
  return lines;
}

// Ranges that the user selected on parallel axes, by the names of the axes.
function marks(trace) {
  const selected = {};
  for (const axis of trace.dimensions ?? []) {
    const ranges = axis.constraintrange;
    if (ranges?.length) selected[axis.label] = Array.isArray(ranges[0]) ? ranges : [ranges];
  }
  return selected;
}

// Streamlit calls this at every change of the data with the same container. So the chart and its event handlers are
// stored on the container and created once.
export default function ({ parentElement, data, setStateValue }) {
  const container = parentElement.querySelector(".picture");
  container.report = setStateValue;
  if (container.drawnFigure === data.figure) return container.release;  // a poll without new data
  container.drawnFigure = data.figure;
  const figure = JSON.parse(data.figure);
  container.style.minHeight = `${figure.layout.height * larger()}px`;
  container.draw = () => library(data.script).then(Plotly => {
    if (!container.isConnected || !container.clientWidth) return;  // in a tab that is not open
    container.drawnWidth = container.clientWidth;
    const layout = themed(figure.layout, container);
    if (container.clientWidth < 500) narrowed(figure.data, layout);
    Plotly.react(container, figure.data, layout, data.config);
    container.setAttribute("role", "img");
    if (!container.opens) container.opens = container.on("plotly_click", event => {
      const link = event.points[0].customdata;  // set by our charts: the page that a point opens
      if (typeof link === "string" && link.startsWith("./")) window.location.assign(link);
    });
    if (data.marked && !container.marked) {
      container.marked = container.on("plotly_restyle", () => container.report("marks", marks(container.data[0])));
    }
    container.setAttribute("aria-label", figure.layout.meta.label);
  });
  container.draw();
  if (container.release) return container.release;
  const redraw = () => container.draw();
  const sizes = new ResizeObserver(() => { if (container.clientWidth !== container.drawnWidth) redraw(); });
  sizes.observe(container);
  const scheme = window.matchMedia("(prefers-color-scheme: dark)");
  const redrawLater = () => setTimeout(redraw, 200);  // after the theme's variables have changed
  scheme.addEventListener("change", redrawLater);
  container.release = () => {
    sizes.disconnect();
    scheme.removeEventListener("change", redrawLater);
    container.release = undefined;
  };
  return container.release;
}
"""


@st.cache_resource(show_spinner=False)
def _component() -> ComponentRenderer:
    """Register the component once in each server."""
    return st.components.v2.component("picture", html=_HTML, css=_CSS, js=_JS, isolate_styles=False)


@lru_cache(maxsize=256)
def memoized_figure(make: Callable[..., go.Figure], *what: Hashable, label: str, **how: Hashable) -> str:
    """Return the figure of ``make`` as JSON for :func:`show`.

    All sessions that show the same chart, and all polls without new data, share one figure.

    Args:
        make: Creates the figure.
        *what: Positional arguments of ``make``.
        label: Text of the chart for screen readers.
        **how: Keyword arguments of ``make``.
    """
    return _to_json(make(*what, **how), label)


def _to_json(figure: go.Figure, label: str) -> str:
    figure.update_layout(template="none", meta={"label": label})
    return str(figure.to_json())


def show(figure: go.Figure | str, *, key: str, label: str, marked: bool = False) -> Mapping[str, Any]:
    """Show a chart and return the ranges that the user selected on parallel axes, by the name of an axis.

    Args:
        figure: The figure, or the result of :func:`memoized_figure`.
        key: Key of the component; a chart with the same key is updated.
        label: Text of the chart for screen readers.
        marked: Whether selected ranges are returned; otherwise the result is empty.
    """
    encoded = figure if isinstance(figure, str) else _to_json(figure, label)
    config = charts.CONFIG | ({"modeBarButtons": [["toImage"]]} if marked else {})  # parallel axes have no zoom
    data = {"figure": encoded, "config": config, "script": _script_address(), "marked": marked}
    if not marked:
        _component()(key=key, data=data)
        return {}
    return _component()(key=key, data=data, on_marks_change=lambda: None).get("marks") or {}


@cache
def _script_address() -> str:
    """Return the address of plotly.js; copy it from the installed Plotly package on first use.

    Raises:
        StoreError: The folder ``static`` is not writable.
    """
    script = _STATIC / "vendor" / _SCRIPT
    if not script.exists():
        with atomic_write(script, "The chart library", mode=PUBLIC) as passing:
            passing.write_bytes((Path(plotly.__file__).parent / "package_data" / "plotly.min.js").read_bytes())
    return f"app/static/vendor/{_SCRIPT}"

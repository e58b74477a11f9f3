"""Shows a plotly figure that keeps zoom and hidden curves while its data move.

``st.plotly_chart`` of the pinned Streamlit makes a new picture whenever the data change, and a live curve would lose
its zoom with every record. Here plotly.js changes the picture that is there (``Plotly.react`` with ``uirevision``).
"""

from functools import cache
from pathlib import Path

import plotly
import plotly.graph_objects as go
import streamlit as st
from streamlit.components.v2.types import ComponentRenderer

from engine.artefacts import written_whole
from pages.shared import charts

_STATIC = Path(__file__).resolve().parents[2] / "static"
_SCRIPT = f"plotly-{plotly.__version__}.min.js"

_HTML = '<div class="picture"></div>'
_CSS = ".picture { width: 100%; }"
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

// The theme's colour and font, as they are now: light, dark or the user's own.
function themed(layout, place) {
  const style = getComputedStyle(place);
  const value = name => style.getPropertyValue(name).trim();
  const font = { color: value("--st-text-color") || style.color, family: value("--st-font") || style.fontFamily };
  const ground = value("--st-background-color") || "white";
  return {
    ...layout,
    font: { ...layout.font, ...font },
    hoverlabel: { bgcolor: ground, bordercolor: font.color, font, align: "left" },
    width: Math.floor(place.clientWidth),
  };
}

// Called at every change of the data, with the same place: what is drawn, and whoever may ask for it to be drawn
// again, belongs to the place and is there once.
export default function ({ parentElement, data }) {
  const place = parentElement.querySelector(".picture");
  if (place.drawnFigure === data.figure) return place.release;  // a look at the store that found nothing new
  place.drawnFigure = data.figure;
  const figure = JSON.parse(data.figure);
  place.style.minHeight = `${figure.layout.height}px`;
  place.draw = () => library(data.script).then(Plotly => {
    if (!place.isConnected || !place.clientWidth) return;  // in a tab that is not open
    place.drawnWidth = place.clientWidth;
    const layout = themed(figure.layout, place);
    if (place.clientWidth < 500) layout.legend = { ...layout.legend, entrywidth: 0.5, entrywidthmode: "fraction" };
    Plotly.react(place, figure.data, layout, data.config);
    place.setAttribute("role", "img");
    if (!place.opens) place.opens = place.on("plotly_click", event => {
      const link = event.points[0].customdata;  // of our own making: where a point leads
      if (typeof link === "string" && link.startsWith("./")) window.location.assign(link);
    });
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


def show(figure: go.Figure, *, key: str, label: str) -> None:
    """Draw ``figure``; ``label`` says in words what it shows, for those who cannot see it."""
    figure.update_layout(template="none", meta={"label": label})
    _component()(key=key, data={"figure": figure.to_json(), "config": charts.CONFIG, "script": _script_address()})


@cache
def _script_address() -> str:
    """Where the browser finds the plotly.js of the installed plotly; put there on first use.

    Raises StoreError when the folder ``static`` cannot be written.
    """
    place = _STATIC / "vendor" / _SCRIPT
    if not place.exists():
        with written_whole(place, "What draws pictures") as passing:
            passing.write_bytes((Path(plotly.__file__).parent / "package_data" / "plotly.min.js").read_bytes())
    return f"app/static/vendor/{_SCRIPT}"

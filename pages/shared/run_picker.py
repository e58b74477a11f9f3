"""One finished run, chosen by its setting and its seed, or asked for by a link."""

import streamlit as st

from engine.config import SimulationConfig
from engine.records import Run
from engine.service import Application
from pages.shared import group_by_config, titles


def choose(app: Application, asked: str | None, usual: SimulationConfig, *, key: str = "") -> Run | None:
    """The run that the reader chooses; at first the one that was ``asked`` for, else one of the ``usual`` setting; None
    where no run is done. key: tells two such choices on one page apart. Raises RunNotFound."""
    linked = app.queries.get(asked) if asked else None
    known = group_by_config.configurations(app.queries.overview())
    if linked:
        known.setdefault(group_by_config.seedless(linked.config), {})[linked.config.seed] = linked.run_id
    if not known:
        return None
    order = sorted(known, key=titles.setting)
    first = group_by_config.seedless(linked.config) if linked else group_by_config.seedless(usual)
    left, right = st.columns([4, 1])
    place = order.index(first) if first in order else 0
    setting = left.selectbox("Setting", order, place, format_func=titles.setting, key=f"one_setting{key}")
    seeds = known[setting]
    asked_first = [linked.config.seed] if linked and linked.run_id in seeds.values() else []
    wanted = list(dict.fromkeys([*asked_first, *sorted(seeds)]))
    return app.queries.get(seeds[right.selectbox("Seed", wanted, key=f"one_seed{key}")])

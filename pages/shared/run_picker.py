"""Choice of a finished run by its configuration and seed, or by a link."""

import streamlit as st

from engine.config import SimulationConfig
from engine.records import Run
from engine.service import Application
from pages.shared import group_by_config, titles


def choose(app: Application, asked: str | None, usual: SimulationConfig, *, key: str = "") -> Run | None:
    """Show the choice and return the chosen run, or None if no run is finished.

    Args:
        app: The application service.
        asked: Identity of the run that is selected initially.
        usual: Configuration that is selected initially without ``asked``.
        key: Suffix of the widgets' keys, if a page has several choices.

    Raises:
        RunNotFound: No run has the identity ``asked``.
    """
    linked = app.queries.get(asked) if asked else None
    groups = group_by_config.configurations(app.queries.overview())
    if linked:
        groups.setdefault(group_by_config.seedless(linked.config), {})[linked.config.seed] = linked.run_id
    if not groups:
        return None
    configs = sorted(groups, key=titles.setting)
    first = group_by_config.seedless(linked.config) if linked else group_by_config.seedless(usual)
    left, right = st.columns([4, 1])
    index = configs.index(first) if first in configs else 0
    of_setting, of_seed = keys(key)
    config = left.selectbox("Configuration", configs, index, format_func=titles.setting, key=of_setting)
    runs = groups[config]
    asked_first = [linked.config.seed] if linked and linked.run_id in runs.values() else []
    seeds = list(dict.fromkeys([*asked_first, *sorted(runs)]))
    return app.queries.get(runs[right.selectbox("Seed", seeds, key=of_seed)])


def keys(key: str = "") -> tuple[str, str]:
    """Return the keys of both widgets of a choice with this suffix."""
    return f"one_setting{key}", f"one_seed{key}"

"""One button that has several runs computed in the background."""

import os
from collections.abc import Sequence

import streamlit as st

from engine.config import SimulationConfig
from engine.errors import EpsilonError
from engine.records import RunState
from engine.runs import Runs
from pages.shared import address


def missing(runs: Runs, configs: Sequence[SimulationConfig]) -> list[SimulationConfig]:
    """Those of which no run is done, waits or is under way."""
    left = []
    for config in configs:
        run = runs.find(config)
        if run is None or run.status.state in (RunState.FAILED, RunState.CANCELLED):
            left.append(config)
    return left


def button(runs: Runs, configs: Sequence[SimulationConfig], what: str, *, key: str) -> None:
    """Offer to run what is missing ``what`` ("of this table"); says so where nothing is."""
    if not configs:
        st.caption(f"All runs {what} are there or under way.")
        return
    plural = "1 run" if len(configs) == 1 else f"{len(configs):,} runs"
    if st.button(f"Run what is missing {what} ({plural})", icon=":material/play_arrow:", key=key):
        try:
            runs.submit_all(configs, owner_pid=os.getpid())
        except EpsilonError as error:
            st.error(address.plain(str(error)), icon=":material/error:")
        else:
            st.toast(f"{plural} asked for. The page Runs shows how far they are.", icon=":material/check:")

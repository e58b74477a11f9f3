"""Explore: choose a configuration, see what privacy costs it, run what nobody has run yet."""

import streamlit as st

from pages.explore import controls, live
from pages.shared import address, door

runs = door.runs()
chosen = controls.choose(runs)
if faults := controls.problems():
    st.warning("\n\n".join(map(address.plain, faults)), icon=":material/link_off:")
if chosen:
    config, preview = chosen
    titles = {info.name: info.title for info in runs.corpora()}
    live.show(runs, config, preview, titles[config.corpus])
for problem in runs.problems():
    st.warning(address.plain(problem), icon=":material/warning:")

"""Explore: choose a configuration, see what privacy costs it, run what nobody has run yet."""

import streamlit as st

from pages.explore import controls, live, welcome
from pages.shared import address, session, titles

welcome.show()
app = session.application()
chosen = controls.choose(app)
if faults := controls.problems():
    st.warning("\n\n".join(map(address.plain, faults)), icon=":material/link_off:")
if chosen:
    config, preview = chosen
    live.show(app, config, preview, titles.corpus(config.corpus))
for problem in app.queries.problems():
    st.warning(address.plain(problem), icon=":material/warning:")

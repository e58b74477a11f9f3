"""Page Explore: choose a configuration, see its results and its ε, and run it."""

import streamlit as st

from pages.explore import controls, live
from pages.shared import address, session, titles

app = session.application()
chosen = controls.choose(app)
if link_errors := controls.problems():
    st.warning("\n\n".join(map(address.plain, link_errors)), icon=":material/link_off:")
if chosen:
    config, preview = chosen
    live.show(app, config, preview, titles.corpus(config.corpus))
for problem in app.queries.problems():
    st.warning(address.plain(problem), icon=":material/warning:")

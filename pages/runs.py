"""Runs: everything that waits, runs or is done, here and published."""

import streamlit as st

from engine.errors import EpsilonError
from pages.shared import address, door, listing

runs = door.runs()
try:
    listing.show(runs)
except EpsilonError as error:
    st.error(address.plain(str(error)), icon=":material/error:")

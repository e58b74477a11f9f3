"""A note beside runs of one's own."""

from collections.abc import Callable, Sequence
from typing import Any

import streamlit as st

from engine.runs import LONGEST_NOTE, Runs


@st.dialog("Note")
def ask(runs: Runs, run_ids: Sequence[str], before: str, each: Callable[[Any, Sequence[str]], None]) -> None:
    """Ask for the text. before: what stands there now. each: does something to each run, and looks anew."""
    number = "this run" if len(run_ids) == 1 else f"these {len(run_ids):,} runs, in place of any that they have"
    text = st.text_area(f"What shall stand beside {number}?", before, key=f"note-{run_ids[0]}")
    too_long = len(text.strip()) > LONGEST_NOTE
    if too_long:
        st.error(f"It has {len(text.strip()):,} characters, and {LONGEST_NOTE:,} at most are kept: make it shorter.")
    with st.container(horizontal=True):
        if st.button("Keep it", type="primary", key="keep_note", disabled=too_long):
            each(lambda run_id: runs.write_note(run_id, text), run_ids)
        if st.button("Cancel", key="keep_no_note"):
            st.rerun()

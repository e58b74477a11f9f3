"""Controls and output of redaction."""

import json
from collections.abc import Mapping

import streamlit as st

from engine.tagging.entities import Tagged
from engine.tagging.redaction import REPLACEMENTS, redact
from pages.shared import downloads

_TITLES = {"type": "entity type", "pseudonym": "pseudonym", "mask": "black squares"}


def show(text: str, tagged: Mapping[str, Tagged]) -> None:
    """Show the controls and the redacted text; ``tagged`` holds at least one result, by title of the model."""
    st.markdown("#### Redact")
    with st.container(horizontal=True, vertical_alignment="bottom"):
        which = st.selectbox("Entities predicted by", list(tagged), key="try_redact_with")
        replace = st.segmented_control(
            "Replacement",
            REPLACEMENTS,
            default=REPLACEMENTS[0],
            format_func=_TITLES.__getitem__,
            required=True,
            key="try_replace",
        )
    new = redact(text, tagged[which].entities, replace)
    st.code(new.text, language=None, wrap_lines=True, height=260)
    with st.container(horizontal=True):
        downloads.button("Download text", lambda: new.text, "redacted.txt", "text/plain", icon=":material/description:")
        downloads.button(
            "Download JSON with offsets",
            lambda: json.dumps(new.fields, ensure_ascii=False, indent=1),
            "redacted.json",
            "application/json",
            icon=":material/data_object:",
        )
    st.caption(
        "An entity that the model missed is still in the text. To copy the text, press the icon at its upper right."
    )

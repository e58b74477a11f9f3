"""Page Glossary: the technical terms of the dashboard, to read and to search."""

import streamlit as st

from pages.shared import address, glossary

st.markdown("### Glossary")
st.caption(
    "On every page a dotted underline marks a term of this glossary. Click it to open its entry. With the keyboard: "
    "the first tab stop of a page's content is its terms, arrow keys move between them, Enter opens, Escape closes."
)
query = st.text_input("Search", key="word", bind="query-params", placeholder="for example: clip", max_chars=60)
matches = [entry for entry in glossary.entries() if entry.holds(query)]
for entry in matches:
    with st.container(key=f"entry-{entry.anchor}", gap="small"):
        st.markdown(f"##### {address.plain(entry.term)}", anchors=False)
        st.markdown(address.plain(entry.text))
        also = f" · Also: {', '.join(entry.also)}" if entry.also else ""
        st.caption(address.plain(f"{entry.source}{also}"))
st.caption(
    f"{len(matches)} of {len(glossary.entries())} terms." if matches else f"No entry contains {address.plain(query)}."
)

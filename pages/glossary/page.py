"""Glossary: every term of art in plain words, to read and to search."""

import streamlit as st

from pages.shared import address, glossary

st.markdown("### Words, in plain words")
st.caption(
    "On every page a dotted line marks a word that stands here; a click on it opens its entry. With the keyboard: the "
    "first tab stop of a page's content is its words, arrow keys go from one to the next, Enter opens, Escape closes."
)
wanted = st.text_input("Search", key="word", bind="query-params", placeholder="for example: clip", max_chars=60)
found = [entry for entry in glossary.entries() if entry.holds(wanted)]
for entry in found:
    with st.container(key=f"entry-{entry.anchor}", gap="small"):
        st.markdown(f"##### {address.plain(entry.term)}", anchors=False)
        st.markdown(address.plain(entry.text))
        also = f" · Also: {', '.join(entry.also)}" if entry.also else ""
        st.caption(address.plain(f"{entry.source}{also}"))
st.caption(f"{len(found)} of {len(glossary.entries())} words." if found else f"No entry has {address.plain(wanted)}.")

"""Page Home: the purpose of the program, the cost of privacy in a picture, and three ways to begin."""

import streamlit as st

from pages.home import picture

EXPLORE = "pages/explore/page.py"
DOORS = (
    (
        "Teach a class",
        "Seven short lessons on privacy, each with a guess, a moving picture and a poll for the class.",
        "pages/learn/page.py",
        ":material/school:",
    ),
    (
        "Check a privacy claim",
        "You were told “our model is private, ε = 0.7”. See what this number rests on and what it leaves open.",
        "pages/claim/page.py",
        ":material/fact_check:",
    ),
    (
        "Run an experiment",
        "Choose a model, the noise and the number of clients. Watch F1 and ε while it trains.",
        EXPLORE,
        ":material/query_stats:",
    ),
)
"""Title, explanation, page and icon of each way to begin."""

if st.query_params:  # a link to settings, from a version where Explore had this address
    st.switch_page(EXPLORE, query_params=st.query_params.to_dict())
st.markdown("### See what privacy costs a tagger of names, and whether a claimed privacy is real")
columns = st.columns(len(DOORS), border=True)
for column, (title, text, page, icon) in zip(columns, DOORS, strict=True):
    column.page_link(page, label=f"**{title}**", icon=icon)
    column.markdown(text)
picture.show()
st.caption(
    "Taggers find names of persons, places and organisations, for example to redact a letter. Training with noise "
    "limits what a tagger reveals about each training sentence: a smaller ε is a stricter limit. F1 is measured on the "
    "test set of CoNLL-2003, as a mean of several published runs. The letter is invented. A name fades where only one "
    "of two neighbouring taggers finds it. The noise of published runs comes from public seeds, so that you can repeat "
    "them."
)

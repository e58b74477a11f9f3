"""The sentences that models betray most, where their corpus is here."""

import streamlit as st

from engine.errors import EpsilonError
from engine.records import MembershipAudit
from engine.service import Application
from pages.shared import address, tables


def at_risk(app: Application, corpus: str, found: MembershipAudit) -> None:
    """A table; what of the text cannot be had is said."""
    try:
        texts = _texts(app, repr(app.user), corpus, tuple(number for number, _ in found.at_risk))
    except EpsilonError as error:
        texts = {}
        st.caption(f"Their text is not here: {address.plain(str(error))}")
    tables.show(
        [{"sentence": number, "apart, in σ": apart, "text": texts.get(number, "")} for number, apart in found.at_risk],
        {
            "apart, in σ": tables.number(
                format="%.1f",
                help="How far what models say of it with and without it lies apart, in standard deviations.",
            )
        },
    )


@st.cache_data(show_spinner="Reading the corpus …", max_entries=4)
def _texts(_runs: Application, person: str, corpus: str, numbers: tuple[int, ...]) -> dict[int, str]:
    """person: who reads it, whom nobody else's corpus is shown."""
    found = _runs.corpora.training_sentences(corpus, numbers)
    return {number: " ".join(sentence.tokens) for number, sentence in found.items()}

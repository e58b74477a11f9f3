"""Table of the sentences most exposed to membership inference."""

import streamlit as st

from engine.errors import EpsilonError
from engine.records import MembershipAudit
from engine.reports.csv_export import neutral
from engine.service import Application
from pages.shared import address, tables


def at_risk(app: Application, corpus: str, audit: MembershipAudit) -> None:
    """Show the most exposed sentences, without their text where the corpus is not available."""
    try:
        texts = _texts(app, repr(app.user), corpus, tuple(number for number, _ in audit.at_risk))
    except EpsilonError as error:
        texts = {}
        st.caption(f"Text not available: {address.plain(str(error))}")
    tables.show(
        [
            {"sentence": number, "distance, sd": distance, "text": neutral(texts.get(number, ""))}
            for number, distance in audit.at_risk
        ],
        {
            "distance, sd": tables.number(
                format="%.1f",
                help="Difference between the attack's scores of models trained with and without the sentence, in "
                "standard deviations. For one attacked model: difference from the mean score of non-members.",
            )
        },
    )


@st.cache_data(show_spinner="Reading the corpus …", max_entries=4)
def _texts(_app: Application, person: str, corpus: str, numbers: tuple[int, ...]) -> dict[int, str]:
    """Return the text of training sentences by index.

    ``person``, the user, is part of the cache key: a user must not see the cached corpus of another user.
    """
    sentences = _app.corpora.training_sentences(corpus, numbers)
    return {number: " ".join(sentence.tokens) for number, sentence in sentences.items()}

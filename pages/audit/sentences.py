"""Table of the sentences most exposed to membership inference."""

import streamlit as st

from engine.errors import CorpusError, EpsilonError
from engine.records import MembershipAudit
from engine.reports.csv_export import neutral
from engine.service import Application
from pages.shared import address, tables


def at_risk(app: Application, corpus: str, audit: MembershipAudit) -> None:
    """Show the most exposed sentences, without their text where the corpus is not available."""
    try:
        with st.spinner("Reading the corpus …"):
            found = texts(app, corpus, audit)
    except EpsilonError as error:
        found = {}
        st.caption(f"Text not available: {address.plain(str(error))}")
    tables.show(
        [
            {"sentence": number, "distance, sd": distance, "text": neutral(found.get(number, ""))}
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


def texts(app: Application, corpus: str, audit: MembershipAudit) -> dict[int, str]:
    """Return the text of the most exposed sentences by index. Raises CorpusError."""
    return _texts(app, corpus, app.corpora.checksum(corpus), tuple(number for number, _ in audit.at_risk))


@st.cache_data(show_spinner=False, max_entries=64)
def _texts(_app: Application, _corpus: str, checksum: str, numbers: tuple[int, ...]) -> dict[int, str]:
    """Return the text of training sentences by index; users of the same corpus share it.

    Args:
        _app: The application service of the user.
        _corpus: Name of the corpus.
        checksum: Its checksum. Only a user who may read the corpus gets it.
        numbers: Indices of the sentences.

    Raises:
        CorpusError: The corpus is not available, or was changed since its checksum was computed.
    """
    sentences = _app.corpora.training_sentences(_corpus, numbers)
    if _app.corpora.checksum(_corpus) != checksum:  # an error is not cached
        raise CorpusError(f"corpus={_corpus!r} was changed while it was read; open the page again.")
    return {number: " ".join(sentence.tokens) for number, sentence in sentences.items()}

"""The text of a session and its last result; both are deleted with the session."""

import streamlit as st

from engine.service import MOST_CHARACTERS, Application, TaggingResult
from engine.tagging.entities import Entity
from engine.tagging.examples import examples
from pages.shared import address

OWN = "A text of my own"
_LAST = "try_last"


def chosen() -> tuple[str, tuple[Entity, ...] | None]:
    """Return the text, and its entities where it is an unchanged example."""
    available = examples()
    title = st.selectbox("Text", [OWN, *available], index=1, key="try_example")
    with st.form(f"try_form_{title}", border=False):
        text = st.text_area(
            f"Your text, at most {MOST_CHARACTERS:,} characters" if title == OWN else "Example text (you can edit it)",
            available[title].text if title in available else "",
            height=200,
            # With a limit here the browser cuts off longer pasted text without a message.
            placeholder="Type or paste a letter, a note, a report …",
            key=f"try_text_{title}",
        )
        st.form_submit_button("Tag text", type="primary", icon=":material/search:")
    st.caption("The text stays on this machine and is not stored.")
    same = title in available and text == available[title].text
    return text, available[title].names if same else None


def answer(app: Application, text: str, identities: tuple[str, ...]) -> TaggingResult:
    """Return the results of the models; tag again only if the text or the models changed.

    Args:
        app: The application.
        text: The text to tag.
        identities: The run identities of the models.

    Raises:
        InvalidConfig: The text is too long or a run is unknown.
        TrainingFailed: The text could not be tagged.
    """
    request, last = (text, identities), st.session_state.get(_LAST)
    if last is None or last[0] != request:
        container = st.empty()
        container.caption("Tagging …")
        last = (request, app.tagging.tag(text, identities, lambda stage: _show_progress(container, stage)))
        container.empty()
        st.session_state[_LAST] = last
    result: TaggingResult = last[1]
    return result


def _show_progress(container: st.delta_generator.DeltaGenerator, stage: str) -> None:
    container.caption(address.plain(f"Tagging: {stage} …"))

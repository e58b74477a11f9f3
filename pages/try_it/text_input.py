"""The text of a session, and what taggers said of it last; both go with the session."""

import streamlit as st

from engine.service import MOST_CHARACTERS, Application, TaggingResult
from engine.tagging.entities import Entity
from engine.tagging.examples import examples
from pages.shared import address

OWN = "A text of my own"
_LAST = "try_last"


def chosen() -> tuple[str, tuple[Entity, ...] | None]:
    """The text, and the names that are in it where it is one of the examples as it stands."""
    known = examples()
    title = st.selectbox("Text", [OWN, *known], index=1, key="try_example")
    with st.form(f"try_form_{title}", border=False):
        text = st.text_area(
            f"Your text, at most {MOST_CHARACTERS:,} characters" if title == OWN else "Change it as you like",
            known[title].text if title in known else "",
            height=170,
            # With a limit here the browser drops what is pasted if it is longer, without a word.
            placeholder="Type or paste a letter, a note, a report …",
            key=f"try_text_{title}",
        )
        st.form_submit_button("Find the names", type="primary", icon=":material/search:")
    st.caption("It stays on this machine and is not stored.")
    same = title in known and text == known[title].text
    return text, known[title].names if same else None


def answer(app: Application, text: str, identities: tuple[str, ...]) -> TaggingResult:
    """What the taggers say; asked again only if text or taggers are others. Raises InvalidConfig, TrainingFailed."""
    asked, last = (text, identities), st.session_state.get(_LAST)
    if last is None or last[0] != asked:
        place = st.empty()
        place.caption("Finding names …")
        last = (asked, app.tagging.tag(text, identities, lambda stage: _tell(place, stage)))
        place.empty()
        st.session_state[_LAST] = last
    found: TaggingResult = last[1]
    return found


def _tell(place: st.delta_generator.DeltaGenerator, stage: str) -> None:
    place.caption(address.plain(f"Finding names: {stage} …"))

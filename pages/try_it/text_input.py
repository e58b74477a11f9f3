"""The text of a session and its last result; both are deleted with the session. Results of examples are shared."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import streamlit as st

from engine.service import MOST_CHARACTERS, Application, AvailableModel, TaggingResult
from engine.tagging.entities import Entity
from engine.tagging.examples import examples
from pages.shared import address

OWN = "A text of my own"
_LAST = "try_last"
_Request = tuple[str, tuple[str, ...]]
"""A text, and the run identities of models."""


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


@dataclass(frozen=True)
class _Shared:
    """Results of unchanged examples by text and models, which are the same for all users of a server."""

    results: dict[_Request, TaggingResult] = field(default_factory=dict)
    one: threading.Lock = field(default_factory=threading.Lock)


@st.cache_resource(show_spinner=False)
def _shared() -> _Shared:
    return _Shared()


def answer(app: Application, text: str, offers: Sequence[AvailableModel]) -> TaggingResult:
    """Return the results of the models; tag again only if the text or the models changed.

    Args:
        app: The application.
        text: The text to tag.
        offers: The models.

    Raises:
        InvalidConfig: The text is too long or a run is unknown.
        TrainingFailed: The text could not be tagged.
    """
    request = text, tuple(offer.run.run_id for offer in offers)
    last = st.session_state.get(_LAST)
    if last is None or last[0] != request:
        container = st.empty()
        container.caption("Tagging …")
        last = (request, _tagged(app, text, offers, lambda stage: _show_progress(container, stage)))
        container.empty()
        st.session_state[_LAST] = last
    result: TaggingResult = last[1]
    return result


def tag_first_example(app: Application) -> None:
    """Tag the example that the page shows first with the published models, for all users. Raises EpsilonError."""
    offers = [offer for offer in app.tagging.available_models() if offer.epsilon is not None]
    if offers:
        _tagged(app, next(iter(examples().values())).text, offers, lambda stage: None)


def _tagged(
    app: Application, text: str, offers: Sequence[AvailableModel], on_progress: Callable[[str], None]
) -> TaggingResult:
    """Return the results of the models; those of published models for an example are computed once for all users."""
    request = text, tuple(offer.run.run_id for offer in offers)
    public = all(offer.epsilon is not None for offer in offers)
    if not (public and any(text == example.text for example in examples().values())):
        return app.tagging.tag(*request, on_progress)
    shared = _shared()
    if known := shared.results.get(request):  # without the lock: another example may be tagged now
        return known
    with shared.one:
        if known := shared.results.get(request):
            return known
        result = app.tagging.tag(*request, on_progress)
        if not result.missing:  # a missing model may be installed later
            shared.results[request] = result
        return result


def _show_progress(container: st.delta_generator.DeltaGenerator, stage: str) -> None:
    container.caption(address.plain(f"Tagging: {stage} …"))

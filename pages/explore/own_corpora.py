"""A corpus of one's own, in the sidebar: brought, renamed, deleted."""

from collections.abc import Callable

import streamlit as st

from engine.config import SimulationConfig
from engine.corpus import OWN, CorpusInfo
from engine.errors import EpsilonError, NotAllowed
from engine.service import Application, ImportSummary
from pages.shared import address, session

_NEXT, _TAKEN, _REFUSED, _READ = "corpus_next", "upload_taken", "upload_refused", "upload_read"


def follow() -> None:
    """Choose what was brought, renamed or is left; called before the choice is drawn."""
    if chosen := st.session_state.pop(_NEXT, None):
        st.session_state.corpus = chosen


def bring(app: Application) -> None:
    """The place for a file; what is wrong with it is said there. Nothing for those who may run nothing."""
    state = st.session_state
    if not session.can_run():
        return
    whose = "**everybody who opens this dashboard** sees it and its runs, until it is deleted here"
    if app.user:
        whose = "nobody but you, and the admins, sees it until you share it"
    with st.popover("Upload a corpus", type="tertiary", icon=":material/upload_file:"):
        st.markdown(
            "A column file: one token a line, its tag in the last column (IOB1, BIO2 or BIOES), a blank line between "
            "sentences. Or a zip: column files called train, test and perhaps dev; brat's .txt and .ann files; or "
            ".rel files such as DRUG-AE.rel. What comes without parts is split 80 / 10 / 10. It stays on this "
            f"server, in the data folder of whoever runs it, and {whose}."
        )
        file = st.file_uploader("Column file, .rel or zip, up to 50 MB", key="upload")
        if file is not None and file.file_id != state.get(_TAKEN):
            state[_TAKEN] = file.file_id
            _take(app, file.name, file.getvalue())
        if file is not None and (problem := state.get(_REFUSED)):
            st.error(address.plain(problem), icon=":material/error:")
    read: tuple[str, ImportSummary] | None = state.get(_READ)
    if read and read[0] == state.corpus:
        st.success(address.plain(summary(read[1])), icon=":material/task_alt:")


def _take(app: Application, filename: str, data: bytes) -> None:
    state = st.session_state
    state[_REFUSED] = None
    with st.status(f"Reading {len(data) / 1e6:.1f} MB …") as status:
        try:
            name, found = app.corpora.add(filename, data, lambda stage: status.update(label=f"{stage} …"))
        except EpsilonError as error:
            state[_REFUSED] = str(error)
            status.update(label="It was not kept.", state="error")
            return
    state[_NEXT], state[_READ] = name, (name, found)
    st.rerun()


def summary(found: ImportSummary) -> str:
    """What was read, in sentences."""
    train, validation, test = found.sentences
    names = ", ".join(f"{number:,} {kind}" for kind, number in sorted(found.names.items()))
    return (
        f"Read: {train + validation + test:,} sentences ({train:,} to train on, {validation:,} to validate, {test:,} "
        f"to test). Names: {names}. The first sentence with one: {found.first}"
    )


def manage(app: Application, info: CorpusInfo) -> None:
    """Another name for the chosen corpus, its end, or others who may use it, where it is the user's own."""
    if not info.name.startswith(OWN):
        return
    try:
        app.access.require_owner("corpus", info.name)
    except NotAllowed:
        st.caption("Somebody else shares this corpus with you.")
        return
    label = "Share, rename or delete it" if app.user else "Rename or delete it"
    with st.popover(label, type="tertiary", icon=":material/edit:"):
        if app.user:
            _share(app, info)
        try:
            number = len(app.queries.runs_of(info.name))
        except EpsilonError as error:
            st.error(address.plain(str(error)), icon=":material/error:")
            return
        called = "1 run is" if number == 1 else f"{number:,} runs are"
        if number:
            st.caption(f"{called} called by its name, so it can be renamed once they are deleted.")
        title = st.text_input("Name", info.title, max_chars=40, key="corpus_title", disabled=number > 0)
        if st.button("Rename", key="rename_corpus", disabled=number > 0):
            _do(lambda: app.corpora.rename(info.name, title))
        st.divider()
        with_runs = f" and its {number:,} runs" if number > 1 else " and its run" if number else ""
        st.markdown(f"Its file{with_runs} and what was worked out from its sentences are removed{_for_all(app)}.")
        sure = st.checkbox("I understand that this cannot be undone", key="corpus_sure")
        if st.button(
            f"Delete this corpus{with_runs}", type="primary", key="delete_corpus", disabled=not sure,
            icon=":material/delete:",
        ):  # fmt: skip
            _do(lambda: app.corpora.delete(info.name))


def _for_all(app: Application) -> str:
    return "" if app.user else ", for everybody"


def _share(app: Application, info: CorpusInfo) -> None:
    shared = info.name in app.access.shared("corpus")
    wanted = st.toggle(
        "Everybody who may sign in may use it",
        shared,
        key=f"share_{info.name}",
        help="They can train on it, and see sentences of it where pages show some. Your runs stay your own: they are "
        "shared one by one, on the page Runs.",
    )
    if wanted != shared:
        app.access.share("corpus", info.name, shared=wanted)
        st.rerun()


def _do(change: Callable[[], str | None]) -> None:
    """Rename or delete, and show what is left; or say why not."""
    try:
        st.session_state[_NEXT] = change() or SimulationConfig().corpus
    except EpsilonError as error:
        st.error(address.plain(str(error)), icon=":material/error:")
    else:
        st.rerun()

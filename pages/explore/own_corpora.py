"""Uploaded corpora in the sidebar: upload, rename, share and delete them."""

from collections.abc import Callable
from typing import TypeVar

import streamlit as st
from streamlit.typing import UploadedFile

from engine.config import OWN, SimulationConfig
from engine.corpus import CorpusInfo
from engine.corpus.declared_types import OUTSIDE, REFUSE, UNDECLARED
from engine.errors import EpsilonError, NotAllowed
from engine.service import Application, ImportSummary
from pages.shared import address, session, uploads, visits

_T = TypeVar("_T")
_NEXT, _TAKEN, _REFUSED, _READ = "corpus_next", "upload_taken", "upload_refused", "upload_read"
_FOUND, _TYPES, _OTHERS = "upload_found", "upload_types", "upload_undeclared"
_TREATMENTS = {REFUSE: "Refuse the file", OUTSIDE: "Read as O (no entity)"}


def follow() -> None:
    """Select the corpus that was uploaded or renamed, or the default after a deletion; call it before the widget."""
    if chosen := st.session_state.pop(_NEXT, None):
        st.session_state.corpus = chosen


def upload(app: Application) -> None:
    """Show the upload and its errors; show nothing to users who may not start runs."""
    state = st.session_state
    if not session.can_run():
        return
    visibility = "**All users of this dashboard** see the corpus and its runs until it is deleted"
    if app.user:
        visibility = "Only you and the admins see the corpus until you share it"
    if days := app.settings.retention_days:
        visibility += f". If neither the corpus nor a run on it is used for {days:,} days, both are deleted"
    with st.popover("Upload a corpus", type="tertiary", icon=":material/upload_file:"):
        st.markdown(
            "**Column file**: one token per line, its tag in the last column (IOB1, BIO2 or BIOES), a blank line "
            "between sentences. **Zip**: column files called train, test and (optionally) dev, or the .txt and .ann "
            "files of the annotation tool brat. **.rel file**: as DRUG-AE.rel of ADE Corpus V2. A corpus without a "
            "split is split into training, validation and test sets (80 / 10 / 10 %). This server stores the corpus in "
            "its data folder. "
            f"{visibility}."
        )
        file = st.file_uploader("Column file, .rel file or zip, up to 50 MB", key="upload")
        if file is not None and file.file_id != state.get(_TAKEN):
            state[_TAKEN] = file.file_id
            _inspect(app, file)
        if file is not None and state.get(_FOUND):
            _declare(app, file, state[_FOUND])
        elif file is not None:
            _show_problem()
    imported: tuple[str, ImportSummary] | None = state.get(_READ)
    if imported and imported[0] == state.corpus:
        st.success(address.plain(f"Imported {imported[1].text}"), icon=":material/task_alt:")


def _inspect(app: Application, file: UploadedFile) -> None:
    """Read the file, and fill the field of its entity types."""
    state = st.session_state
    found = state[_FOUND] = _attempt(file, lambda data, tell: app.corpora.inspect(file.name, data, tell))
    if found:
        state[_TYPES] = " ".join(found.declared or sorted(found.names))


def _declare(app: Application, file: UploadedFile, found: ImportSummary) -> None:
    """Show the entity types of the file for the user to confirm, and the button that adds the corpus."""
    st.caption(address.plain(f"This file has {found.text}"))
    types = st.text_input(
        "Entity types, which become public",
        key=_TYPES,
        help="Names separated by spaces. They decide the tags of each tagger, which shows them without noise.",
    )
    st.caption(
        "This list comes from the file. ε holds only if the list does not depend on single sentences: remove types "
        "that you would not list without the sentences, and add those that could occur."
    )
    undeclared = st.radio("Mentions of other types", UNDECLARED, format_func=_TREATMENTS.__getitem__, key=_OTHERS)
    above = st.container()  # below the button, an error would need scrolling
    if st.button("Add corpus", type="primary", icon=":material/add:", key="add_corpus"):
        with above:
            added = _attempt(
                file,
                lambda data, tell: app.corpora.add(file.name, data, tell, types=types, undeclared=undeclared),
            )
        if added:
            uploads.of_this_server().drop(file_id=file.file_id)
            state = st.session_state
            state[_NEXT], state[_READ], state[_FOUND] = added[0], added, None
            st.rerun()
    with above:
        _show_problem()


def _show_problem() -> None:
    if problem := st.session_state.get(_REFUSED):
        st.error(address.plain(problem), icon=":material/error:")


def _attempt(file: UploadedFile, action: Callable[[bytes, Callable[[str], None]], _T]) -> _T | None:
    """Return the result of an action that reads the file, or None; its error is then shown in the upload."""
    st.session_state[_REFUSED] = None
    with st.status("Reading the file …") as status:
        try:
            data = uploads.of_this_server().content(file.getvalue(), st.context.cookies.get(visits.COOKIE))
            status.update(label=f"Reading {len(data) / 1e6:.1f} MB …")
            result = action(data, lambda stage: status.update(label=f"{stage} …"))
        except EpsilonError as error:
            st.session_state[_REFUSED] = str(error)
            status.update(label="The upload failed.", state="error")
            return None
        status.update(label="The file was read.", state="complete")
        return result


def manage(app: Application, info: CorpusInfo) -> None:
    """Show the actions on the chosen corpus if the user uploaded it: share, rename and delete."""
    if not info.name.startswith(OWN):
        return
    try:
        app.access.require_owner("corpus", info.name)
    except NotAllowed:
        st.caption("Another user shares this corpus with you.")
        return
    label = "Share, rename or delete" if app.user else "Rename or delete"
    with st.popover(label, type="tertiary", icon=":material/edit:"):
        if app.user:
            _share(app, info)
        try:
            number = len(app.queries.runs_of(info.name))
        except EpsilonError as error:
            st.error(address.plain(str(error)), icon=":material/error:")
            return
        users = "1 run uses" if number == 1 else f"{number:,} runs use"
        if number:
            st.caption(f"{users} this name. You can rename the corpus after you delete {_them(number)}.")
        title = st.text_input("Name", info.title, max_chars=40, key="corpus_title", disabled=number > 0)
        if st.button("Rename", key="rename_corpus", disabled=number > 0):
            _change(lambda: app.corpora.rename(info.name, title))
        st.divider()
        with_runs = f" and its {number:,} runs" if number > 1 else " and its run" if number else ""
        st.markdown(f"This deletes the file{with_runs} and all data derived from its sentences{_for_all(app)}.")
        sure = st.checkbox("I understand that this cannot be undone", key="corpus_sure")
        if st.button(
            f"Delete corpus{with_runs}", type="primary", key="delete_corpus", disabled=not sure,
            icon=":material/delete:",
        ):  # fmt: skip
            _change(lambda: app.corpora.delete(info.name))


def _them(number: int) -> str:
    return "it" if number == 1 else "them"


def _for_all(app: Application) -> str:
    return "" if app.user else " for all users"


def _share(app: Application, info: CorpusInfo) -> None:
    was_shared = info.name in app.access.shared("corpus")
    share = st.toggle(
        "Share with all users",
        was_shared,
        key=f"share_{info.name}",
        help="All users who can sign in can train on the corpus and see its sentences on some pages. Your runs stay "
        "private: share them one by one on the page Runs.",
    )
    if share != was_shared:
        app.access.share("corpus", info.name, shared=share)
        st.rerun()


def _change(action: Callable[[], str | None]) -> None:
    """Rename or delete a corpus and update the page, or show the error."""
    try:
        st.session_state[_NEXT] = action() or SimulationConfig().corpus
    except EpsilonError as error:
        st.error(address.plain(str(error)), icon=":material/error:")
    else:
        st.rerun()

"""Choice of a corpus in the sidebar, with its contents and its download."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import streamlit as st

from engine.config import JOIN, has_own_corpus
from engine.corpus import CorpusInfo
from engine.corpus.files import base_name_and_split
from engine.errors import EpsilonError
from engine.service import Application
from pages.explore import own_corpora, widgets
from pages.shared import address, titles

_PROBLEM = "corpus_problem"


def choose(app: Application, start: Mapping[str, Any], corpora: Mapping[str, CorpusInfo]) -> None:
    """Show the choice of a corpus, its contents and the actions on it.

    Args:
        app: The application service.
        start: Initial values of the widgets, by key.
        corpora: The corpora to choose from, by name.
    """
    own_corpora.follow()
    labels = {name: info.title if info.available else f"{info.title} (not installed)" for name, info in corpora.items()}
    widgets.select(start, "corpus", list(corpora), format_func=labels.__getitem__)
    info = corpora[st.session_state.corpus]
    types = ", ".join(info.entity_types)
    if has_own_corpus(info.name) and not types and JOIN not in info.name:
        types = "entity types not declared, so ε does not cover them: upload the corpus again"
    facts = [f"{info.sentences:,} sentences" if info.sentences else "", types, info.licence]
    st.caption(" · ".join(address.plain(fact) for fact in facts if fact))
    _offer_missing(app, [part for name in info.name.split(JOIN) if (part := _part(corpora, name))])
    own_corpora.manage(app, info)
    own_corpora.upload(app)
    if problem := st.session_state.pop(_PROBLEM, None):
        st.error(address.plain(problem), icon=":material/error:")


def _offer_missing(app: Application, parts: Sequence[CorpusInfo]) -> None:
    """Show a button that downloads missing corpora, and instructions for those that need a manual download.

    Args:
        app: The application service.
        parts: The corpora of all clients, or the only one.

    """
    missing = {base_name_and_split(part.name)[0]: part for part in parts if not part.available}
    if fetched := {name: part for name, part in missing.items() if part.fetchable}:
        size = sum(part.size for part in fetched.values()) / 1e6
        what = "corpus" if len(parts) == 1 else ", ".join(map(titles.corpus, fetched))
        st.button(
            f"Download {what} ({size:.1f} MB)", on_click=_fetch, args=(app, list(fetched)), icon=":material/download:"
        )
    for part in missing.values():
        if not part.fetchable:
            st.caption(address.plain(part.note))


def with_asked(corpora: Mapping[str, CorpusInfo], asked: str) -> dict[str, CorpusInfo]:
    """Return the corpora and the one in the session's link, if that is a split of a corpus or a join of several."""
    parts = [_part(corpora, name) for name in asked.split(JOIN)]
    available = [part for part in parts if part]
    if asked in corpora or len(available) < len(parts):
        return dict(corpora)
    return {**corpora, asked: available[0] if len(available) == 1 else _joined(asked, available)}


def _part(corpora: Mapping[str, CorpusInfo], name: str) -> CorpusInfo | None:
    base, split = base_name_and_split(name)
    if split is None or base not in corpora:
        return corpora.get(name)
    return replace(corpora[base], name=name, title=titles.corpus(name))


def _joined(asked: str, parts: Sequence[CorpusInfo]) -> CorpusInfo:
    sentences = [part.sentences for part in parts if part.sentences]
    return CorpusInfo(
        name=asked,
        title=JOIN.join(part.title for part in parts),
        licence=JOIN.join(dict.fromkeys(part.licence for part in parts)),
        source="",
        size=sum(part.size for part in parts),
        sentences=sum(sentences) if len(sentences) == len(parts) else None,
        entity_types=(),
        synthetic=all(part.synthetic for part in parts),
        available=all(part.available for part in parts),
        where="",
        fetchable=False,
    )


def say(problem: EpsilonError) -> None:
    """Show an error of the corpus below its choice in the next view."""
    st.session_state[_PROBLEM] = str(problem)


def _fetch(app: Application, names: Sequence[str]) -> None:
    try:
        with st.spinner("Downloading …"):
            for name in names:
                app.corpora.download(name)
    except EpsilonError as error:
        say(error)

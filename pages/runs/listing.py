"""The list of runs with what can be done to them. While a run waits or runs, it is looked at again by itself."""

import os
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import Any

import pandas as pd
import streamlit as st

from engine.experiments.seed_aggregates import engine_of
from engine.records import EntityScores, RoundRecord, Run, RunKind, RunState
from engine.reports.numbers import epsilon_text
from engine.service import Application, Overview, table_export
from pages.runs import actions, pagination
from pages.shared import address, compare_selection, downloads, metrics, tables, titles

POLL_SECONDS = 2.0
_ORDER = "runs_order"
SIGNS = {
    RunState.QUEUED: "◔ queued",
    RunState.RUNNING: "▶ running",
    RunState.DONE: "✓ done",
    RunState.FAILED: "✗ failed",
    RunState.CANCELLED: "■ cancelled",
}


def show(app: Application) -> None:
    """The whole page. Raises StoreError."""
    st.fragment(_view, run_every=POLL_SECONDS if app.queries.has_active() else None)(app)
    actions.show_question()


def summary(found: Sequence[Overview]) -> str:
    """How many of what, in a sentence."""
    numbers = Counter(each.run.status.state for each in found)
    published = sum(each.run.published for each in found)
    parts = [f"{numbers[state]:,} {state}" for state in RunState if numbers[state] and state != RunState.DONE]
    own = numbers[RunState.DONE] - published
    parts += [f"{own:,} of yours done"] if own else []
    parts += [f"{published:,} published"] if published else []
    older = sum(bool(engine_of(each.run)) for each in found)
    text = ", ".join(parts) or "No runs yet: start one on the page Explore"
    return text + (f"; {older:,} of an older engine." if older else ".")


def row(each: Overview, me: str | None = None) -> dict[str, Any]:
    """A run as a row. me: who has signed in, if anybody has to."""
    run, last, config = each.run, each.last_record, each.run.config
    scores = _scores(last)
    return {
        "state": SIGNS[run.status.state] + (", attack" if run.kind == RunKind.AUDIT else ""),
        "look": address.link(config),
        "corpus": titles.corpus(config.corpus),
        "model": titles.TAGGERS.get(config.tagger.name, config.tagger.name),
        "σ": config.privacy.noise_multiplier,
        "clients": config.federation.clients,
        "seed": config.seed,
        "ε": _epsilon(last),
        "F1": scores.f1 if scores else None,
        metrics.INTERVAL: metrics.interval(scores) if scores else None,
        "part": _part(last),
        "progress": run.status.progress,
        "why": None if run.kind == RunKind.AUDIT else f"./diagnose?run={run.run_id}",
        "report": f"./report?run={run.run_id}" if last and last.final else None,
        "ε rests on": address.ledger(run),
        "rounds": config.federation.rounds,
        "share": config.data_fraction,
        "epochs": config.training.epochs,
        "engine": _engine(run),
        "seconds": _seconds(run, last),
        "asked for": datetime.fromtimestamp(run.status.created) if run.status.created else None,
        "whose": _whose(run, me),
        "note": each.note or run.status.error or (each.comparison.text if each.comparison else ""),
        "id": run.run_id,
    }


def _scores(last: RoundRecord | None) -> EntityScores | None:
    """On the test part once the run is done, on the validation part before."""
    if last is None:
        return None
    return last.test if last.final and last.test else last.scores


def _part(last: RoundRecord | None) -> str:
    """Which part of the corpus these scores are on."""
    if last is None:
        return ""
    return "test" if last.final else "validation"


def _epsilon(last: RoundRecord | None) -> str:
    """What was spent so far; no ε stands beside a failed noise check."""
    if last is None:
        return ""
    if last.noise_check and last.noise_check.failed:
        return "✗ check"
    return epsilon_text(last.privacy.epsilon)


def _seconds(run: Run, last: RoundRecord | None) -> float | None:
    """Of the whole run once it is done, up to the last record before."""
    if run.provenance:
        return run.provenance.wall_seconds
    return last.seconds if last else None


def _whose(run: Run, me: str | None = None) -> str:
    if me and run.owner != me and not run.published:
        return run.owner or "nobody's"
    if run.kind != RunKind.RUN:
        return "again" if run.kind == RunKind.REPEAT else "attack"
    return "published" if run.published else "yours"


def _engine(run: Run) -> str:
    version = run.provenance.engine_version if run.provenance else ""
    return f"{version}, older" if engine_of(run) else version


def matching(
    found: Sequence[Overview], words: str, states: Sequence[RunState], whose: str | None, me: str | None = None
) -> list[Overview]:
    """Runs whose row holds all of the words, in one of the states (none chosen: all).

    A word with = asks for a column's very value: seed=3, σ=1. Corpora and models are found by their titles and by the
    names that the shell and links have: corpus=conll2003, model=linear-crf.
    """
    return [
        each
        for each in found
        if (not states or each.run.status.state in states)
        and (not whose or whose == _whose(each.run, me) or (whose == "others'" and _of_others(each.run, me)))
        and _has(each, words.lower().split(), me)
    ]


def _of_others(run: Run, me: str | None) -> bool:
    return bool(me) and run.owner != me and not run.published


def _has(each: Overview, words: Sequence[str], me: str | None) -> bool:
    if not words:
        return True
    cells = {name.lower(): _plain(value) for name, value in row(each, me).items() if name not in _LINKS}
    raw = {"corpus": each.run.config.corpus.lower(), "model": each.run.config.tagger.name}
    text = " ".join((*cells.values(), *raw.values()))
    for word in words:
        name, equals, value = word.partition("=")
        if equals and value not in (cells.get(name), raw.get(name)):
            return False
        if not equals and word not in text:
            return False
    return True


_LINKS = ("look", "why", "report", "ε rests on")
"""Columns that are found by no word."""


def _plain(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value).lower()


def _view(app: Application) -> None:
    found = pagination.looked_at(app)
    st.markdown(f"### {pagination.among(found, app.queries.count())}{summary(found)}")
    left, middle, right = st.columns([3, 3, 2], vertical_alignment="bottom")
    words = left.text_input(
        "Find",
        placeholder="crf conll2003 seed=3",
        key="runs_words",
        icon=":material/search:",
        on_change=pagination.to_the_newest,
    )
    states = middle.multiselect(
        "State",
        list(RunState),
        key="runs_states",
        placeholder="all",
        format_func=SIGNS.__getitem__,
        on_change=pagination.to_the_newest,
    )
    me = app.user.name if app.user else None
    kinds = ["yours", "published", "again", "attack", *(["others'"] if me else [])]
    whose = right.selectbox(
        "Whose",
        [None, *kinds],
        key="runs_whose",
        format_func=lambda w: w or "all",
        on_change=pagination.to_the_newest,
    )
    chosen_before = st.session_state.get(actions.table_key(), {}).get("selection", {}).get("rows", [])
    matches = {each.run.run_id: each for each in matching(found, words, states, whose, me)}
    # Rows are chosen by their place: while some are, the list keeps its order, and new runs come last.
    order = [run_id for run_id in st.session_state.get(_ORDER, ()) if run_id in matches] if chosen_before else []
    before = set(order)
    order += [run_id for run_id in matches if run_id not in before]
    st.session_state[_ORDER] = order
    listed = pagination.shown(order)
    if listed:
        frame = pd.DataFrame([row(matches[run_id], me) for run_id in listed])
        event = st.dataframe(
            frame,
            hide_index=True,
            column_config=tables.explained(frame.columns, _columns()),
            key=actions.table_key(),
            on_select="rerun",
            selection_mode="multi-row",
            placeholder="",
            height=min(560, 38 + 35 * len(frame)),
        )
        rows = event["selection"]["rows"]
        _actions(app, [matches[listed[number]] for number in rows if number < len(listed)])
    else:
        st.caption("No matching runs." if found else "")
    pagination.steps(app, order, found, lambda some: bool(matching(some, words, states, whose, me)))
    if listed:
        _offer([matches[run_id] for run_id in order])


def _columns() -> dict[str, Any]:
    column = st.column_config
    return {
        "progress": column.ProgressColumn("progress", format="percent", min_value=0, max_value=1, width=90),
        # So that ε and F1 can be seen without scrolling, whatever a federation of three corpora is called.
        "corpus": column.TextColumn(width=230),
        "model": column.TextColumn(width=130),
        "σ": column.NumberColumn(format="%g"),
        "share": column.NumberColumn(format="percent"),
        "epochs": column.NumberColumn(format="%g"),
        "F1": column.NumberColumn(format="%.3f"),
        metrics.INTERVAL: tables.INTERVAL_COLUMN,
        "seconds": column.NumberColumn(format="%.0f"),
        "asked for": column.DatetimeColumn(format="YYYY-MM-DD HH:mm"),
        "look": column.LinkColumn(display_text="in Explore"),
        "why": column.LinkColumn(display_text="Diagnose"),
        "report": tables.REPORT_COLUMN,
        "ε rests on": tables.LEDGER_COLUMN,
    }


def _offer(listed: Sequence[Overview]) -> None:
    """The list to take away, with every setting."""
    with st.container(horizontal=True, vertical_alignment="center"):
        for ending, kind in table_export.KINDS.items():
            downloads.button(
                "CSV" if ending == ".csv" else "Parquet",
                partial(_content, listed, ending),
                f"runs{ending}",
                kind,
                icon=":material/download:",
            )
        st.caption("These runs with every setting. `python -m engine export` sends them to MLflow too.")


def _content(listed: Sequence[Overview], ending: str) -> bytes:
    return table_export.content(table_export.runs_table(listed), ending)


def _actions(app: Application, chosen: Sequence[Overview]) -> None:
    """What can be done to the chosen runs."""
    mine = [each.run.run_id for each in chosen if not each.run.published]
    active = [each.run.run_id for each in chosen if not each.run.status.state.final]
    with st.container(horizontal=True, vertical_alignment="center"):
        if st.button(f"Cancel {len(active)}" if active else "Cancel", disabled=not active, icon=":material/stop:"):
            actions.each(app.runs.cancel, active)
        if st.button(f"Delete {len(mine)}" if mine else "Delete", disabled=not mine, icon=":material/delete:"):
            actions.ask(partial(actions.delete, app, mine))
        done = {each.run.run_id: each.run.config for each in chosen if each.last_record and each.last_record.final}
        firsts = [each.run.run_id for each in chosen if each.run.run_id in done and each.run.kind == RunKind.RUN]
        if st.button("Compare", disabled=not done, icon=":material/stacked_line_chart:"):
            compare_selection.ask(list(done.values()))
            st.switch_page("pages/compare/page.py")
        if st.button(
            f"Run {len(firsts)} again" if firsts else "Run again",
            disabled=not firsts,
            icon=":material/replay:",
            help="Once more on this machine, beside the first run, to see whether it comes out the same. "
            "What came of it stands in its note.",
        ):
            actions.each(lambda run_id: app.runs.resubmit(done[run_id], owner_pid=os.getpid()), firsts)
        if st.button(f"Note on {len(mine)}" if mine else "Note", disabled=not mine, icon=":material/edit_note:"):
            before = next(each.note for each in chosen if each.run.run_id in mine)
            actions.ask(partial(actions.note, app, mine, before))
        if app.user:
            _sharing(app, mine)
        if not chosen:
            st.caption("Choose rows to cancel, delete, compare, run again or annotate them.")
        elif len(mine) < len(chosen):
            st.caption("Published runs stay as they are.")


def _sharing(app: Application, mine: Sequence[str]) -> None:
    """Let everybody who may sign in see them, or nobody else any longer."""
    shared = bool(mine) and set(mine) <= app.access.shared("run")
    if st.button(
        "Keep to yourself" if shared else f"Share {len(mine)}" if mine else "Share",
        disabled=not mine,
        icon=":material/lock:" if shared else ":material/group:",
        help="Everybody who may sign in here sees what is shared, with its note; only you can change it.",
    ):
        actions.each(lambda run_id: app.access.share("run", run_id, shared=not shared), mine)

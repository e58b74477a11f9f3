"""The list of runs and the actions on them. It refreshes automatically while a run is queued or running."""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import Any

import pandas as pd
import streamlit as st

from engine.experiments.seed_aggregates import engine_of
from engine.records import EntityScores, RoundRecord, Run, RunKind, RunState
from engine.reports.csv_export import neutral
from engine.reports.numbers import epsilon_text
from engine.service import Application, Overview, table_export
from pages.runs import actions, pagination
from pages.shared import address, compare_selection, downloads, metrics, script_scheduler, tables, titles

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
    """Show the list.

    Raises:
        StoreError: The database failed.
    """
    script_scheduler.polling_fragment(_view, POLL_SECONDS if app.queries.has_active() else None)(app)
    actions.show_dialog()


def summary(found: Sequence[Overview]) -> str:
    """Return the numbers of runs by state, as a sentence."""
    numbers = Counter(overview.run.status.state for overview in found)
    published = sum(overview.run.published for overview in found)
    parts = [f"{numbers[state]:,} {state}" for state in RunState if numbers[state] and state != RunState.DONE]
    unpublished = numbers[RunState.DONE] - published
    parts += [f"{unpublished:,} done"] if unpublished else []
    parts += [f"{published:,} published"] if published else []
    outdated = sum(bool(engine_of(overview.run)) for overview in found)
    text = ", ".join(parts) or "No runs yet: start one on the page Explore"
    return text + (f"; {outdated:,} outdated." if outdated else ".")


def row(overview: Overview, me: str | None = None) -> dict[str, Any]:
    """Return a run as a table row.

    Args:
        overview: The run.
        me: Name of the signed-in user, or None without sign-in.
    """
    run, last, config = overview.run, overview.last_record, overview.run.config
    scores = _scores(last)
    return {
        "state": SIGNS[run.status.state] + (", audit" if run.kind == RunKind.AUDIT else ""),
        "run": address.link(config),
        "corpus": neutral(titles.corpus(config.corpus)),
        "model": titles.TAGGERS.get(config.tagger.name, config.tagger.name),
        "σ": config.privacy.noise_multiplier,
        "clients": config.federation.clients,
        "seed": config.seed,
        "ε": _epsilon(last),
        "F1": scores.f1 if scores else None,
        metrics.INTERVAL: metrics.interval(scores) if scores else None,
        "set": _evaluation_set(last),
        "progress": run.status.progress,
        "diagnostics": None if run.kind == RunKind.AUDIT else f"./diagnose?run={run.run_id}",
        "report": f"./report?run={run.run_id}" if last and last.final else None,
        "ε rests on": address.ledger(run),
        "rounds": config.federation.rounds,
        "data": config.data_fraction,
        "epochs": config.training.epochs,
        "engine": _engine(run),
        "seconds": _seconds(run, last),
        "submitted": datetime.fromtimestamp(run.status.created) if run.status.created else None,
        "source": _source(run, me),
        "note": neutral(overview.note or run.status.error) or (overview.comparison.text if overview.comparison else ""),
        "id": run.run_id,
    }


def _scores(last: RoundRecord | None) -> EntityScores | None:
    """Return the scores on the test set once the run is finished, and on the validation set before."""
    if last is None:
        return None
    return last.test if last.final and last.test else last.scores


def _evaluation_set(last: RoundRecord | None) -> str:
    """Return the set of sentences of these scores."""
    return "" if last is None else "test" if last.final else "validation"


def _epsilon(last: RoundRecord | None) -> str:
    """Return the ε spent so far, or a mark if the noise check failed."""
    if last is None:
        return ""
    if last.noise_check and last.noise_check.failed:
        return "✗ noise check"
    return epsilon_text(last.privacy.epsilon)


def _seconds(run: Run, last: RoundRecord | None) -> float | None:
    """Return the duration of a finished run, or the time up to the last record."""
    return run.provenance.wall_seconds if run.provenance else last.seconds if last else None


def _source(run: Run, me: str | None = None) -> str:
    if _of_others(run, me):
        return run.owner or "no owner"
    if run.kind != RunKind.RUN:
        return "rerun" if run.kind == RunKind.REPEAT else "audit"
    return "published" if run.published else "yours"


def _engine(run: Run) -> str:
    version = run.provenance.engine_version if run.provenance else ""
    return f"{version} (outdated)" if engine_of(run) else version


def matching(
    found: Sequence[Overview], words: str, states: Sequence[RunState], whose: str | None, me: str | None = None
) -> list[Overview]:
    """Return the runs that match a search and the filters.

    A word with = matches the exact value of a column: seed=3, σ=1. Corpora and models match by their titles and by the
    names in commands and links: corpus=conll2003, model=linear-crf.

    Args:
        found: The runs to search.
        words: Words that the row must contain, separated by spaces.
        states: Allowed states; empty allows all.
        whose: Allowed source of the run, as in its row, "other users", or None for all.
        me: Name of the signed-in user, or None without sign-in.
    """
    return [
        each
        for each in found
        if (not states or each.run.status.state in states)
        and (not whose or whose == _source(each.run, me) or (whose == _OTHERS and _of_others(each.run, me)))
        and _contains(each, words.lower().split(), me)
    ]


def _of_others(run: Run, me: str | None) -> bool:
    return bool(me) and run.owner != me and not run.published


def _contains(overview: Overview, words: Sequence[str], me: str | None) -> bool:
    if not words:
        return True
    cells = {name.lower(): _plain(value) for name, value in row(overview, me).items() if name not in _LINKS}
    raw = {"corpus": overview.run.config.corpus.lower(), "model": overview.run.config.tagger.name}
    text = " ".join((*cells.values(), *raw.values()))
    for word in words:
        name, equals, value = word.partition("=")
        if equals and value not in (cells.get(name), raw.get(name)):
            return False
        if not equals and word not in text:
            return False
    return True


_LINKS = ("run", "diagnostics", "report", "ε rests on")
"""Columns that the search ignores."""
_OTHERS = "other users"
"""Filter option for runs that other users own."""


def _plain(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value).lower()


def _view(app: Application) -> None:
    found = pagination.searched_runs(app)
    st.markdown(f"### {pagination.scope(found, app.queries.count()) or ('Runs: ' if found else '')}{summary(found)}")
    left, middle, right = st.columns([3, 3, 2], vertical_alignment="bottom")
    words = left.text_input(
        "Search runs",
        placeholder="crf conll2003 seed=3",
        key="runs_words",
        icon=":material/search:",
        on_change=pagination.go_to_newest,
    )
    states = middle.multiselect(
        "State",
        list(RunState),
        key="runs_states",
        placeholder="all",
        format_func=SIGNS.__getitem__,
        on_change=pagination.go_to_newest,
    )
    me = app.user.name if app.user else None
    sources = ["yours", "published", "rerun", "audit", *([_OTHERS] if me else [])]
    whose = right.selectbox(
        "Source",
        [None, *sources],
        key="runs_whose",
        format_func=lambda source: source or "all",
        on_change=pagination.go_to_newest,
    )
    chosen_before = st.session_state.get(actions.table_key(), {}).get("selection", {}).get("rows", [])
    matches = {overview.run.run_id: overview for overview in matching(found, words, states, whose, me)}
    # Streamlit stores selected rows by index. So while rows are selected, the order stays and new runs come last.
    order = [run_id for run_id in st.session_state.get(_ORDER, ()) if run_id in matches] if chosen_before else []
    before = set(order)
    order += [run_id for run_id in matches if run_id not in before]
    st.session_state[_ORDER] = order
    listed = pagination.page_of(order)
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
    pagination.steps(app, order, found, lambda older: bool(matching(older, words, states, whose, me)))
    if listed:
        _downloads([matches[run_id] for run_id in order])


def _columns() -> dict[str, Any]:
    column = st.column_config
    return {
        "progress": column.ProgressColumn("progress", format="percent", min_value=0, max_value=1, width=90),
        # Narrow, so that ε and F1 are visible without scrolling even for a federation of three corpora.
        "corpus": column.TextColumn(width=230),
        "model": column.TextColumn(width=130),
        "σ": column.NumberColumn(format="%g"),
        "data": column.NumberColumn(format="percent", help="Share of the training sentences."),
        "set": column.TextColumn(help="The sentences on which F1 was measured: validation or test set."),
        "epochs": column.NumberColumn(format="%g"),
        "F1": column.NumberColumn(format="%.3f"),
        metrics.INTERVAL: tables.INTERVAL_COLUMN,
        "seconds": column.NumberColumn(format="%.0f"),
        "submitted": column.DatetimeColumn(format="YYYY-MM-DD HH:mm"),
        "run": column.LinkColumn(display_text="Explore"),
        "diagnostics": column.LinkColumn(display_text="Diagnose"),
        "report": tables.REPORT_COLUMN,
        "ε rests on": tables.LEDGER_COLUMN,
    }


def _downloads(listed: Sequence[Overview]) -> None:
    """Show the buttons that download the list with all fields of the configurations."""
    with st.container(horizontal=True, vertical_alignment="center"):
        for ending, kind in table_export.KINDS.items():
            downloads.button(
                "Download CSV" if ending == ".csv" else "Download Parquet",
                partial(_content, listed, ending),
                f"runs{ending}",
                kind,
                icon=":material/download:",
            )
        st.caption("The files contain all fields of these runs. For MLflow, use `.venv/bin/python -m engine export`.")


def _content(listed: Sequence[Overview], ending: str) -> bytes:
    return table_export.content(table_export.runs_table(listed), ending)


def _actions(app: Application, chosen: Sequence[Overview]) -> None:
    """Show the actions on the selected runs."""
    mine = [overview.run.run_id for overview in chosen if not overview.run.published]
    active = [overview.run.run_id for overview in chosen if not overview.run.status.state.final]
    with st.container(horizontal=True, vertical_alignment="center"):
        if st.button(f"Cancel {len(active)}" if active else "Cancel", disabled=not active, icon=":material/stop:"):
            actions.apply(app.runs.cancel, active)
        if st.button(f"Delete {len(mine)}" if mine else "Delete", disabled=not mine, icon=":material/delete:"):
            actions.ask(partial(actions.delete, app, mine))
        done = {
            overview.run.run_id: overview.run.config
            for overview in chosen
            if overview.last_record and overview.last_record.final
        }
        firsts = [
            overview.run.run_id
            for overview in chosen
            if overview.run.run_id in done and overview.run.kind == RunKind.RUN
        ]
        if st.button("Compare", disabled=not done, icon=":material/stacked_line_chart:"):
            compare_selection.ask(list(done.values()))
            st.switch_page("pages/compare/page.py")
        if st.button(
            f"Rerun {len(firsts)}" if firsts else "Rerun",
            disabled=not firsts,
            icon=":material/replay:",
            help="Repeats the selected runs on this machine and keeps the first runs. The note of each rerun compares "
            "its results with those of the first run.",
        ):
            actions.rerun(app, {run_id: done[run_id] for run_id in firsts})
        if st.button(f"Annotate {len(mine)}" if mine else "Annotate", disabled=not mine, icon=":material/edit_note:"):
            before = next(overview.note for overview in chosen if overview.run.run_id in mine)
            actions.ask(partial(actions.note, app, mine, before))
        if app.user:
            _sharing(app, mine)
        if not chosen:
            st.caption("Select rows to cancel, delete, compare, rerun or annotate runs.")
        elif len(mine) < len(chosen):
            st.caption("Published runs cannot be changed.")


def _sharing(app: Application, mine: Sequence[str]) -> None:
    """Show the button that shares the selected runs with all users, or stops sharing them."""
    shared = bool(mine) and set(mine) <= app.access.shared("run")
    if st.button(
        f"Unshare {len(mine)}" if shared else f"Share {len(mine)}" if mine else "Share",
        disabled=not mine,
        icon=":material/lock:" if shared else ":material/group:",
        help="All users who can sign in see shared runs and their notes; only you can change them.",
    ):
        actions.apply(lambda run_id: app.access.share("run", run_id, shared=not shared), mine)

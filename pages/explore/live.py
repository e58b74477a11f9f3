"""A configuration's answer, picture and numbers. Only while its run waits or runs, this part polls."""

import os
from collections.abc import Sequence
from dataclasses import replace

import streamlit as st

from engine.config import NOISE, SimulationConfig, with_noise
from engine.errors import EpsilonError, StoreError
from engine.experiments import seed_aggregates
from engine.records import RoundRecord, Run, RunState
from engine.service import Application, Preview
from pages.explore import charts, curves, downloads, messages, persons, pinned, platforms
from pages.shared import address, session, submitting
from pages.shared.messages import origin
from pages.shared.plotly_component import memoized_figure
from pages.shared.plotly_component import show as show_picture

POLL_SECONDS = 1.0
SEEDS = 5
"""That *More runs* offers."""


def show(app: Application, config: SimulationConfig, preview: Preview, title: str) -> None:
    """Everything about ``config``; title: of its corpus."""
    if preview.missing:
        st.info(address.plain(messages.as_published(preview.missing)), icon=":material/inventory_2:")
    try:
        run = app.queries.find(config)
    except EpsilonError as error:
        st.error(address.plain(str(error)), icon=":material/error:")
        run = next((each for each in app.queries.published() if each.config == config), None)
    seeds = app.queries.seeds(config)
    st.session_state.shown_run, st.session_state.shown_seeds = run, seeds
    going_on = any(not each.status.state.final for each in [run, *seeds] if each)
    view = st.fragment(_view, run_every=POLL_SECONDS if going_on else None)
    view(app, config, preview, title, app.queries.runs_by_noise(config))


def _view(app: Application, config: SimulationConfig, preview: Preview, title: str, finished: Sequence[Run]) -> None:
    run: Run | None = st.session_state.shown_run
    if run and not run.status.state.final:
        run = st.session_state.shown_run = _newer(app, run)
        if run.status.state.final:
            st.rerun()  # the whole page: polling ends, and the run joins the finished ones
    seeds = _newer_seeds(app)
    spread, reference = seed_aggregates.of_runs(seeds), curves.without_privacy(finished)
    answer = messages.answer(run, preview, reference, spread)
    st.markdown(f"### {address.plain(answer)}")
    kept = pinned.current(app)
    for text in (messages.over_seeds(seeds, spread), pinned.sentence(kept, run) if kept else ""):
        if text:
            st.markdown(address.plain(text))
    _line_below(run, config, preview, title)
    _action(app, config, preview, run, kept)
    left, right = st.columns(2)
    with left:
        _promise(app, run, preview, config)
    with right:
        if run:
            _check(run)
    records = run.records if run else ()
    key = run.run_id if run else config.canonical_json()
    running = run is not None and run.status.state == RunState.RUNNING
    shown = (
        curves.path(records),
        curves.finish(records),
        curves.tradeoff(finished),
        curves.seeds(seeds),
        curves.finish(kept.records) if kept and not (run and run.run_id == kept.run_id) else (),
    )
    epsilon = preview.privacy.epsilon
    picture = memoized_figure(
        charts.utility_by_epsilon, *map(tuple, shown), planned=epsilon, key=key, running=running, label=answer
    )
    show_picture(picture, key="picture", label=answer)
    st.caption(_legend(bool(records), bool(finished)))
    _details(app, run, config, finished, seeds)


def _newer_seeds(app: Application) -> list[Run]:
    """The runs with any seed, with what has been recorded since; the page is drawn anew when the last one ends."""
    before: list[Run] = st.session_state.shown_seeds
    found = [run if run.status.state.final else _newer(app, run) for run in before]
    st.session_state.shown_seeds = found
    if any(not run.status.state.final for run in before) and all(run.status.state.final for run in found):
        st.rerun()
    return found


def _newer(app: Application, run: Run) -> Run:
    """The run with what has been recorded since; as it was, and a sentence, where the database does not say."""
    try:
        return app.queries.refresh(run)
    except StoreError as error:
        st.warning(address.plain(str(error)), icon=":material/warning:")
        return run


def _legend(this: bool, finished: bool) -> str:
    parts = []
    if not this and not finished:
        return "Precision, recall and F1 will move along this axis as the run spends ε."
    if this:
        parts.append("Solid symbols: this run as it learns, on the validation part; ★ its end, on the test part.")
    if finished:
        parts.append("Open symbols: finished runs of this setting with more or less noise, on the test part.")
    bands = "Bands as in Ponomareva et al. 2023: strong to ε = 1, reasonable to 10, weak beyond."
    return " ".join([*parts, "▲ precision, ■ recall, ● F1: whole names, boundaries and type right.", bands])


def _line_below(run: Run | None, config: SimulationConfig, preview: Preview, title: str) -> None:
    privacy = run.records[-1].privacy if run and run.records else preview.privacy
    parts = [address.plain(messages.corpus_note(config.corpus, title)), messages.federation(config)]
    st.caption(" · ".join(part for part in (*parts, messages.assumptions(privacy, config)) if part))
    if caution := messages.caution(privacy, config):
        st.markdown(f":small[:orange[{address.plain(caution)}]]")


def _promise(app: Application, run: Run | None, preview: Preview, config: SimulationConfig) -> None:
    """A part of the page, not a window over it: it can be scrolled however large letters are, and is printed."""
    last = run.records[-1] if run and run.records else None
    privacy = last.privacy if last else preview.privacy
    promise = st.expander(
        "What does this ε mean?",
        type="compact",
        icon=":material/verified_user:",
        key="promise",
        on_change="rerun",  # what a person is promised is worked out once somebody looks
    )
    with promise:
        *odds, rests = messages.promise(privacy)
        for paragraph in odds:
            st.markdown(paragraph)
        if promise.open:
            persons.show(app, config, privacy, last)
        if not config.federation.central and config.privacy.private:
            st.markdown(config.privacy.kind.note)
        st.markdown(rests)


def _more(app: Application, config: SimulationConfig) -> None:
    """The same with other seeds, over all noise multipliers, and once more, in the background."""
    with st.popover("More seeds, other σ", type="tertiary", icon=":material/library_add:"):
        st.markdown("One run is one draw of chance. Several seeds show how far chance moves it.")
        seeds = [replace(config, seed=config.seed + number) for number in range(SEEDS)]
        noises = [with_noise(config, sigma) for sigma in NOISE]
        try:
            submitting.button(app, submitting.missing(app, seeds), f"of {SEEDS} seeds from {config.seed}", key="seeds")
            submitting.button(app, submitting.missing(app, noises), "over all σ of the slider", key="noises")
            submitting.again(app, [config], "this", key="again")
        except EpsilonError as error:
            st.caption(address.plain(str(error)))


def _check(run: Run) -> None:
    """The badge of the noise check, which opens what was measured."""
    check = run.records[-1].noise_check if run.records else None
    if check is None:
        return
    icon = ":material/gpp_bad:" if check.failed else ":material/fact_check:"
    with st.expander(messages.check_label(check), type="compact", icon=icon, key="check"):
        for paragraph in messages.check_paragraphs(check):
            st.markdown(paragraph)


def _action(app: Application, config: SimulationConfig, preview: Preview, run: Run | None, kept: Run | None) -> None:
    """The one thing to do next: run, wait or cancel, go on."""
    if run and run.status.state == RunState.DONE:
        with st.container(horizontal=True, vertical_alignment="center"):
            _more(app, config)
            pinned.button(run, kept)
            st.page_link(
                "pages/diagnose/page.py", label="Why?", icon=":material/troubleshoot:", query_params={"run": run.run_id}
            )
            if run.config.privacy.private:
                st.page_link(
                    "pages/assumptions/page.py",
                    label="Assumptions of ε",
                    icon=":material/account_balance:",
                    query_params={"run": run.run_id},
                )
            st.page_link(
                "pages/audit/page.py", label="Attack", icon=":material/policy:", query_params={"run": run.run_id}
            )
            st.page_link(
                "pages/report/page.py",
                label="Report",
                icon=":material/verified_user:",
                query_params={"run": run.run_id},
            )
            asked = run.outdated and st.button("Run with today's engine", icon=":material/replay:", key="renew")
            st.caption(origin(run), width="stretch")
        if asked:
            _submit(app, config)
        return
    if run and not run.status.state.final:
        _progress(app, run)
        return
    label = "Run" if run is None else "Go on" if run.status.state == RunState.CANCELLED else "Try again"
    about = messages.estimate(preview.estimate) if preview.estimate else ""
    with st.container(horizontal=True, vertical_alignment="center"):
        pressed = st.button(
            label,
            type="primary",
            icon=":material/play_arrow:",
            key="run",
            disabled=not session.can_run(),
            help=session.disabled_reason(),
        )
        st.caption(f"{about} · {preview.train_sentences:,} sentences, {preview.steps:,} steps".strip(" ·"))
        _more(app, config)
    if reason := session.disabled_reason():
        st.caption(reason)
    if takes := _outlook(app, config):
        st.caption(f"[Budget](/budget): {address.plain(takes)}")
    if pressed:
        _submit(app, config)


def _outlook(app: Application, config: SimulationConfig) -> str:

    try:
        return app.budgets.preview(config)
    except EpsilonError as error:
        return str(error)


def _submit(app: Application, config: SimulationConfig) -> None:
    try:
        app.runs.submit(config, owner_pid=os.getpid())
    except EpsilonError as error:
        st.error(address.plain(str(error)), icon=":material/error:")
    else:
        st.rerun()


def _progress(app: Application, run: Run) -> None:
    status = run.status
    left = messages.time_left(run)
    text = f"{status.stage or 'waiting'} · {status.progress:.0%}" + (f" · about {left} left" if left else "")
    with st.container(horizontal=True, vertical_alignment="center"):
        st.progress(min(1.0, status.progress), text=text)
        if st.button("Cancel", icon=":material/stop:", key="cancel"):
            submitting.cancel(app, run.run_id)


def _details(
    app: Application, run: Run | None, config: SimulationConfig, finished: Sequence[Run], seeds: Sequence[Run]
) -> None:
    names = ["By entity type", "Numbers", "Download and repeat"]
    types, table, download, *held = st.tabs(names if config.federation.clients == 1 else [*names, "Clients"])
    latest = run.records[-1] if run and run.records else None
    with types:
        if latest is None:
            st.caption("Scores by type appear with the first record.")
        else:
            reference = curves.without_privacy(finished) if latest.final else None
            scores = curves.by_type((latest.test if latest.final else None) or latest.scores, reference)
            label, private = "F1 by entity type", config.privacy.private
            picture = memoized_figure(
                charts.f1_by_type, tuple(scores), private=private, key=config.canonical_json(), label=label
            )
            show_picture(picture, key="types", label=label)
            part = "test" if latest.final else "validation"
            st.caption(f"Strict F1 by type on the {part} part; in brackets how many names there are.")
    with table:
        downloads.table(run, finished, seeds)
    with download:
        downloads.offer(run, config, seeds)
    for tab in held:
        with tab:
            _clients(app, config, latest)


def _clients(app: Application, config: SimulationConfig, latest: RoundRecord | None) -> None:
    """Who holds what, how each platform does, and what travelled."""
    if latest and latest.platforms:
        st.dataframe(platforms.rows(latest), hide_index=True)
    try:
        holdings = app.previews.holdings(config)
    except EpsilonError as error:
        st.caption(address.plain(f"Who holds what cannot be shown: {error}"))
    else:
        picture = charts.holdings(holdings, key=config.canonical_json())
        show_picture(picture, key="holdings", label="Names of each type that each client holds")
        st.caption(messages.holdings(holdings))
    if latest and latest.federation:
        st.caption(messages.travelled(latest.federation))

"""Results of a configuration: headline, chart and tables. This part of the page polls only while a run is active."""

from collections.abc import Sequence

import streamlit as st

from engine.config import SimulationConfig
from engine.errors import EpsilonError, StoreError
from engine.experiments import seed_aggregates
from engine.records import RoundRecord, Run, RunState
from engine.service import Application, Preview
from pages.explore import (
    actions,
    charts,
    curves,
    downloads,
    federation_messages,
    guarantee,
    messages,
    persons,
    pinned,
    platforms,
)
from pages.shared import address, lazy_tabs, script_scheduler
from pages.shared.plotly_component import memoized_figure
from pages.shared.plotly_component import show as show_chart

POLL_SECONDS = 1.0
_TYPES, _NUMBERS, _DOWNLOAD, _CLIENTS = "By entity type", "Numbers", "Download and repeat", "Clients"


def show(app: Application, config: SimulationConfig, preview: Preview, title: str) -> None:
    """Show all results of a configuration.

    Args:
        app: The application service.
        config: The configuration.
        preview: Its planned ε and estimates.
        title: Title of its corpus.
    """
    if preview.missing:
        st.info(address.plain(messages.as_published(preview.missing)), icon=":material/inventory_2:")
    try:
        run = app.queries.find(config)
    except EpsilonError as error:
        st.error(address.plain(str(error)), icon=":material/error:")
        run = next((published for published in app.queries.published() if published.config == config), None)
    seeds = app.queries.seeds(config)
    st.session_state.shown_run, st.session_state.shown_seeds = run, seeds
    active = any(not candidate.status.state.final for candidate in [run, *seeds] if candidate)
    view = script_scheduler.polling_fragment(_view, POLL_SECONDS if active else None)
    view(app, config, preview, title, app.queries.runs_by_noise(config))


def _view(app: Application, config: SimulationConfig, preview: Preview, title: str, finished: Sequence[Run]) -> None:
    run: Run | None = st.session_state.shown_run
    if run and not run.status.state.final:
        run = st.session_state.shown_run = _refreshed(app, run)
        if run.status.state.final:
            st.rerun()  # the whole page: polling ends, and the run joins the finished ones
    seeds = _refreshed_seeds(app)
    spread, reference = seed_aggregates.of_runs(seeds), curves.without_privacy(finished)
    answer = messages.answer(run, preview, reference, spread)
    st.markdown(f"### {address.plain(answer)}")
    pinned_run = pinned.current(app)
    for text in (messages.over_seeds(seeds, spread), pinned.sentence(pinned_run, run) if pinned_run else ""):
        if text:
            st.markdown(address.plain(text))
    _assumptions(run, config, preview, title)
    actions.show(app, config, preview, run, pinned_run)
    left, right = st.columns(2)
    with left:
        _guarantee(app, run, preview, config)
    with right:
        if run:
            _check(run)
    records = run.records if run else ()
    key = run.run_id if run else config.canonical_json()
    running = run is not None and run.status.state == RunState.RUNNING
    points = (
        curves.path(records),
        curves.finish(records),
        curves.tradeoff(finished),
        curves.seeds(seeds),
        curves.finish(pinned_run.records) if pinned_run and not (run and run.run_id == pinned_run.run_id) else (),
    )
    epsilon = preview.privacy.epsilon
    figure = memoized_figure(
        charts.utility_by_epsilon, *map(tuple, points), planned=epsilon, key=key, running=running, label=answer
    )
    show_chart(figure, key="picture", label=answer)
    st.caption(_legend(bool(records), bool(finished), private=config.privacy.private))
    _details(app, run, config, finished, seeds)


def _refreshed_seeds(app: Application) -> list[Run]:
    """Return the runs with any seed, with their new records; rerun the page when the last one finishes."""
    before: list[Run] = st.session_state.shown_seeds
    runs = [run if run.status.state.final else _refreshed(app, run) for run in before]
    st.session_state.shown_seeds = runs
    if any(not run.status.state.final for run in before) and all(run.status.state.final for run in runs):
        st.rerun()
    return runs


def _refreshed(app: Application, run: Run) -> Run:
    """Return the run with its new records; if the database fails, show the error and return the run unchanged."""
    try:
        return app.queries.refresh(run)
    except StoreError as error:
        st.warning(address.plain(str(error)), icon=":material/warning:")
        return run


def _legend(this: bool, finished: bool, *, private: bool) -> str:
    parts = []
    if not this and not finished:
        return "The chart shows precision, recall and F1 against the ε spent, once the run starts."
    if this:
        parts.append("Solid symbols: this run during training, on the validation set; ★ its result on the test set.")
    if finished:
        parts.append("Open symbols: one finished run for each noise multiplier, on the test set.")
    if this and not private:
        parts.append("In the section of ε = ∞, the position shows the progress of the training.")
    bands = "Bands (Ponomareva et al. 2023): strong up to ε = 1, reasonable up to 10, weak above."
    return " ".join([*parts, "▲ precision, ■ recall, ● F1, all entity-level (exact match).", bands])


def _assumptions(run: Run | None, config: SimulationConfig, preview: Preview, title: str) -> None:
    privacy = run.records[-1].privacy if run and run.records else preview.privacy
    parts = [address.plain(messages.corpus_note(config.corpus, title)), federation_messages.federation(config)]
    st.caption(" · ".join(part for part in (*parts, messages.assumptions(privacy, config)) if part))
    if caution := messages.caution(privacy, config):
        st.markdown(f":small[:orange[{address.plain(caution)}]]")


def _guarantee(app: Application, run: Run | None, preview: Preview, config: SimulationConfig) -> None:
    """Show the meaning of ε in an expander, which scrolls at any font size and is printed, unlike a dialog."""
    last = run.records[-1] if run and run.records else None
    privacy = last.privacy if last else preview.privacy
    expander = st.expander(
        "What does this ε mean?",
        type="compact",
        icon=":material/verified_user:",
        key="promise",
        on_change="rerun",  # group privacy is computed when the user opens the expander
    )
    with expander:
        *paragraphs, ending = guarantee.paragraphs(privacy, config)
        for paragraph in paragraphs:
            st.markdown(paragraph)
        if expander.open:
            persons.show(app, config, privacy, last)
        if not config.federation.central and config.privacy.private:
            st.markdown(config.privacy.kind.note)
        st.markdown(ending)


def _check(run: Run) -> None:
    """Show the result of the noise check, with its measurements in an expander."""
    check = run.records[-1].noise_check if run.records else None
    if check is None:
        return
    icon = ":material/gpp_bad:" if check.failed else ":material/fact_check:"
    with st.expander(messages.check_label(check, final=run.status.state.final), type="compact", icon=icon, key="check"):
        for paragraph in messages.check_paragraphs(check):
            st.markdown(paragraph)


def _details(
    app: Application, run: Run | None, config: SimulationConfig, finished: Sequence[Run], seeds: Sequence[Run]
) -> None:
    latest = run.records[-1] if run and run.records else None
    clients = () if config.federation.clients == 1 else (_CLIENTS,)
    for tab in lazy_tabs.opened([_TYPES, _NUMBERS, _DOWNLOAD, *clients], key="details"):
        if tab == _TYPES:
            _types(latest, config, finished)
        elif tab == _NUMBERS:
            downloads.table(run, finished, seeds)
        elif tab == _DOWNLOAD:
            downloads.offer(run, config, seeds)
        else:
            _clients(app, config, latest)


def _types(latest: RoundRecord | None, config: SimulationConfig, finished: Sequence[Run]) -> None:
    """Show F1 of each entity type."""
    if latest is None:
        st.caption("F1 by entity type appears after the first evaluation.")
        return
    reference = curves.without_privacy(finished) if latest.final else None
    scores = curves.by_type((latest.test if latest.final else None) or latest.scores, reference)
    label, private = "F1 by entity type", config.privacy.private
    figure = memoized_figure(
        charts.f1_by_type, tuple(scores), private=private, key=config.canonical_json(), label=label
    )
    show_chart(figure, key="types", label=label)
    part = "test" if latest.final else "validation"
    st.caption(f"Entity-level (strict) F1 by type on the {part} set, with the number of entities in brackets.")


def _clients(app: Application, config: SimulationConfig, latest: RoundRecord | None) -> None:
    """Show the scores of each silo, the data of each client, and the communication so far."""
    if latest and latest.platforms:
        st.dataframe(platforms.rows(latest), hide_index=True)
    try:
        holdings = app.previews.holdings(config)
    except EpsilonError as error:
        st.caption(address.plain(f"The data of each client cannot be shown: {error}"))
    else:
        label = "Number of entities of each type at each client"
        figure = memoized_figure(charts.holdings, holdings, key=config.canonical_json(), label=label)
        show_chart(figure, key="holdings", label=label)
        st.caption(federation_messages.holdings(holdings))
    if latest and latest.federation:
        st.caption(federation_messages.travelled(latest.federation))

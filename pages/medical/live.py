"""Tab Live federation: federated training with chosen silos, split layer and privacy, compared with training alone."""

import os
from collections.abc import Collection, Sequence

import streamlit as st

from engine.config import NOTHING, SimulationConfig, with_noise
from engine.corpus.catalogue import NAMED
from engine.errors import EpsilonError
from engine.experiments import shared_parameters
from engine.experiments.papers import fedner_2020
from engine.records import Run
from engine.reports.fedner import TITLES
from engine.reports.numbers import epsilon_text
from engine.service import Application
from engine.taggers import splits_of
from pages.medical import charts, messages
from pages.medical.data_flow_diagram import diagram
from pages.shared import address, script_scheduler, session, submitting, titles
from pages.shared.plotly_component import show as show_chart

POLL_SECONDS = 1.0
"""Time between updates of a running run, in seconds."""
EPSILONS = (1.0, 3.0, 8.0, 30.0)
"""Choices of ε per sentence."""
_OFFERED = (*fedner_2020.PLATFORMS, "ncbi_disease")
_TAGGERS = {
    fedner_2020.SMALL: "Small: hidden layer over a public language model",
    fedner_2020.TAGGER: "FedNER: characters, convolution, LSTM",
}
_SCOPES = {
    fedner_2020.UNPROTECTED: "none (no noise)",
    fedner_2020.SENTENCE: "sentence",
    fedner_2020.PLATFORM: "silo (all its data)",
}


def show(app: Application) -> None:
    """Show the controls, the data-flow diagram and the two runs."""
    available = {info.name for info in app.corpora.all() if info.available}
    offered = [name for name in _OFFERED if name in available]
    if len(offered) < 2:
        _fetch(app, [name for name in fedner_2020.PLATFORMS if name not in available])
        return
    config, epsilon = _chosen(app, offered)
    if config is None:
        return
    types = [NAMED[name.partition("@")[0]].entity_types for name in config.platforms]
    parts = shared_parameters.parts(config, types, platform=max(range(len(types)), key=lambda index: len(types[index])))
    inputs = "Word vectors and vectors of a public language model" if config.feature_set.in_context else "Word vectors"
    whole = fedner_2020.PLATFORM if config.privacy.kind.client_level else fedner_2020.SENTENCE
    scope = whole if config.privacy.private else fedner_2020.UNPROTECTED
    each_step = config.federation.schedule == "gradients"
    st.html(diagram(parts, inputs, scope, each_step=each_step, together=config.federation.together))
    if not config.privacy.protects_clients and (common := _in_common(app, config.corpus)):
        st.caption(messages.common(*common))
    if measurement := app.queries.measurements().get("trap"):
        with st.expander("Noise on the shared layers only", type="compact", icon=":material/help:"):
            st.markdown(messages.partial_noise_attack(measurement))
            st.caption(f"Measured by `{measurement.command}`.")
    if epsilon is not None:
        try:
            with st.spinner(f"Computing the noise multiplier for ε = {epsilon:g} …"):
                config = _noised(app, config, epsilon)
        except EpsilonError as error:
            st.error(address.plain(str(error)), icon=":material/error:")
            return
    both = [config, fedner_2020.without_the_others(config)]
    both = both[:1] if config.federation.shared == NOTHING else both
    script_scheduler.polling_fragment(_watch, POLL_SECONDS if _is_active(app, both) else None)(app, both)


def first_silos(offered: Collection[str]) -> list[str]:
    """Return those of the available corpora that the tab first shows as silos."""
    return [name for name in fedner_2020.PLATFORMS if name in offered]


@st.cache_data(show_spinner="Comparing the silos' sentences …", max_entries=64)
def _in_common(_app: Application, name: str) -> tuple[int, int] | None:
    """Return the numbers of left-out and of all training sentences; None where the corpora cannot be read."""
    try:
        return _app.corpora.shared_sentences(name), _app.corpora.train_sentences(name)
    except EpsilonError:
        return None  # a run reports the reason


def _chosen(app: Application, offered: Sequence[str]) -> tuple[SimulationConfig | None, float | None]:
    left, right = st.columns(2)
    platforms = left.multiselect(
        "Silos (corpora)",
        offered,
        first_silos(offered),
        format_func=titles.corpus,
        help="Each silo (for example a hospital) has its own corpus with its own entity types.",
    )
    tagger = right.selectbox("NER model", list(_TAGGERS), format_func=_TAGGERS.__getitem__)
    layers = splits_of(tagger)
    splits = [NOTHING, *(",".join(layers[:end]) for end in range(1, len(layers) + 1))]
    first, second = st.columns(2)
    shared = first.selectbox(
        "Shared layers",
        splits,
        index=splits.index(fedner_2020.paper_split(tagger)) if tagger == fedner_2020.TAGGER else 1,
        format_func=titles.shared,
        key=f"shared-{tagger}",
        help="The choices add layers from bottom to top. The last choice shares all layers: one common model with the "
        "entity types of all silos.",
    )
    scope = second.selectbox("Privacy unit", fedner_2020.SCOPES, format_func=_SCOPES.__getitem__)
    epsilon = None
    if scope == fedner_2020.SENTENCE:
        epsilon = st.segmented_control(
            "ε per sentence", EPSILONS, default=8.0, format_func="ε = {:g}".format, required=True
        )
    parting = st.toggle(
        f"Train alone after {100 * fedner_2020.TOGETHER:.0f} % of the steps",
        disabled=scope == fedner_2020.PLATFORM or shared == NOTHING,
        help="Each silo first trains with the others. Then it trains alone and adapts the shared weights to its texts.",
    )
    if len(platforms) < 2:
        st.info("Choose at least two silos: sharing needs a second one.", icon=":material/info:")
        return None, None
    try:
        parts = parting and scope != fedner_2020.PLATFORM
        return fedner_2020.live(platforms, tagger, shared, scope, parting=parts), epsilon
    except EpsilonError as error:
        st.error(address.plain(str(error)), icon=":material/error:")
        return None, None


@st.cache_data(show_spinner=False, max_entries=64)
def _sigma(_app: Application, key: str, _config: SimulationConfig, epsilon: float) -> float:
    return _app.previews.noise_multiplier_for(_config, epsilon)


def _noised(app: Application, config: SimulationConfig, epsilon: float) -> SimulationConfig:
    return with_noise(config, _sigma(app, config.canonical_json(), config, epsilon))


def _is_active(app: Application, both: Sequence[SimulationConfig]) -> bool:
    return any(run and not run.status.state.final for run in map(app.queries.find, both))


def _watch(app: Application, both: Sequence[SimulationConfig]) -> None:
    runs = [app.queries.find(config) for config in both]
    active = [run for run in runs if run and not run.status.state.final]
    missing = [config for config, run in zip(both, runs, strict=True) if run is None or _ended_early(run)]
    chosen, unprotected = submitting.choice(app, missing, key="medical")
    with st.container(horizontal=True, vertical_alignment="center"):
        if missing and st.button(
            "Start both runs" if len(chosen) == 2 else "Start run",
            type="primary",
            icon=":material/play_arrow:",
            disabled=not (chosen and session.can_run()),
            help=session.disabled_reason(),
        ):
            _submit(app, chosen, unprotected=unprotected)
        for run in active:
            text = f"{'federated' if run.config == both[0] else 'alone'}: {address.plain(run.status.stage or 'queued')}"
            st.progress(min(1.0, run.status.progress), text=f"{text} · {run.status.progress:.0%}")
        if active and st.button("Cancel runs", icon=":material/stop:"):
            submitting.cancel(app, *(run.run_id for run in active))
    if not missing and not active:
        finished = "Both runs with these settings are" if len(both) > 1 else "The run with these settings is"
        st.caption(f"{finished} finished. Change the settings above to start another run.")
    for error in dict.fromkeys(run.status.error for run in runs if run and run.status.error):
        st.error(address.plain(error), icon=":material/error:")
    ledger = address.ledger(*(run for run in runs if run and run.final))
    st.caption(" · ".join([*map(_link, both), *([f"[Assumptions of ε]({ledger})"] if ledger else [])]))
    histories = [
        (_short(platform.name), run.config == both[0], points)
        for run in runs
        if run and run.records
        for number, platform in enumerate(run.records[-1].platforms)
        if (points := [(record.progress, record.platforms[number].scores.f1) for record in run.records])
    ]
    if histories:
        label = "F1 of each silo during training, federated and alone"
        show_chart(charts.curves(histories, key=both[0].canonical_json()), key="medical-live", label=label)
        st.dataframe(_ends(runs, both), hide_index=True, placeholder="")
    else:
        st.caption(
            "A chart of each silo's F1 appears here during training. Solid lines: federated. Dotted lines: alone."
        )


def _short(platform: str) -> str:
    """Return the title of a silo in one word, so that the legend fits on a phone."""
    return TITLES.get(platform.partition("@")[0]) or titles.corpus(platform)


def _ended_early(run: Run) -> bool:
    return run.status.state.final and not run.final


def _submit(app: Application, configs: Sequence[SimulationConfig], *, unprotected: bool) -> None:
    try:
        app.runs.submit_all(configs, owner_pid=os.getpid(), unprotected=unprotected)
    except EpsilonError as error:
        st.error(address.plain(str(error)), icon=":material/error:")
    else:
        st.rerun()


def _link(config: SimulationConfig) -> str:
    what = "alone" if config.federation.shared == NOTHING else "federated"
    return f"[Open in Explore ({what})]({address.link(config)})"


def _ends(runs: Sequence[Run | None], both: Sequence[SimulationConfig]) -> list[dict[str, object]]:
    """Return a row for each silo: F1 federated and alone, and the ε that it spends in the federation.

    The ε of training alone is not shown: a silo that sends nothing needs no noise. Its ε = ∞ belongs to a model that
    never leaves.
    """
    rows: dict[str, dict[str, object]] = {}
    spent: dict[str, str] = {}
    for run in runs:
        for platform in run.records[-1].platforms if run and run.records else ():
            row = rows.setdefault(platform.name, {"silo": titles.corpus(platform.name)})
            scores = platform.test or platform.scores
            part = "test" if platform.test else "validation"
            together = run is not None and run.config == both[0]
            row[f"F1 {'federated' if together else 'alone'}"] = f"{100 * scores.f1:.1f} % ({part})"
            if together:
                spent[platform.name] = epsilon_text(platform.privacy.epsilon)
    return [row | ({"ε federated": spent.get(name, "")} if spent else {}) for name, row in rows.items()]


def _fetch(app: Application, names: Sequence[str]) -> None:
    st.info(
        "The medical corpora are not installed on this machine yet. They are public, and you can download them.",
        icon=":material/download:",
    )
    size = sum(NAMED[name].size for name in names) / 1e6
    if st.button(f"Download {', '.join(map(titles.corpus, names))} ({size:.0f} MB)", type="primary"):
        try:
            for name in names:
                bar = st.progress(0.0, text=f"Downloading {titles.corpus(name)} …")
                app.corpora.download(name, lambda share, bar=bar: bar.progress(share))  # type: ignore[misc]
        except EpsilonError as error:
            st.error(address.plain(str(error)), icon=":material/error:")
        else:
            st.rerun()

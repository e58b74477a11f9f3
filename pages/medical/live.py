"""Live: hospitals, split point and privacy of one's own choice; F1 of each as it learns, and without the others."""

import os
from collections.abc import Sequence

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
from pages.medical.data_flow_diagram import drawing
from pages.shared import address, session, submitting, titles
from pages.shared.plotly_component import show as show_picture

POLL_SECONDS = 1.0
EPSILONS = (1.0, 3.0, 8.0, 30.0)
_OFFERED = (*fedner_2020.PLATFORMS, "ncbi_disease")
_TAGGERS = {
    fedner_2020.SMALL: "Small: a hidden layer over a public language model",
    fedner_2020.TAGGER: "FedNER's own: characters, convolution, LSTM",
}
_SCOPES = {
    fedner_2020.NOBODY: "nobody: no noise",
    fedner_2020.SENTENCE: "each sentence",
    fedner_2020.PLATFORM: "a hospital whole",
}


def show(app: Application) -> None:
    """All of it: choices, the drawing, and the two runs."""
    here = {info.name for info in app.corpora.all() if info.available}
    offered = [name for name in _OFFERED if name in here]
    if len(offered) < 2:
        _fetch(app, [name for name in fedner_2020.PLATFORMS if name not in here])
        return
    config, epsilon = _chosen(app, offered)
    if config is None:
        return
    types = [NAMED[name.partition("@")[0]].entity_types for name in config.platforms]
    parts = shared_parameters.parts(config, types, platform=max(range(len(types)), key=lambda each: len(types[each])))
    inputs = "Word vectors" if config.features == "vectors" else "Word vectors, and vectors of a public language model"
    whole = fedner_2020.PLATFORM if config.privacy.kind.client_level else fedner_2020.SENTENCE
    scope = whole if config.privacy.private else fedner_2020.NOBODY
    each_step = config.federation.schedule == "gradients"
    st.html(drawing(parts, inputs, scope, each_step=each_step, together=config.federation.together))
    if common := _in_common(app, config.corpus):
        st.caption(messages.common(*common))
    if tried := app.queries.measurements().get("trap"):
        with st.expander("What if only what is sent had noise?", type="compact", icon=":material/help:"):
            st.markdown(messages.trap(tried))
            st.caption(f"Measured by `{tried.command}`.")
    if epsilon is not None:
        try:
            with st.spinner(f"Working out the noise for ε = {epsilon:g} …"):
                config = _noised(app, config, epsilon)
        except EpsilonError as error:
            st.error(address.plain(str(error)), icon=":material/error:")
            return
    both = [config, fedner_2020.without_the_others(config)]
    both = both[:1] if config.federation.shared == NOTHING else both
    st.fragment(_watch, run_every=POLL_SECONDS if _under_way(app, both) else None)(app, both)


@st.cache_data(show_spinner="Comparing the hospitals' sentences …", max_entries=64)
def _in_common(_runs: Application, name: str) -> tuple[int, int] | None:
    """Training sentences that are left out, and all; None where the corpora cannot be read."""
    try:
        return _runs.corpora.shared_sentences(name), _runs.corpora.train_sentences(name)
    except EpsilonError:
        return None  # a run says why


def _chosen(app: Application, offered: Sequence[str]) -> tuple[SimulationConfig | None, float | None]:
    left, right = st.columns(2)
    platforms = left.multiselect(
        "Hospitals, each with",
        offered,
        [name for name in fedner_2020.PLATFORMS if name in offered],
        format_func=titles.corpus,
        help="A corpus with entity types of its own stands for what a hospital has.",
    )
    tagger = right.selectbox("Tagger", list(_TAGGERS), format_func=_TAGGERS.__getitem__)
    known = splits_of(tagger)
    splits = [NOTHING, *(",".join(known[:end]) for end in range(1, len(known) + 1))]
    first, second = st.columns(2)
    shared = first.selectbox(
        "They share",
        splits,
        index=splits.index(fedner_2020.paper_split(tagger)) if tagger == fedner_2020.TAGGER else 1,
        format_func=titles.shared,
        key=f"shared-{tagger}",
        help="From below to above. The last one is one tagger for all, with the entity types of all.",
    )
    scope = second.selectbox("Noise protects", fedner_2020.SCOPES, format_func=_SCOPES.__getitem__)
    epsilon = None
    if scope == fedner_2020.SENTENCE:
        epsilon = st.segmented_control(
            "ε of each sentence", EPSILONS, default=8.0, format_func="ε = {:g}".format, required=True
        )
    parting = st.toggle(
        f"After {fedner_2020.TOGETHER:.0%} of the steps each goes on alone, from what all have learned",
        disabled=scope == fedner_2020.PLATFORM or shared == NOTHING,
        help="Learn from the others first, then fit what was learned to one's own texts.",
    )
    if len(platforms) < 2:
        st.info("Choose at least two: with one there is nobody to share with.", icon=":material/info:")
        return None, None
    try:
        parts = parting and scope != fedner_2020.PLATFORM
        return fedner_2020.live(platforms, tagger, shared, scope, parting=parts), epsilon
    except EpsilonError as error:
        st.error(address.plain(str(error)), icon=":material/error:")
        return None, None


@st.cache_data(show_spinner=False, max_entries=64)
def _sigma(_runs: Application, key: str, _config: SimulationConfig, epsilon: float) -> float:
    return _runs.previews.noise_multiplier_for(_config, epsilon)


def _noised(app: Application, config: SimulationConfig, epsilon: float) -> SimulationConfig:
    return with_noise(config, _sigma(app, config.canonical_json(), config, epsilon))


def _under_way(app: Application, both: Sequence[SimulationConfig]) -> bool:
    return any(run and not run.status.state.final for run in map(app.queries.find, both))


def _watch(app: Application, both: Sequence[SimulationConfig]) -> None:
    found = [app.queries.find(config) for config in both]
    going_on = [run for run in found if run and not run.status.state.final]
    missing = [config for config, run in zip(both, found, strict=True) if run is None or _ended_early(run)]
    with st.container(horizontal=True, vertical_alignment="center"):
        if missing and st.button(
            "Run" if len(missing) == 1 else "Run both",
            type="primary",
            icon=":material/play_arrow:",
            disabled=not session.can_run(),
            help=session.disabled_reason(),
        ):
            _submit(app, missing)
        for run in going_on:
            text = f"{'together' if run.config == both[0] else 'without the others'}: {run.status.stage or 'waiting'}"
            st.progress(min(1.0, run.status.progress), text=f"{text} · {run.status.progress:.0%}")
        if going_on and st.button("Cancel", icon=":material/stop:"):
            submitting.cancel(app, *(run.run_id for run in going_on))
    if not missing and not going_on:
        done = "Both runs of this choice are" if len(both) > 1 else "The run of this choice is"
        st.caption(f"{done} done. Choose otherwise above to run something else.")
    for error in dict.fromkeys(run.status.error for run in found if run and run.status.error):
        st.error(address.plain(error), icon=":material/error:")
    apart = address.ledger(*(run for run in found if run and run.final))
    st.caption(" · ".join([*map(_link, both), *([f"[what ε rests on]({apart})"] if apart else [])]))
    learned = [
        (_short(platform.name), run.config == both[0], points)
        for run in found
        if run and run.records
        for number, platform in enumerate(run.records[-1].platforms)
        if (points := [(each.progress, each.platforms[number].scores.f1) for each in run.records])
    ]
    if learned:
        label = "F1 of each hospital as it learns, with and without the others"
        show_picture(charts.curves(learned, key=both[0].canonical_json()), key="medical-live", label=label)
        st.dataframe(_ends(found, both), hide_index=True, placeholder="")
    else:
        st.caption("F1 of each hospital will be drawn here as it learns: solid together, dotted without the others.")


def _short(platform: str) -> str:
    """A legend on a phone has room for a word."""
    return TITLES.get(platform.partition("@")[0]) or titles.corpus(platform)


def _ended_early(run: Run) -> bool:
    return run.status.state.final and not run.final


def _submit(app: Application, missing: Sequence[SimulationConfig]) -> None:
    try:
        app.runs.submit_all(missing, owner_pid=os.getpid())
    except EpsilonError as error:
        st.error(address.plain(str(error)), icon=":material/error:")
    else:
        st.rerun()


def _link(config: SimulationConfig) -> str:
    what = "without the others" if config.federation.shared == NOTHING else "together"
    return f"[{what}, in Explore]({address.link(config)})"


def _ends(found: Sequence[Run | None], both: Sequence[SimulationConfig]) -> list[dict[str, object]]:
    """A row for each hospital: F1 with and without the others, and what it spends together with them: who sends nothing
    may learn without noise, and then has ε = ∞ for a tagger that nobody gets."""
    rows: dict[str, dict[str, object]] = {}
    spent: dict[str, str] = {}
    for run in found:
        for platform in run.records[-1].platforms if run and run.records else ():
            row = rows.setdefault(platform.name, {"hospital": titles.corpus(platform.name)})
            scores = platform.test or platform.scores
            part = "test" if platform.test else "so far"
            together = run is not None and run.config == both[0]
            row[f"F1 {'together' if together else 'without the others'}"] = f"{100 * scores.f1:.1f} ({part})"
            if together:
                spent[platform.name] = epsilon_text(platform.privacy.epsilon)
    return [row | ({"ε together": spent.get(name, "")} if spent else {}) for name, row in rows.items()]


def _fetch(app: Application, names: Sequence[str]) -> None:
    st.info(
        "The medical corpora are not on this machine yet. They are public and can be fetched.",
        icon=":material/download:",
    )
    size = sum(NAMED[name].size for name in names) / 1e6
    if st.button(f"Fetch {', '.join(map(titles.corpus, names))} ({size:.0f} MB)", type="primary"):
        try:
            for name in names:
                bar = st.progress(0.0, text=f"Fetching {titles.corpus(name)} …")
                app.corpora.download(name, lambda share, bar=bar: bar.progress(share))  # type: ignore[misc]
        except EpsilonError as error:
            st.error(address.plain(str(error)), icon=":material/error:")
        else:
            st.rerun()

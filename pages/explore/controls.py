"""Controls of a configuration in the sidebar, synchronised with the address bar."""

from collections.abc import Mapping
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from engine.config import (
    FEATURE_SETS,
    FLAT,
    MINILM,
    NOISE,
    OF_KIND,
    PARAMETERS,
    PROPOSED,
    PrivacyConfig,
    SimulationConfig,
    fields_of,
)
from engine.config.encoder_registry import E5, MPNET, has, has_mpnet
from engine.corpus import CorpusInfo, declared_types
from engine.errors import EpsilonError
from engine.experiments import recommended_settings
from engine.reports.numbers import epsilon_text
from engine.service import Application, Preview
from engine.taggers import KINDS
from pages.explore import advanced, corpora, federated, messages, target, widgets
from pages.shared import address, browser_history

SHARES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0)

_ADDRESS, _PROBLEMS, _SEEN, _INITIAL = "address", "address_problems", "seen", "initial"
_RECOMMENDED = "recommended_language_model"
_LABELS = {MPNET: "MPNet, higher F1", MINILM: "MiniLM", E5: PARAMETERS["language_model"].option_label(E5)}


def choose(app: Application) -> tuple[SimulationConfig, Preview] | None:
    """Return the chosen configuration and its privacy cost; show an error and return None if it is invalid."""
    corpora_by_name = _read_address({info.name: info for info in app.corpora.all()})
    start, main = st.session_state[_INITIAL], st.container()
    with st.sidebar:
        _starts(app)
        corpora.choose(app, start, corpora_by_name)
        cost = _main_choices(start)
        federated.choose(start)
        federated.advanced(start)
        advanced.choose(app, start)
        st.button("Reset to defaults", on_click=_reset, type="tertiary", icon=":material/undo:")
        browser_history.follow()
    try:
        config = _config()
        with cost, st.spinner("Computing ε …", show_time=False), main, st.spinner(messages.computing(config)):
            preview = app.previews.preview(config)
    except EpsilonError as error:
        st.error(address.plain(str(error)), icon=":material/error:")
        return None
    with cost:
        _say_cost(preview)
        target.ask(app, _config)
    _write_address(config)
    return config, preview


def _main_choices(start: Mapping[str, Any]) -> DeltaGenerator:
    """Show model, features, noise and share of the data; return the container for their privacy cost."""
    state = st.session_state
    widgets.show(start, "tagger")
    st.caption(KINDS[state.tagger].note)
    in_context = KINDS[state.tagger].in_context
    widgets.select(
        start, "features", [name for name, kind in FEATURE_SETS.items() if kind.in_context or not in_context]
    )
    widgets.slider(
        start,
        "noise_multiplier",
        NOISE,
        format_func=lambda sigma: f"{sigma:g}",
        on_change=lambda: state.update(exact_noise=state.noise_multiplier),
    )
    st.caption("← more accurate :gray[·] more private →")
    cost = st.container()
    widgets.slider(start, "data_fraction", SHARES, format_func=lambda share: f"{100 * share:g} %")
    return cost


def _read_address(known: Mapping[str, CorpusInfo]) -> dict[str, CorpusInfo]:
    """Read the configuration in the address bar once for each session; return the corpora to choose from.

    The values become the widgets' defaults. Set through the session state, they would undo changes that a quick user
    makes before the first view is complete.
    """
    state = st.session_state
    if _INITIAL not in state:
        config, state[_PROBLEMS] = address.read(st.query_params.to_dict(), known)
        # Not written back before the user changes something: otherwise the back button could never leave the page.
        state[_INITIAL], state[_ADDRESS] = _values(config), address.write(config)
        return corpora.with_asked(known, config.corpus)
    offered = corpora.with_asked(known, state[_INITIAL]["corpus"])
    if state.get("corpus") not in offered:
        state.corpus = SimulationConfig().corpus
    return offered


def _values(config: SimulationConfig) -> dict[str, Any]:
    """Return the widgets' values for a configuration, by their keys."""
    sigma, clip_norm = config.privacy.noise_multiplier, config.privacy.clip_norm
    is_automatic = clip_norm == PrivacyConfig(noise_multiplier=sigma).clip_norm
    proposed = {} if config.assigns_sentences else PROPOSED
    return config.flat() | proposed | {"exact_noise": sigma, "clip_norm": None if is_automatic else clip_norm}


def _starts(app: Application) -> None:
    """Show the two presets: the paper's settings and the recommended ones."""
    st.button(
        "Paper settings",
        on_click=_take,
        args=(app, None),
        width="stretch",
        help="Settings of Jana and Biemann 2021: BiLSTM trained from scratch, SGD, σ = 1, clients of equal size.",
    )
    with st.popover("Recommended settings", width="stretch"):
        st.markdown(
            "Features from public data and public labels, few weights, CRF, large batches, Adam, averaged weights."
        )
        models = [*([MPNET] if has_mpnet() else []), MINILM, *([E5] if has(E5) else [])]
        if len(models) > 1:
            st.segmented_control(
                "Language model",
                models,
                default=models[0],
                format_func=_LABELS.__getitem__,
                required=True,
                key=_RECOMMENDED,
                help="With MPNet, the training starts from public weights if they recognise an entity type of the "
                "corpus. The page Recommended settings compares MPNet and MiniLM. Both are for English; with "
                "multilingual-e5-small, no feature needs English text.",
            )
        if not has_mpnet():
            st.caption("With MPNet, a larger language model that is not installed here, F1 is higher.")
        st.markdown("Choose a target ε:")
        for epsilon in recommended_settings.EPSILONS:
            st.button(f"ε = {epsilon:g}", on_click=_take, args=(app, epsilon), width="stretch", key=f"good-{epsilon:g}")


def _take(app: Application, epsilon: float | None) -> None:
    """Set all fields but the corpus, the seed and the federation.

    If sentences are assigned at random, the paper's clients have equal sizes, and others independent sentences.
    """
    state = st.session_state
    if epsilon is None:
        config = SimulationConfig(corpus=state.corpus)
    else:
        try:
            sentences = app.corpora.train_sentences(state.corpus)
            if state.get(_RECOMMENDED) == MPNET:
                types = declared_types(state.corpus, app.corpora.all())
                config = recommended_settings.recommended_settings(state.corpus, sentences, epsilon, types)
            elif state.get(_RECOMMENDED) == E5:
                config = recommended_settings.for_other_languages(state.corpus, sentences, epsilon)
            else:
                config = recommended_settings.with_minilm(state.corpus, sentences, epsilon)
        except EpsilonError as error:
            corpora.say(error)
            return
    kept = {"seed", *fields_of("federation")}
    state.update({name: value for name, value in _values(config).items() if name not in kept})
    if state.get("partition", state[_INITIAL]["partition"]) in ("random", "independent"):
        state.update({"partition": "random"} if epsilon is None else PROPOSED)
    state[_PROBLEMS] = []


def _reset() -> None:
    st.session_state.update(_values(SimulationConfig()))
    st.session_state[_PROBLEMS] = []


def _config() -> SimulationConfig:
    """Return the configuration of the widgets; a field without a widget has its initial value. Raises InvalidConfig."""
    state = st.session_state
    values = federated.effective({name: state.get(name, state[_INITIAL][name]) for name in FLAT})
    kind = KINDS[values["tagger"]]
    without_effect = {name for name in OF_KIND if name not in kind.fields}
    if not FEATURE_SETS[values["features"]].reads(values["language_model"]):
        without_effect.add("language_model")
    if not advanced.has_public_weights(values):
        without_effect.add("pretrained")
    if values["clip_norm"] is None:
        without_effect.add("clip_norm")
    return SimulationConfig.from_flat({name: values[name] for name in values if name not in without_effect})


def _write_address(config: SimulationConfig) -> None:
    """Write the configuration to the address bar; an invalid link stays there until the user changes a value."""
    state = st.session_state
    fields = address.write(config)
    seen = {name: state.get(name) for name in state[_INITIAL]}
    if state[_PROBLEMS] and seen != state.get(_SEEN, seen):
        state[_PROBLEMS] = []
    state[_SEEN] = seen
    if fields != state[_ADDRESS] and not state[_PROBLEMS]:
        st.query_params.from_dict(fields)
        state[_ADDRESS] = fields


def problems() -> list[str]:
    """Return the errors of the link that opened this view."""
    return list(st.session_state.get(_PROBLEMS, ()))


def _say_cost(preview: Preview) -> None:
    colour = "gray" if preview.tier == "none" else "green" if preview.tier in ("strong", "reasonable") else "orange"
    label = "Published: ε =" if preview.missing else "Planned: ε ="
    st.markdown(f"{label} **{epsilon_text(preview.privacy.epsilon)}** :{colour}-badge[{messages.TIERS[preview.tier]}]")
    for warning in preview.warnings:
        st.warning(address.plain(warning), icon=":material/warning:")

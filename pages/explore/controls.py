"""Controls of a configuration in the sidebar, synchronised with the address bar."""

from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from engine.config import (
    AUTOMATIC,
    FEATURES,
    IN_CONTEXT,
    MINILM,
    NOISE,
    PrivacyConfig,
    SimulationConfig,
    TaggerConfig,
    TrainingConfig,
)
from engine.corpus import CorpusInfo
from engine.errors import EpsilonError
from engine.experiments import recommended_settings
from engine.service import Application, Preview
from engine.taggers import KINDS
from pages.explore import advanced, corpora, federated, messages, target
from pages.explore.widgets import select
from pages.shared import address, browser_history, titles

SHARES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0)

_ADDRESS, _PROBLEMS, _SEEN, _INITIAL = "address", "address_problems", "seen", "initial"


def choose(app: Application) -> tuple[SimulationConfig, Preview] | None:
    """Return the chosen configuration and its privacy cost; show an error and return None if it is invalid."""
    corpora_by_name = _read_address({info.name: info for info in app.corpora.all()})
    start, main = st.session_state[_INITIAL], st.container()
    with st.sidebar:
        _starts(app)
        corpora.choose(app, start, corpora_by_name)
        cost = _main_choices(start)
        federated.choose(start, _options(federated.CLIENTS, "clients"))
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
    select(start, "Model", list(titles.TAGGERS), "tagger", names=titles.TAGGERS)
    st.caption(KINDS[state.tagger].note)
    select(
        start,
        "Features",
        IN_CONTEXT if KINDS[state.tagger].in_context else FEATURES,
        "features",
        names=titles.FEATURES,
        help="Inputs of the model for each token, from public data. Each choice includes those above it. The last "
        "three were fitted on Wikigold's sentences, the last two also on its labels, and spaCy's NER model on "
        "OntoNotes. The page warns you if a corpus shares sentences with Wikigold.",
    )
    st.select_slider(
        "Noise multiplier σ",
        _options(NOISE, "noise_multiplier"),
        start["noise_multiplier"],
        key="noise_multiplier",
        format_func=lambda sigma: f"{sigma:g}",
        on_change=lambda: state.update(exact_noise=state.noise_multiplier),
        help="Standard deviation of the noise on each step's gradient, as a multiple of the clip norm: the most that "
        "one sentence can change the gradient.",
    )
    st.caption("← more accurate :gray[·] more private →")
    cost = st.container()
    st.select_slider(
        "Share of the training data",
        _options(SHARES, "data_fraction"),
        start["data_fraction"],
        key="data_fraction",
        format_func=lambda share: f"{100 * share:g} %",
        help="A random subset of the training sentences. With fewer sentences each one has more influence, so ε grows.",
    )
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
    privacy, training = config.privacy, config.training
    automatic = PrivacyConfig(noise_multiplier=privacy.noise_multiplier).clip_norm
    return {
        "corpus": config.corpus,
        "tagger": config.tagger.name,
        "noise_multiplier": privacy.noise_multiplier,
        "exact_noise": privacy.noise_multiplier,
        "data_fraction": config.data_fraction,
        "clip_norm": None if privacy.clip_norm == automatic else privacy.clip_norm,
        "delta": privacy.delta,
        "sampling": privacy.sampling,
        "clipping": privacy.clipping,
        "noise_source": privacy.noise_source,
        "optimiser": training.optimiser,
        "learning_rate": training.learning_rate,
        "batch_size": training.batch_size,
        "epochs": training.epochs,
        "loss": training.loss,
        "averaging": training.averaging,
        "hidden_size": config.tagger.hidden_size,
        "window": config.tagger.window,
        "dropout": config.tagger.dropout,
        "scheme": config.tagger.scheme,
        "well_formed": config.tagger.well_formed,
        "embeddings": config.embeddings,
        "features": config.features,
        "language_model": config.language_model,
        "seed": config.seed,
        "mechanism": privacy.mechanism,
        **{name: getattr(config.federation, name) for name in federated.FIELDS},
    }


def _starts(app: Application) -> None:
    """Show the two presets: the paper's settings and the recommended ones."""
    left, right = st.columns(2)
    left.button(
        "Paper settings",
        on_click=_take,
        args=(app, None),
        width="stretch",
        help="Settings of Jana and Biemann 2021: BiLSTM trained from scratch, SGD, σ = 1.",
    )
    with right.popover("Recommended", width="stretch"):
        st.markdown(
            "Public features and labels, few weights, CRF, large batches, Adam, averaged weights. Choose a target ε:"
        )
        for epsilon in recommended_settings.EPSILONS:
            st.button(f"ε = {epsilon:g}", on_click=_take, args=(app, epsilon), width="stretch", key=f"good-{epsilon:g}")


def _take(app: Application, epsilon: float | None) -> None:
    """Set all fields but the corpus, the seed and the federation."""
    state = st.session_state
    if epsilon is None:
        config = SimulationConfig(corpus=state.corpus)
    else:
        try:
            config = recommended_settings.recommended_settings(
                state.corpus, app.corpora.train_sentences(state.corpus), epsilon
            )
        except EpsilonError as error:
            corpora.say(error)
            return
    kept = {"seed", *federated.FIELDS}
    state.update({name: value for name, value in _values(config).items() if name not in kept})
    state[_PROBLEMS] = []


def _reset() -> None:
    st.session_state.update(_values(SimulationConfig()))
    st.session_state[_PROBLEMS] = []


def _config() -> SimulationConfig:
    state = st.session_state
    federation, mechanism = federated.chosen()
    return SimulationConfig(
        corpus=state.corpus,
        data_fraction=state.data_fraction,
        tagger=TaggerConfig(
            name=state.tagger,
            hidden_size=state.hidden_size,
            window=state.window if "window" in KINDS[state.tagger].fields else 0,
            dropout=state.dropout if "dropout" in KINDS[state.tagger].fields else 0.0,
            scheme=state.scheme,
            well_formed=state.well_formed,
        ),
        embeddings=state.embeddings,
        features=state.features,
        language_model=(
            state.get("language_model", state[_INITIAL]["language_model"]) if state.features == "contextual" else MINILM
        ),
        training=TrainingConfig(
            optimiser=state.optimiser,
            learning_rate=state.learning_rate,
            batch_size=state.batch_size,
            epochs=state.epochs,
            loss=state.loss,
            averaging=state.averaging,
        ),
        privacy=PrivacyConfig(
            noise_multiplier=state.noise_multiplier,
            clip_norm=AUTOMATIC if state.clip_norm is None else state.clip_norm,
            delta=state.delta,
            sampling=state.sampling,
            clipping=state.clipping,
            mechanism=mechanism,
            noise_source=state.noise_source,
        ),
        federation=federation,
        seed=state.seed,
    )


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


def _options(usual: Sequence[Any], key: str) -> list[Any]:
    """Return a slider's steps, including its initial value and a value set by another control."""
    state = st.session_state
    return sorted({*usual, state[_INITIAL][key], state.get(key, state[_INITIAL][key])})


def _say_cost(preview: Preview) -> None:
    colour = "gray" if preview.tier == "none" else "green" if preview.tier in ("strong", "reasonable") else "orange"
    label = "Published: ε =" if preview.missing else "Planned: ε ="
    st.markdown(f"{label} **{messages.epsilon(preview.privacy)}** :{colour}-badge[{messages.TIERS[preview.tier]}]")
    for warning in preview.warnings:
        st.warning(address.plain(warning), icon=":material/warning:")

"""The controls of a configuration, in the sidebar, and their tie to the address bar."""

from collections.abc import Sequence
from typing import Any

import streamlit as st

from engine import recipes
from engine.config import (
    AUTOMATIC,
    CLIPPINGS,
    FEATURES,
    LOSSES,
    NOISE,
    OPTIMISERS,
    PAPER_TAGGERS,
    SAMPLINGS,
    TAGGERS,
    PrivacyConfig,
    SimulationConfig,
    TaggerConfig,
    TrainingConfig,
)
from engine.corpus import CorpusInfo
from engine.errors import EpsilonError
from engine.runs import Preview, Runs
from pages.shared import address, back, federated, words

SHARES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0)
TAGGER_NAMES = {
    "bilstm-tddl": "BiLSTM-TDDL",
    "bilstm-crf": "BiLSTM-CRF",
    "linear-softmax": "Linear, softmax",
    "linear-crf": "Linear, CRF",
    "mlp-softmax": "MLP, softmax",
    "mlp-crf": "MLP, CRF",
}
TAGGER_NOTES = {
    "bilstm-tddl": "Word vectors, an LSTM in both directions, then each token is judged by itself.",
    "bilstm-crf": "Word vectors, an LSTM in both directions, then a chain (CRF) judges a sentence's tags together.",
    "linear-softmax": "Each token's features are weighed once, and it is judged by itself: few weights, little noise.",
    "linear-crf": "Each token's features are weighed once, then a chain (CRF) judges a sentence's tags together.",
    "mlp-softmax": "One hidden layer over each token's features, then each token is judged by itself.",
    "mlp-crf": "One hidden layer over each token's features, then a chain (CRF) judges a sentence's tags together.",
}
FEATURE_NAMES = {
    "vectors": "Word vectors, as in the papers",
    "shapes": "and spelling",
    "contextual": "and a public language model",
    "tuned": "and the model tuned on public names",
}

_ADDRESS, _PROBLEMS, _SEEN, _INITIAL = "address", "address_problems", "seen", "initial"


def choose(runs: Runs) -> tuple[SimulationConfig, Preview] | None:
    """What the user has chosen and what it would cost; None, and a sentence on the page, if it cannot be run."""
    corpora = {info.name: info for info in runs.corpora()}
    _read_address(corpora)
    state = st.session_state
    start = state[_INITIAL]
    with st.sidebar:
        _starts(runs)
        st.selectbox(
            "Corpus",
            list(corpora),
            list(corpora).index(start["corpus"]),
            key="corpus",
            format_func=lambda name: _corpus_label(corpora[name]),
        )
        _corpus_help(runs, corpora[state.corpus])
        st.selectbox(
            "Model",
            TAGGERS,
            TAGGERS.index(start["tagger"]),
            key="tagger",
            format_func=TAGGER_NAMES.__getitem__,
        )
        st.caption(TAGGER_NOTES[state.tagger])
        st.selectbox(
            "A token is told by",
            FEATURES,
            FEATURES.index(start["features"]),
            key="features",
            format_func=FEATURE_NAMES.__getitem__,
            help="Each has what stands above it. All of it is public: nothing is learned from the corpus at hand. The "
            "last was tuned on Wikigold's names, which counts as public data with labels.",
        )
        st.select_slider(
            "Noise multiplier σ",
            _options(NOISE, "noise_multiplier"),
            start["noise_multiplier"],
            key="noise_multiplier",
            format_func=lambda sigma: f"{sigma:g}",
            on_change=lambda: state.update(exact_noise=state.noise_multiplier),
            help="Noise on each step's gradient, in multiples of the most that one sentence may change it.",
        )
        st.caption("← more accurate :gray[·] more private →")
        cost = st.container()
        st.select_slider(
            "Share of the training data",
            _options(SHARES, "data_fraction"),
            start["data_fraction"],
            key="data_fraction",
            format_func=lambda share: f"{100 * share:g} %",
            help="A random part of the training sentences. Fewer sentences make each one weigh more, so ε grows.",
        )
        federated.choose(start, _options(federated.CLIENTS, "clients"))
        federated.advanced(start)
        _advanced(runs)
        st.button("Back to the defaults", on_click=_reset, type="tertiary", icon=":material/undo:")
        back.follow()
    try:
        config = _config()
        with cost, st.spinner("Working out ε …", show_time=False):
            preview = runs.preview(config)
    except EpsilonError as error:
        st.error(address.plain(str(error)), icon=":material/error:")
        return None
    with cost:
        _say_cost(preview)
    _write_address(config)
    return config, preview


def _read_address(corpora: dict[str, CorpusInfo]) -> None:
    """Take the configuration of the address bar, once for each session.

    The values go to the widgets as defaults: set by the session, they would undo what a quick user has done before
    the first view was complete.
    """
    state = st.session_state
    if _INITIAL not in state:
        config, state[_PROBLEMS] = address.read(st.query_params.to_dict(), corpora)
        # Not written back before something is chosen: going back would then never leave the page.
        state[_INITIAL], state[_ADDRESS] = _values(config), address.write(config)
    elif state.get("corpus") not in corpora:
        state.corpus = SimulationConfig().corpus


def _values(config: SimulationConfig) -> dict[str, Any]:
    """What the widgets show for a configuration, by their keys."""
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
        "optimiser": training.optimiser,
        "learning_rate": training.learning_rate,
        "batch_size": training.batch_size,
        "epochs": training.epochs,
        "loss": training.loss,
        "averaging": training.averaging,
        "hidden_size": config.tagger.hidden_size,
        "window": config.tagger.window,
        "well_formed": config.tagger.well_formed,
        "embeddings": config.embeddings,
        "features": config.features,
        "seed": config.seed,
        "mechanism": privacy.mechanism,
        **{name: getattr(config.federation, name) for name in federated.FIELDS},
    }


def _starts(runs: Runs) -> None:
    """The two ways to begin: as the paper does, and as one should."""
    left, right = st.columns([2, 4])
    left.button(
        "Paper",
        on_click=_take,
        args=(runs, None),
        width="stretch",
        help="The paper's setting: BiLSTM from scratch, SGD, σ = 1.",
    )
    with right.popover("Good practice", width="stretch"):
        st.markdown("Public features, few weights, a CRF, large batches, Adam, averaged weights. σ is worked out for:")
        for epsilon in recipes.EPSILONS:
            st.button(
                f"ε = {epsilon:g}", on_click=_take, args=(runs, epsilon), width="stretch", key=f"good-{epsilon:g}"
            )


def _take(runs: Runs, epsilon: float | None) -> None:
    """Set all but the corpus, the seed and who holds the data."""
    state = st.session_state
    if epsilon is None:
        config = SimulationConfig(corpus=state.corpus)
    else:
        try:
            config = recipes.good_practice(state.corpus, runs.train_sentences(state.corpus), epsilon)
        except EpsilonError as error:
            state.corpus_problem = str(error)
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
            window=0 if state.tagger in PAPER_TAGGERS else state.window,
            well_formed=state.well_formed,
        ),
        embeddings=state.embeddings,
        features=state.features,
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
        ),
        federation=federation,
        seed=state.seed,
    )


def _write_address(config: SimulationConfig) -> None:
    """Put the configuration into the address bar; a link with faults stays there until the user moves on."""
    state = st.session_state
    fields = address.write(config)
    seen = {name: state[name] for name in state[_INITIAL]}
    if state[_PROBLEMS] and seen != state.get(_SEEN, seen):
        state[_PROBLEMS] = []
    state[_SEEN] = seen
    if fields != state[_ADDRESS] and not state[_PROBLEMS]:
        st.query_params.from_dict(fields)
        state[_ADDRESS] = fields


def problems() -> list[str]:
    """What was wrong with the link that this view was opened with."""
    return list(st.session_state.get(_PROBLEMS, ()))


def _options(usual: Sequence[Any], key: str) -> list[Any]:
    """The steps of a slider, with the value at the start and the one chosen elsewhere among them."""
    state = st.session_state
    return sorted({*usual, state[_INITIAL][key], state.get(key, state[_INITIAL][key])})


def _corpus_label(info: CorpusInfo) -> str:
    return info.title if info.available else f"{info.title}, not here"


def _corpus_help(runs: Runs, info: CorpusInfo) -> None:
    facts = [f"{info.sentences:,} sentences" if info.sentences else "", ", ".join(info.entity_types), info.licence]
    st.caption(" · ".join(address.plain(fact) for fact in facts if fact))
    if not info.available and info.fetchable:
        st.button(
            f"Fetch it ({info.size / 1e6:.1f} MB)", on_click=_fetch, args=(runs, info.name), icon=":material/download:"
        )
    elif not info.available:
        st.caption(info.note)
    with st.popover("Use a corpus of your own", type="tertiary", icon=":material/upload_file:"):
        st.markdown(
            "A column file: one token a line, its tag in the last column (IOB1, BIO2 or BIOES), a blank line between "
            "sentences. It is split 80 / 10 / 10 and stays on this server, in the data folder of whoever runs it."
        )
        st.file_uploader("Column file, up to 50 MB", key="upload", on_change=_take_upload, args=(runs,))
    if problem := st.session_state.pop("corpus_problem", None):
        st.error(address.plain(problem), icon=":material/error:")


def _fetch(runs: Runs, name: str) -> None:
    try:
        with st.spinner("Fetching …"):
            runs.fetch_corpus(name)
    except EpsilonError as error:
        st.session_state.corpus_problem = str(error)


def _take_upload(runs: Runs) -> None:
    file = st.session_state.get("upload")
    if file is None:
        return
    try:
        st.session_state.corpus = runs.add_corpus(file.name, file.getvalue())
    except EpsilonError as error:
        st.session_state.corpus_problem = str(error)


def _say_cost(preview: Preview) -> None:
    colour = "gray" if preview.tier == "none" else "green" if preview.tier in ("strong", "reasonable") else "orange"
    st.markdown(f"By plan, ε will be **{words.epsilon(preview.privacy)}** :{colour}-badge[{words.TIERS[preview.tier]}]")
    for warning in preview.warnings:
        st.warning(address.plain(warning), icon=":material/warning:")


def _advanced(runs: Runs) -> None:
    state = st.session_state
    start = state[_INITIAL]
    with st.expander("Advanced", icon=":material/tune:"):
        st.number_input(
            "Noise multiplier, exactly",
            0.0,
            10_000.0,
            start["exact_noise"],
            key="exact_noise",
            step=0.1,
            format="%g",
            on_change=lambda: state.update(noise_multiplier=state.exact_noise),
        )
        st.number_input(
            "Clip norm C",
            1e-6,
            1e6,
            start["clip_norm"],
            key="clip_norm",
            placeholder="1.5 with noise, none without",
            format="%g",
            help="The longest gradient that one sentence may have (L2). Longer ones are scaled down.",
        )
        st.selectbox(
            "Clipping",
            CLIPPINGS,
            CLIPPINGS.index(start["clipping"]),
            key="clipping",
            help="Joint: a sentence's gradient as a whole. Per layer: each layer by itself, all together to C.",
        )
        st.number_input(
            "δ",
            1e-12,
            0.999,
            start["delta"],
            key="delta",
            format="%.0e",
            help="Chance that ε does not hold: below 1/n.",
        )
        st.selectbox(
            "Sampling",
            SAMPLINGS,
            SAMPLINGS.index(start["sampling"]),
            key="sampling",
            help="Poisson: each sentence joins each step by chance, as the accounting assumes. Shuffle: as papers do.",
        )
        st.number_input("Epochs", 0.01, 10_000.0, start["epochs"], key="epochs", step=1.0, format="%g")
        st.number_input("Batch size (expected)", 1, 1_000_000, start["batch_size"], key="batch_size")
        st.selectbox("Optimiser", OPTIMISERS, OPTIMISERS.index(start["optimiser"]), key="optimiser")
        st.number_input(
            "Learning rate", 1e-6, 1000.0, start["learning_rate"], key="learning_rate", step=0.05, format="%g"
        )
        st.selectbox(
            "Loss of a sentence",
            LOSSES,
            LOSSES.index(start["loss"]),
            key="loss",
            help="Mean or sum over its tokens. With clipping, the sum makes long sentences clip more.",
        )
        st.toggle(
            "Only well-formed tags",
            start["well_formed"],
            key="well_formed",
            help="I-X may only follow B-X or I-X. Forbidding the rest when tags are read off costs no privacy.",
        )
        st.number_input(
            "Average of the weights, decay",
            0.0,
            0.9999,
            start["averaging"],
            key="averaging",
            step=0.05,
            format="%g",
            help="The tagger has the moving average of the weights: less noise, for no privacy. 0 is none.",
        )
        st.number_input(
            "LSTM units per direction, or units of an MLP", 1, 1024, start["hidden_size"], key="hidden_size"
        )
        st.number_input(
            "Neighbours that a token sees",
            0,
            5,
            start["window"],
            key="window",
            disabled=state.tagger in PAPER_TAGGERS,
            help="To each side; for linear taggers and MLPs. An LSTM reads the whole sentence.",
        )
        vectors = sorted({*runs.vectors(), start["embeddings"], state.get("embeddings", start["embeddings"])})
        st.selectbox("Word vectors", vectors, vectors.index(start["embeddings"]), key="embeddings")
        st.number_input(
            "Seed", 0, 2**32 - 1, start["seed"], key="seed", help="Of every random draw; the same seed, the same run."
        )

"""Lesson 5: gradient leakage to an honest-but-curious server, and federated averaging (:mod:`.lesson_5_fedavg`)."""

import html
from collections.abc import Sequence
from dataclasses import replace

import plotly.graph_objects as go
import streamlit as st

from engine.errors import EpsilonError
from engine.lessons import fixtures, gradient_leakage
from engine.lessons.gradient_leakage import NOISE, Reading, Setting
from pages.learn import guess_markers, lesson_5_fedavg
from pages.learn.lesson import Guess, Lesson
from pages.shared import address, palette, session
from pages.shared.plotly_component import show as draw

VIEWS = ("Gradient leakage", "Federated averaging")
CLIP_NORM = 1.5
"""Clip norm of the paper."""
_SENTENCES, _STEPS, _CLIENTS = (1, 2, 4, 8, 16), (1, 2, 4), (1, 2, 5, 10, 20, 50)
_SHOWN = 3
"""Number of sentences shown with their recovered words."""
_STYLES = (
    ("precision", "precision", palette.PRECISION, "circle", "solid"),
    ("recall", "recall", palette.RECALL, "square", "dash"),
    ("recall in entities", "names", palette.TYPES[2], "diamond", "dot"),
)
_TICKS = ("0", "0.0003", "0.001", "0.003", "0.01", "0.1", "1")
_STYLE = """
  .read-words { line-height: 2; overflow-wrap: anywhere; margin: 0 0 0.4rem; }
  .read-words mark { background: color-mix(in srgb, currentColor 12%, transparent); color: inherit; font-weight: 600;
    border: 1.5px solid currentColor; border-radius: 0.3em; padding: 0 0.2em; }
  .read-words span { border-bottom: 2px dotted currentColor; opacity: 0.75; }
"""


def show(guess: float | None) -> None:
    """Show the controls, the headline and the chart. The guess is the words recovered without noise, of 100."""
    view = st.segmented_control(
        "Show", VIEWS, default=VIEWS[0], key="l5_view", bind="query-params", required=True, label_visibility="collapsed"
    )
    if view == VIEWS[1]:
        lesson_5_fedavg.show()
        return
    left, right = st.columns([2.6, 1], gap="large")
    with right:
        setting, sigma = _chosen()
    with left:
        try:
            with st.spinner("Loading the NER tagger and its sentences (a few seconds, once) …", show_time=True):
                model = fixtures.load(session.application().settings)
            with st.spinner("Computing the update …"):
                readings = gradient_leakage.by_noise(model, setting)
        except EpsilonError as error:
            st.error(address.plain(str(error)), icon=":material/error:")
            return
        reading = next(reading for reading in readings if reading.setting.noise_multiplier == sigma)
        headline = answer(reading)
        st.markdown(f"#### {headline}")
        draw(picture(readings, reading, guess), key="l5_read", label=headline)
        _sentences(reading)
    gradient_leakage.ahead(model, beside(setting)).poll()


def beside(setting: Setting) -> tuple[Setting, ...]:
    """Return the settings that differ in one slider, those nearest on it first, to compute them ahead."""
    neighbours = []
    for name, options in (("sentences", _SENTENCES), ("steps", _STEPS), ("clients", _CLIENTS)):
        current = options.index(getattr(setting, name))
        others = [(abs(index - current), replace(setting, **{name: value})) for index, value in enumerate(options)]
        neighbours += [(distance, other) for distance, other in others if distance]
    return tuple(other for _, other in sorted(neighbours, key=lambda pair: pair[0]))


def _chosen() -> tuple[Setting, float]:
    """Show the controls and return the setting of the update without noise, and σ."""
    own = "Each client trains on its own sentences."
    sentences = st.select_slider("Sentences in a batch", _SENTENCES, 2, key="l5_batch", bind="query-params")
    steps = st.select_slider(
        "Local steps per update",
        _STEPS,
        1,
        key="l5_steps",
        bind="query-params",
        help="Each step uses different sentences.",
    )
    clients = st.select_slider(
        "Clients in secure aggregation",
        _CLIENTS,
        1,
        key="l5_clients",
        bind="query-params",
        help=f"1: no secure aggregation. {own}",
    )
    clipped = st.toggle(
        f"Clip to C = {CLIP_NORM:g}",
        True,
        key="l5_clip",
        bind="query-params",
        help="Clips the gradient of each sentence. C sets the scale of the noise: without clipping, no noise is added.",
    )
    sigma = st.select_slider(
        "Noise multiplier σ",
        NOISE,
        0.0,
        format_func="{:g}".format,
        key="l5_sigma",
        bind="query-params",
        disabled=not clipped,
        help="Each client adds noise with standard deviation σ · C to each value at each step. Private training "
        "usually has σ near 1.",
    )
    setting = Setting(sentences=sentences, steps=steps, clients=clients, clip_norm=CLIP_NORM if clipped else None)
    return setting, sigma if clipped else 0.0


def answer(reading: Reading) -> str:
    """Return the number of words that the server recovers, in a sentence."""
    words = f"Of the sentences' {reading.there} dictionary words"
    in_entities = f"{reading.names_read} of {reading.names} in entities"
    wrong = reading.said - reading.right
    if not reading.by_update:
        return (
            f"{words}, the server recovers none. Guesses of frequent words are as good: {reading.right} right, "
            f"{wrong} wrong ({in_entities})."
        )
    others = f"and {wrong} wrong words" if wrong else "and no wrong words"
    return f"{words}, the server recovers {reading.right} ({in_entities}), {others}."


def picture(readings: Sequence[Reading], chosen: Reading, guess: float | None) -> go.Figure:
    """Draw precision and recall over σ. Open symbols: guesses of frequent words, without the update."""
    figure = go.Figure()
    levels = [f"{reading.setting.noise_multiplier:g}" for reading in readings]
    for name, score, colour, symbol, dash in _STYLES:
        figure.add_scatter(
            x=levels,
            y=[100 * _share(reading, score) for reading in readings],
            name=name,
            mode="lines+markers",
            line={"color": colour, "width": 3, "dash": dash},
            marker={
                "size": 11,
                "symbol": [symbol if reading.by_update else f"{symbol}-open" for reading in readings],
                "line": {"width": 2, "color": colour},
            },
            hovertemplate="σ = %{x}: %{y:.0f} of 100<extra>" + name + "</extra>",
        )
    guess_markers.layout(figure, "l5-read", x="noise multiplier σ", y="words, of 100")
    figure.update_xaxes(type="category", categoryorder="array", categoryarray=[f"{sigma:g}" for sigma in NOISE])
    figure.update_xaxes(range=[-0.4, len(NOISE) - 0.6], tickvals=_TICKS, tickangle=0)
    figure.update_yaxes(range=[-4, 108])
    at = NOISE.index(chosen.setting.noise_multiplier)
    figure.add_vline(x=at, line={"color": palette.QUIET, "width": 2, "dash": "dot"})
    guess_markers.horizontal_line(figure, guess, "your guess, without noise")
    if guess is not None:
        figure.layout.annotations[-1].update(x=0.08)  # beside σ = 0, where the curves are high
    return figure


def _share(reading: Reading, score: str) -> float:
    if score == "names":
        return reading.names_read / max(1, reading.names)
    return reading.precision if score == "precision" else reading.recall


def _sentences(reading: Reading) -> None:
    """Show sentences of the first client with the recovered words marked."""
    sentences = reading.sentences[:_SHOWN]
    whose = "Sentences of the first client. " if reading.setting.clients > 1 else ""
    hidden = len(reading.sentences) - len(sentences)
    st.html(f"<style>{_STYLE}</style>{''.join(map(marked, sentences))}")
    more = f" {hidden} more sentences are not shown." if hidden else ""
    st.caption(
        f"{whose}Framed words are recovered, dotted words are not. Other words are in no public dictionary.{more} Open "
        "symbols in the chart: attacker's guesses without the update."
    )


def marked(sentence: Sequence[tuple[str, bool | None]]) -> str:
    """Return a sentence as HTML: recovered words are framed, other words of the dictionary dotted.

    Args:
        sentence: Each word, and whether the server recovered it; None for words outside the dictionary.
    """
    tags = {True: "<mark>{}</mark>", False: "<span>{}</span>", None: "{}"}
    words = " ".join(tags[recovered].format(html.escape(word)) for word, recovered in sentence)
    return f'<p class="read-words">{words}</p>'


LESSON = Lesson(
    name="federated",
    title="Federated learning and gradient leakage",
    about="Recover words from the update that a device sends, and watch federated averaging live.",
    question=(
        "A phone learns from two sentences of its owner. The sentences never leave the phone: it sends **a gradient** "
        "of 322,609 numbers, in which no word is visible. The server is honest but curious and has a dictionary. "
        "Of 100 dictionary words in such sentences, how many can the server recover?"
    ),
    guess=Guess(label="Words recovered, of 100", low=0, high=100, step=5),
    show=show,
    words=(
        "In the first layer, the gradient is a weighted sum of the vectors of the sentences' words, and of no others. "
        "Clipping and more steps change its factors, not its words. Noise hides them; a sum over very many words "
        "makes recovery harder. Only devices charging on Wi-Fi take part. Other devices reveal nothing, but get a "
        "model trained on other people's sentences."
    ),
    simplifies=(
        "“Federated learning works without breaking privacy, since data never leave the device.” That is data "
        "minimisation, not a guarantee. The update is computed from the data, and here it reveals every word that is "
        "in a public dictionary. Noise and secure aggregation can hide them, and federated learning can use both. “99 "
        "% recovered” was a claim about people with eight known film ratings (lesson 1). Here it is 100 % of the "
        "words, by linear algebra, but without their order. Words that share a vector are recovered as a group. With σ "
        "near 1 this attack recovers nothing. That does not prove that every attack fails; ε bounds every attack."
    ),
    note=(
        "**Sources.** H. B. McMahan et al. 2017 (federated averaging); L. Zhu, Z. Liu and S. Han 2019 (*Deep Leakage "
        "from Gradients*); I. Petrov et al. 2024 (*DAGER*, section 4: the test of each word); K. Bonawitz et al. 2017 "
        "(secure aggregation) and 2019, section 3 (idle, charging, on Wi-Fi); P. Kairouz et al. 2021 (open problems); "
        "M. G. Arivazhagan et al. 2019 (*FedPer*). The engine’s own training code computes updates and "
        "rounds, on the built-in corpus. Charging and Wi-Fi times are simulated. Where the linear system has no exact "
        "solution, the server sets its threshold with sentences of its own.\n\n"
        "**Pitfalls.** “σ = 0.01 hides the words, so it is private.” No: other attacks need less information, and "
        "σ = 0.01 has no useful ε. Secure aggregation over few clients, or over fake clients, hides nothing. A "
        "private head helps only if owners want different tags, and never helps a device that takes no part. Words in "
        "no public dictionary cannot be distinguished: they all have the zero vector.\n\n"
        "**Ask the class.** Whose sentences does a keyboard learn from at night, and from whose sentences does it "
        "never learn? Should the server influence this choice?"
    ),
)

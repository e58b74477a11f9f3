"""Lesson 5: the data stays, the model travels. What a curious server reads in it, and who is heard at all."""

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

VIEWS = ("What a curious server reads", "The model travels")
CLIP_NORM = 1.5
"""The paper's."""
_SENTENCES, _STEPS, _CLIENTS = (1, 2, 4, 8, 16), (1, 2, 4), (1, 2, 5, 10, 20, 50)
_SHOWN = 3
"""Sentences that are shown with what was read."""
_LOOKS = (
    ("precision", "precision", palette.PRECISION, "circle", "solid"),
    ("recall", "recall", palette.RECALL, "square", "dash"),
    ("recall of names", "names", palette.TYPES[2], "diamond", "dot"),
)
_TICKS = ("0", "0.0003", "0.001", "0.003", "0.01", "0.1", "1")
_STYLE = """
  .read-words { line-height: 2; overflow-wrap: anywhere; margin: 0 0 0.4rem; }
  .read-words mark { background: color-mix(in srgb, currentColor 12%, transparent); color: inherit; font-weight: 600;
    border: 1.5px solid currentColor; border-radius: 0.3em; padding: 0 0.2em; }
  .read-words span { border-bottom: 2px dotted currentColor; opacity: 0.75; }
"""


def show(guess: float | None) -> None:
    """The controls, the picture and its answer. guess: words read without noise, of 100."""
    view = st.segmented_control(
        "Show", VIEWS, default=VIEWS[0], key="l5_view", bind="query-params", required=True, label_visibility="collapsed"
    )
    if view == VIEWS[1]:
        lesson_5_fedavg.show()
        return
    left, right = st.columns([2.6, 1], gap="large")
    with right:
        chosen = _chosen()
    with left:
        try:
            with st.spinner("Loading the tagger and its sentences: some seconds, once …", show_time=True):
                there = fixtures.load(session.application().settings)
            with st.spinner("Computing the update …"):
                readings = gradient_leakage.by_noise(there, chosen[0])
        except EpsilonError as error:
            st.error(address.plain(str(error)), icon=":material/error:")
            return
        reading = next(each for each in readings if each.setting.noise_multiplier == chosen[1])
        said = answer(reading)
        st.markdown(f"#### {said}")
        draw(picture(readings, reading, guess), key="l5_read", label=said)
        _sentences(reading)
    gradient_leakage.ahead(there, beside(chosen[0])).poll()


def beside(setting: Setting) -> tuple[Setting, ...]:
    """What one slider leads to, the nearest places first."""
    found = []
    for name, places in (("sentences", _SENTENCES), ("steps", _STEPS), ("clients", _CLIENTS)):
        here = places.index(getattr(setting, name))
        others = [(abs(place - here), replace(setting, **{name: value})) for place, value in enumerate(places)]
        found += [each for each in others if each[0]]
    return tuple(each for _, each in sorted(found, key=lambda one: one[0]))


def _chosen() -> tuple[Setting, float]:
    """What is sent, without noise, and σ."""
    own = "Each client trains on sentences of its own."
    sentences = st.select_slider("Sentences in a batch", _SENTENCES, 2, key="l5_batch", bind="query-params")
    steps = st.select_slider(
        "Local steps before it sends", _STEPS, 1, key="l5_steps", bind="query-params", help="Each on other sentences."
    )
    clients = st.select_slider(
        "Clients in a secure sum", _CLIENTS, 1, key="l5_clients", bind="query-params", help=f"1: none. {own}"
    )
    clipped = st.toggle(
        f"Clip to C = {CLIP_NORM:g}",
        True,
        key="l5_clip",
        bind="query-params",
        help="The gradient of each sentence. Without it no noise is added: there is nothing to measure it by.",
    )
    sigma = st.select_slider(
        "Noise, σ",
        NOISE,
        0.0,
        format_func="{:g}".format,
        key="l5_sigma",
        bind="query-params",
        disabled=not clipped,
        help="Added by each client at each step, σ · C on each value. Training with a stated ε usually has σ near 1.",
    )
    setting = Setting(sentences=sentences, steps=steps, clients=clients, clip_norm=CLIP_NORM if clipped else None)
    return setting, sigma if clipped else 0.0


def answer(reading: Reading) -> str:
    """What the server reads, in a sentence."""
    known, names = f"Of {reading.there} words in its dictionary", f"{reading.names_read} of {reading.names} in names"
    wrong = reading.said - reading.right
    if not reading.by_update:
        return (
            f"{known}, the server reads none: guessing frequent words does as well, {reading.right} rightly and "
            f"{wrong} wrongly ({names})."
        )
    beside = f"and {wrong} that were not there" if wrong else "and no other"
    return f"{known}, the server reads {reading.right} ({names}), {beside}."


def picture(readings: Sequence[Reading], chosen: Reading, guess: float | None) -> go.Figure:
    """Precision and recall against σ. Open symbols: frequent words, named without the update."""
    figure = go.Figure()
    levels = [f"{each.setting.noise_multiplier:g}" for each in readings]
    for name, what, colour, symbol, dash in _LOOKS:
        figure.add_scatter(
            x=levels,
            y=[100 * _share(each, what) for each in readings],
            name=name,
            mode="lines+markers",
            line={"color": colour, "width": 3, "dash": dash},
            marker={
                "size": 11,
                "symbol": [symbol if each.by_update else f"{symbol}-open" for each in readings],
                "line": {"width": 2, "color": colour},
            },
            hovertemplate="σ = %{x}: %{y:.0f} of 100<extra>" + name + "</extra>",
        )
    guess_markers.layout(figure, "l5-read", x="noise, σ", y="of 100 words")
    figure.update_xaxes(type="category", categoryorder="array", categoryarray=[f"{sigma:g}" for sigma in NOISE])
    figure.update_xaxes(range=[-0.4, len(NOISE) - 0.6], tickvals=_TICKS, tickangle=0)
    figure.update_yaxes(range=[-4, 108])
    at = NOISE.index(chosen.setting.noise_multiplier)
    figure.add_vline(x=at, line={"color": palette.QUIET, "width": 2, "dash": "dot"})
    guess_markers.horizontal_line(figure, guess, "your guess, without noise")
    if guess is not None:
        figure.layout.annotations[-1].update(x=0.08)  # beside σ = 0, where curves are high
    return figure


def _share(reading: Reading, what: str) -> float:
    if what == "names":
        return reading.names_read / max(1, reading.names)
    return reading.precision if what == "precision" else reading.recall


def _sentences(reading: Reading) -> None:
    """What the first client has, with what was read."""
    some, whose = reading.sentences[:_SHOWN], "The first client’s sentences. " if reading.setting.clients > 1 else ""
    left = len(reading.sentences) - len(some)
    st.html(f"<style>{_STYLE}</style>{''.join(map(marked, some))}")
    more = f" {left} more sentences are not shown." if left else ""
    st.caption(
        f"{whose}Framed: the server named it; dotted: it did not; other words are in no public dictionary.{more} Open "
        "symbols: frequent words, named without the update."
    )


def marked(sentence: Sequence[tuple[str, bool | None]]) -> str:
    """A sentence as HTML: framed where a word was read, dotted where not."""
    tags = {True: "<mark>{}</mark>", False: "<span>{}</span>", None: "{}"}
    return f'<p class="read-words">{" ".join(tags[read].format(html.escape(word)) for word, read in sentence)}</p>'


LESSON = Lesson(
    name="federated",
    title="The data stays, the model travels",
    about="Watch devices learn together, then read words back from what one of them sent.",
    question=(
        "A phone learns from two sentences of its owner. They never leave it: what it sends is **a gradient**, "
        "322,609 numbers in which nobody ever found a word by looking. The server keeps every rule, and is curious. "
        "Of 100 words in its dictionary, how many can it read back?"
    ),
    guess=Guess(label="Words read back, of 100", low=0, high=100, step=5),
    show=show,
    words=(
        "Where word vectors meet weights, a gradient mixes the vectors of its words, and of no others. Clipping and "
        "more steps change the mix, not what is in it. Noise does, and a sum over so many words that the mix could be "
        "of anything. Who is never on Wi-Fi while charging keeps every secret, and gets a model made for others."
    ),
    simplifies=(
        "*Federated learning works without breaking privacy, since data never leave the device*: that is data "
        "minimisation, no guarantee. What leaves is computed from the data, and here it gives away every word that is "
        "in a public dictionary. Noise and secure sums protect; federated learning is a good place for both. *99 % "
        "recovered* was said of people about whom eight film ratings were known (lesson 1). Here it is 100 %, by "
        "linear algebra, but of words without their order, and words that share a vector are told as a group. At σ "
        "near 1 this attack finds nothing: that is no proof that none does. ε is."
    ),
    note=(
        "**Sources.** H. B. McMahan et al. 2017 (federated averaging); L. Zhu, Z. Liu and S. Han 2019 (*Deep Leakage "
        "from Gradients*); I. Petrov et al. 2024 (*DAGER*, section 4: the test of each word); K. Bonawitz et al. 2017 "
        "(secure aggregation) and 2019, section 3 (idle, charging, on Wi-Fi); P. Kairouz et al. 2021 (what is open); "
        "M. G. Arivazhagan et al. 2019 (*FedPer*). Updates and rounds are computed by the engine’s own training code, "
        "on the embedded corpus; days of devices are simulated. Where the answer is not exact, the server sets its "
        "threshold on sentences of its own.\n\n"
        "**Pitfalls.** *σ = 0.01 hides the words, so it is private*: other attacks need less; σ = 0.01 has no ε worth "
        "the name. A secure sum of few clients, or of clients whom the server made up, hides nothing. A personal part "
        "helps only where owners want different things, and never a device that is not heard. Words in no public "
        "dictionary cannot be told apart: they all have one vector, of zeros.\n\n"
        "**Ask the class.** Whose sentences does a keyboard learn from at night, and whose not? Should the server take "
        "part in choosing?"
    ),
)

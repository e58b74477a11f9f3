"""Lesson 7: what ε = 1 buys. Names found against ε, from published runs, and what the learner would sign."""

import math
from collections.abc import Sequence

import plotly.graph_objects as go
import streamlit as st

from engine.lessons import utility_curve
from engine.lessons.posterior import bounds
from engine.lessons.utility_curve import GOOD, PAPER, Point
from engine.privacy.plan import tier
from engine.reports.numbers import epsilon_text
from pages.learn import guess_markers
from pages.learn.lesson import Guess, Lesson
from pages.shared import address, palette, session, titles
from pages.shared.epsilon_axis import EpsilonAxis
from pages.shared.plotly_component import show as draw

VIEWS = ("Names found", "F1")
CORPORA = ("conll2003", "synthetic")
SIGNED = ("0.05", "0.1", "0.3", "1", "3", "8", "no limit")
"""The ε that may be signed for."""
_LOOKS = {GOOD: (palette.PRIVATE, "circle", "solid"), PAPER: (palette.PRECISION, "square", "dash")}
_TIERS = {
    "strong": "a strong promise",
    "reasonable": "a reasonable promise",
    "weak": "a weak promise",
    "none": "no promise at all",
}


def show(guess: float | None) -> None:
    """The controls, the picture and its answer."""
    view = st.segmented_control(
        "Show", VIEWS, default=VIEWS[0], key="l7_view", bind="query-params", required=True, label_visibility="collapsed"
    )
    left, right = st.columns([2.6, 1], gap="large")
    with right:
        signed = st.select_slider("I would sign for ε up to", SIGNED, "1", key="l7_signed", bind="query-params")
        corpus = st.selectbox("Sentences", CORPORA, format_func=titles.corpus, key="l7_corpus", bind="query-params")
        epsilon = math.inf if signed == SIGNED[-1] else float(signed)
        st.markdown(promise(epsilon))
    here = session.application().settings
    points = _points(str(here.published), here.store_url, repr(session.current_user()), corpus)
    said = answer(points, epsilon)
    with left:
        st.markdown(f"#### {said}")
        if points:
            draw(picture(points, epsilon, guess, view), key="l7_price", label=said)
            seeds = " to ".join(f"{count}" for count in sorted({point.seeds for point in points}))
            st.caption(f"Test part, strict, means over {seeds} seeds. A point opens its run in Explore.")


def answer(points: Sequence[Point], epsilon: float) -> str:
    """What the signature costs, in a sentence."""
    good, paper, free = (
        utility_curve.bought(points, *each) for each in ((GOOD, epsilon), (PAPER, epsilon), (GOOD, math.inf))
    )
    if free is None:
        return "No run of this is known here: the page Good practice can compute them."
    limit = "Without a limit" if math.isinf(epsilon) else f"At ε = {epsilon:g}"
    if good is None:
        best = f"{_of_100(paper)} of 100 names" if paper else "no names that we know of"
        return f"{limit} nothing was measured with good practice; the paper's setting finds {best}."
    without = "" if math.isinf(epsilon) else f" (without privacy {_of_100(free)})"
    beside = f"; the paper's setting finds {_of_100(paper)}" if paper else ""
    return f"{limit} good practice finds {_of_100(good)} of 100 names{without}{beside}."


def promise(epsilon: float) -> str:
    """What is signed, in words."""
    if math.isinf(epsilon):
        return "**No limit**: no promise at all. Whoever sees the tagger may be *certain* that your sentence was used."
    sure = 100 * bounds(epsilon, 0.5)[1]
    digits = max(0, math.ceil(-math.log10(100 - sure)))
    return (
        f"**ε = {epsilon:g}**, {_TIERS[tier(epsilon)]}: who held 50 : 50 that your sentence was used may become "
        f"{sure:.{digits}f} % sure, no more, whatever else they know (but for δ = 1 in 100,000)."
    )


def picture(points: Sequence[Point], epsilon: float, guess: float | None, view: str) -> go.Figure:
    """Both settings against ε, what would be signed, and the guess."""
    axis = EpsilonAxis([point.epsilon for point in points])
    recall = view == VIEWS[0]
    figure = go.Figure()
    axis.shade(figure)
    for setting, (colour, symbol, dash) in _LOOKS.items():
        here = [point for point in points if point.setting == setting]
        figure.add_scatter(
            x=[axis.position(point.epsilon) for point in here],
            y=[100 * (point.recall if recall else point.f1) for point in here],
            name=setting,
            mode="lines+markers",
            line={"color": colour, "width": 3, "dash": dash},
            marker={"symbol": symbol, "size": 11},
            text=[
                f"<b>ε = {epsilon_text(point.epsilon)}</b><br>{100 * point.recall:.1f} of 100 names found, "
                f"F1 {point.f1:.3f}, {point.seeds} seeds"
                for point in here
            ],
            customdata=[address.link(point.config) for point in here],
            hovertemplate="%{text}<extra>" + setting + "</extra>",
        )
    guess_markers.layout(figure, f"l7-{view}", x="ε", y="of 100 names, found" if recall else "F1, in hundredths")
    figure.update_xaxes(axis.layout())
    figure.update_yaxes(range=[-3, 103])
    line = {"color": palette.QUIET, "width": 2, "dash": "dot"}
    side = "top right" if epsilon <= 1 else "top left"
    figure.add_vline(x=axis.position(epsilon), line=line, annotation={"text": "signed"}, annotation_position=side)
    if recall:
        guess_markers.horizontal_line(figure, guess, "your guess for ε = 1")
    return figure


def _of_100(point: Point | None) -> int:
    return round(100 * point.recall) if point else 0


@st.cache_data(show_spinner="Reading what is published …", max_entries=8, ttl=60)
def _points(published: str, stored: str, person: str, corpus: str) -> tuple[Point, ...]:
    """The runs that are known, looked up once a minute. published, stored: where they are; person: who
    may see them."""
    app = session.application()
    return utility_curve.curve(corpus, app.corpora.train_sentences(corpus), app.queries.find)


LESSON = Lesson(
    name="price",
    title="What does ε = 1 buy?",
    about="Weigh names found against ε, and say what you would sign.",
    question=(
        "A tagger learns names from 14,041 news sentences, and promises each of them **ε = 1**. Without any privacy it "
        "finds 87 of 100 names in other news. How many does it find with the promise, if it is trained well?"
    ),
    guess=Guess(label="Found at ε = 1, of 100", low=0, high=100, step=1),
    show=show,
    words=(
        "Both curves promise the same. Good practice begins with public knowledge, few weights and large batches; the "
        "paper's setting learns every weight of an LSTM from private sentences alone. Which ε would you sign, if ten "
        "of these sentences were yours?"
    ),
    simplifies=(
        "*ε buys accuracy at a fixed price*: it does not. At the same ε, the same data and the same promise, names "
        "found differ by a factor of two with how one trains. Nor is the promise that *nothing will happen to you*: "
        "what a tagger learns of everybody, it learns of you too, whether you took part or not."
    ),
    note=(
        "**Sources.** The paper's setting: A. Jana and C. Biemann 2021; good practice: N. Ponomareva et al. 2023, "
        "*How to DP-fy ML*, sections 5 and 5.2.1 (tiers); F. Tramèr and D. Boneh 2021. All points are published runs "
        "of this repository; the page *Good practice* climbs from one curve to the other, rung by rung.\n\n"
        "**Pitfalls.** The unit is one sentence: a person with ten of them has more than ten times ε (lesson 2). "
        "Public vectors in context were tuned on other people's sentences: public is not the same as given freely. "
        "That curves meet at ∞ does not make ε = 8 free of risk; the promise is a bound, not a measurement.\n\n"
        "**Ask the class.** Who decides on ε: those who use the tagger, or those whose sentences it learned from? "
        "What would have to be at stake for you to ask for ε = 0.1?"
    ),
)

"""Lesson 7: utility over ε, from published runs, and the largest ε that the learner accepts."""

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

VIEWS = ("Entities found", "F1")
CORPORA = ("conll2003", "synthetic")
ACCEPTABLE = ("0.05", "0.1", "0.3", "1", "3", "8", "no limit")
"""Options of the largest acceptable ε."""
_STYLES = {GOOD: (palette.PRIVATE, "circle", "solid"), PAPER: (palette.PRECISION, "square", "dash")}
_TIERS = {
    "strong": "a strong guarantee",
    "reasonable": "a reasonable guarantee",
    "weak": "a weak guarantee",
    "none": "no guarantee at all",
}


def show(guess: float | None) -> None:
    """Show the controls, the headline and the chart. The guess is the entities found at ε = 1, of 100."""
    view = st.segmented_control(
        "Show", VIEWS, default=VIEWS[0], key="l7_view", bind="query-params", required=True, label_visibility="collapsed"
    )
    left, right = st.columns([2.6, 1], gap="large")
    with right:
        largest = st.select_slider("Largest acceptable ε", ACCEPTABLE, "1", key="l7_signed", bind="query-params")
        corpus = st.selectbox("Corpus", CORPORA, format_func=titles.corpus, key="l7_corpus", bind="query-params")
        epsilon = math.inf if largest == ACCEPTABLE[-1] else float(largest)
        st.markdown(guarantee(epsilon))
    settings = session.application().settings
    points = _points(str(settings.published), settings.store_url, repr(session.current_user()), corpus)
    headline = answer(points, epsilon)
    with left:
        st.markdown(f"#### {headline}")
        if points:
            draw(picture(points, epsilon, guess, view), key="l7_price", label=headline)
            seeds = " to ".join(f"{count}" for count in sorted({point.seeds for point in points}))
            st.caption(f"Test set, entity-level (strict), means over {seeds} seeds. Click a point to open Explore.")


def answer(points: Sequence[Point], epsilon: float) -> str:
    """Return the entities found within this ε, in a sentence."""
    recommended, paper, not_private = (
        utility_curve.bought(points, setting, limit)
        for setting, limit in ((GOOD, epsilon), (PAPER, epsilon), (GOOD, math.inf))
    )
    if not_private is None:
        return "No run of this lesson is available. The page Recommended settings can compute them."
    limit = "Without a limit" if math.isinf(epsilon) else f"At ε = {epsilon:g}"
    if recommended is None:
        result = f"the paper's settings find {_of_100(paper)} of 100 entities" if paper else "nor with the paper's"
        return f"{limit} nothing was measured with the recommended settings; {result}."
    without = "" if math.isinf(epsilon) else f" (without privacy {_of_100(not_private)})"
    comparison = f"; the paper's settings find {_of_100(paper)}" if paper else ""
    return f"{limit} the recommended settings find {_of_100(recommended)} of 100 entities{without}{comparison}."


def guarantee(epsilon: float) -> str:
    """Return the meaning of this ε as the largest change of an attacker's belief."""
    if math.isinf(epsilon):
        return (
            "**No limit**: no guarantee at all. Anyone who sees the tagger may be *certain* that it used your sentence."
        )
    certainty = 100 * bounds(epsilon, 0.5)[1]
    digits = max(0, math.ceil(-math.log10(100 - certainty)))
    return (
        f"**ε = {epsilon:g}**, {_TIERS[tier(epsilon)]}. An attacker who is 50 % certain that your sentence was used "
        f"becomes at most {certainty:.{digits}f} % certain, whatever else they know. δ = 1 in 100,000 permits "
        "rare exceptions."
    )


def picture(points: Sequence[Point], epsilon: float, guess: float | None, view: str) -> go.Figure:
    """Draw recall or F1 of both settings over ε, with lines at the acceptable ε and at the guess.

    Args:
        points: Results of the runs.
        epsilon: The largest acceptable ε.
        guess: Guessed entities found at ε = 1, of 100, or None.
        view: One of :data:`VIEWS`.
    """
    axis = EpsilonAxis([point.epsilon for point in points])
    recall = view == VIEWS[0]
    figure = go.Figure()
    axis.shade(figure)
    for setting, (colour, symbol, dash) in _STYLES.items():
        of_setting = [point for point in points if point.setting == setting]
        figure.add_scatter(
            x=[axis.position(point.epsilon) for point in of_setting],
            y=[100 * (point.recall if recall else point.f1) for point in of_setting],
            name=setting,
            mode="lines+markers",
            line={"color": colour, "width": 3, "dash": dash},
            marker={"symbol": symbol, "size": 11},
            text=[
                f"<b>ε = {epsilon_text(point.epsilon)}</b><br>{100 * point.recall:.1f} of 100 entities found, "
                f"F1 {point.f1:.3f}, {point.seeds} seeds"
                for point in of_setting
            ],
            customdata=[address.link(point.config) for point in of_setting],
            hovertemplate="%{text}<extra>" + setting + "</extra>",
        )
    guess_markers.layout(figure, f"l7-{view}", x="ε", y="entities found, of 100" if recall else "F1 × 100")
    figure.update_xaxes(axis.layout())
    figure.update_yaxes(range=[-3, 103])
    line = {"color": palette.QUIET, "width": 2, "dash": "dot"}
    side = "top right" if epsilon <= 1 else "top left"
    figure.add_vline(
        x=axis.position(epsilon), line=line, annotation={"text": "largest acceptable ε"}, annotation_position=side
    )
    if recall:
        guess_markers.horizontal_line(figure, guess, "your guess for ε = 1")
    return figure


def _of_100(point: Point | None) -> int:
    return round(100 * point.recall) if point else 0


@st.cache_data(show_spinner="Loading runs …", max_entries=8, ttl=60)
def _points(published: str, stored: str, user: str, corpus: str) -> tuple[Point, ...]:
    """Return the results of the available runs, looked up once a minute.

    Args:
        published: Path of the published runs, part of the cache key.
        stored: Address of the run store, part of the cache key.
        user: The user who may see the runs, part of the cache key.
        corpus: Name of the corpus.
    """
    app = session.application()
    return utility_curve.curve(corpus, app.corpora.train_sentences(corpus), app.queries.find)


LESSON = Lesson(
    name="price",
    title="Utility at ε = 1",
    about="Compare the entities found at each ε, and choose the largest ε that you would accept.",
    question=(
        "A NER tagger learns from 14,041 news sentences, with a guarantee of **ε = 1** for each of them. Without "
        "privacy it finds 90 of 100 entities in other news. How many does it find with the guarantee, if it is trained "
        "well?"
    ),
    guess=Guess(label="Entities found at ε = 1, of 100", low=0, high=100, step=1),
    show=show,
    words=(
        "At each ε both curves have the same guarantee. The recommended settings use public knowledge, few weights "
        "and large batches. The paper's settings train an LSTM on public word vectors. Which ε would you accept if "
        "ten sentences were yours?"
    ),
    simplifies=(
        "“Accuracy has a fixed price in ε.” No. At the same ε and with the same private sentences, the training method "
        "changes the number of entities found by a factor of two. Nor does the guarantee say that "
        "“nothing will happen to you”: facts that a tagger learns about everyone also hold for you, whether you took "
        "part or not."
    ),
    note=(
        "**Sources.** The paper's settings: A. Jana and C. Biemann 2021; recommended settings: N. Ponomareva et al. "
        "2023, *How to DP-fy ML*, sections 5 and 5.2.1 (tiers); F. Tramèr and D. Boneh 2021. All points are published "
        "runs of this repository. The page *Recommended settings* leads from one curve to the other, step by step.\n\n"
        "**Pitfalls.** The protected unit is one sentence: a person with ten of them has more than ten times ε "
        "(lesson 2). Public contextual vectors were tuned on other people's sentences: public does not mean given "
        "freely. The curves do not meet at ∞: without noise too, the paper's settings find fewer entities. ε = 8 is "
        "not free of risk. The guarantee is a bound, not a measurement.\n\n**Ask the class.** Who decides on ε: the "
        "users of the tagger, or the authors of its training sentences? What would have to be at stake for you to "
        "ask for ε = 0.1?"
    ),
)

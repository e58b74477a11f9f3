"""Lesson 2: the promise. Two data sets that differ in one person, and what somebody may believe after one answer."""

import math

import numpy as np
import plotly.graph_objects as go
import streamlit as st

from engine.experiments.recommended_settings import EPSILONS
from engine.lessons import posterior
from engine.lessons.noise_mechanisms import KINDS, Noise, delta_of, fitting
from engine.reports.numbers import delta_text, epsilon_text
from pages.learn import guess_markers
from pages.learn.lesson import Guess, Lesson
from pages.shared import charts, palette
from pages.shared.plotly_component import show as draw

VIEWS = ("What she may believe", "Two worlds", "What δ is", "Ten sentences of yours")
COUNT = 100
"""Letters that mention it without yours, in the story."""
PEOPLE = 1_000_000
"""Whose records might be published, in the picture of δ."""
GROUP = (1, 2, 3, 5, 7, 10, 15, 20)
"""Sentences of one person."""
_EPSILONS = (0.1, 0.2, 0.5, 1.0, 2.0, 3.0, 5.0, 8.0)
_DELTAS = (1e-9, 1e-7, 1e-5, 1e-3, 1e-2, 1e-1)
_DRAWS = 2000
_NEAR = 0.08
"""Of how sure somebody is: two lines so close have no room for words between them."""
_WITH, _WITHOUT = palette.RECALL, palette.PRECISION


def show(guess: float | None) -> None:
    """The controls, the picture and its answer. guess: how sure, in per cent."""
    view = st.segmented_control(
        "Show", VIEWS, default=VIEWS[0], key="l2_view", bind="query-params", required=True, label_visibility="collapsed"
    )
    left, right = st.columns([2.6, 1], gap="large")
    with right:
        epsilon = st.select_slider("ε", _EPSILONS, 1.0, format_func="{:g}".format, key="l2_eps", bind="query-params")
        prior = st.slider("Sure before, %", 1, 99, 50, key="l2_prior", bind="query-params") / 100
        kind = st.segmented_control(
            "Noise", KINDS, default="laplace", format_func=str.title, key="l2_noise", bind="query-params", required=True
        )
        delta = st.select_slider(
            "δ (of Gaussian noise)", _DELTAS, 1e-5, format_func=delta_text, key="l2_delta", bind="query-params"
        )
        number = st.slider("Answer no.", 1, 50, 1, key="l2_answer", bind="query-params")
    noise = fitting(kind, epsilon, delta)
    sure = None if guess is None else guess / 100
    with left:
        if view == VIEWS[0]:
            seen = float(posterior.answers(noise, 50, present=True)[number - 1])
            said = believed(noise, epsilon, prior, seen)
            figure = _beliefs(noise, epsilon, prior, sure, seen)
        elif view == VIEWS[1]:
            said, figure = told_apart(noise, epsilon), _worlds(noise, prior, sure)
        elif view == VIEWS[2]:
            said, figure = of_delta(noise, epsilon, delta), _deltas(noise, epsilon, delta, prior, sure)
        else:
            with st.spinner("Adding up what they cost …"):
                said, figure = _sentences(kind, epsilon, delta, prior, sure)
        st.markdown(f"#### {said}")
        draw(figure, key=f"l2_{VIEWS.index(view)}", label=said)


def believed(noise: Noise, epsilon: float, prior: float, seen: float) -> str:
    """What the bound says, and what one answer does."""
    _, high = posterior.bounds(epsilon, prior)
    after = float(posterior.belief(noise, seen, prior))
    limit = f"{'never' if noise.kind == 'laplace' else 'seldom'} becomes surer than {_percent(high)}"
    before, then = (odds(each).replace(" ", "\N{NO-BREAK SPACE}") for each in (prior, after))
    return (
        f"Your neighbour, {_percent(prior)} sure before, {limit}. The answer {COUNT + seen:.1f} takes her odds from "
        f"{before} to {then}: {_percent(after)}."
    )


def odds(probability: float) -> str:
    """2 : 1 for two thirds, 1 : 3 for a quarter."""
    ratio = probability / (1 - probability)
    return f"{ratio:.2g} : 1" if ratio >= 1 else f"1 : {1 / ratio:.2g}"


def told_apart(noise: Noise, epsilon: float) -> str:
    """How often a bet is right."""
    return (
        f"At ε = {epsilon_text(epsilon)}, whoever bets on the likelier world is right in "
        f"{_percent(posterior.right_bets(noise))} of all cases; a coin is in {_percent(0.5)}."
    )


def of_delta(noise: Noise, epsilon: float, delta: float) -> str:
    """Two mechanisms that keep the same ε and δ, or Laplace noise, which needs none."""
    out = posterior.published(delta, PEOPLE)
    other = (
        f"So does publishing each record with a chance of {_unbroken(delta)}: of {PEOPLE:,} people, somebody's is out "
        f"with {100 * out:.5g} %."
    )
    if noise.kind == "laplace":
        return f"Laplace noise keeps ε = {epsilon_text(epsilon)} with δ = 0. Choose Gaussian noise to see what δ is."
    return f"This noise keeps ε = {epsilon_text(epsilon)} at δ = {_unbroken(delta)}. {other}"


def _beliefs(noise: Noise, epsilon: float, prior: float, sure: float | None, seen: float) -> go.Figure:
    """Belief after each answer, over the two worlds' densities."""
    points = _points(noise)
    figure = go.Figure()
    highest = float(noise.density(0))
    for present, name, colour in ((0, "without you", _WITHOUT), (1, "with you", _WITH)):
        figure.add_scatter(
            x=COUNT + points,
            y=noise.density(points - present) / highest * 45,
            name=name,
            fill="tozeroy",
            line={"color": colour, "width": 1},
            opacity=0.6,
            hoverinfo="skip",
        )
    figure.add_scatter(
        x=COUNT + points,
        y=100 * posterior.belief(noise, points, prior),
        name="how sure she is",
        line={"color": palette.PRIVATE, "width": 3.5},
        hovertemplate="answer %{x:.1f}: %{y:.0f} %<extra></extra>",
    )
    figure.add_scatter(
        x=[COUNT + seen],
        y=[100 * float(posterior.belief(noise, seen, prior))],
        name="this answer",
        mode="markers",
        marker={"size": 15, "symbol": "star", "color": palette.PRIVATE, "line": {"width": 1.5, "color": "white"}},
        hovertemplate="answer %{x:.1f}: %{y:.0f} %<extra></extra>",
    )
    guess_markers.layout(figure, "l2-belief", x="the published answer", y="how sure, %")
    for bound, place in zip(posterior.bounds(epsilon, prior), ("bottom right", "top right"), strict=True):
        if place == "top right" and sure is not None and 0 <= sure - bound < _NEAR:
            place = "bottom right"  # the guess would run through the words
        guess_markers.limit_line(figure, 100 * bound, f"{_percent(bound)}: the bound", position=place)
    guess_markers.horizontal_line(figure, None if sure is None else 100 * sure)
    figure.update_xaxes(range=[COUNT + points[0], COUNT + points[-1]])
    figure.update_yaxes(range=[0, 104])
    return figure


def _worlds(noise: Noise, prior: float, sure: float | None) -> go.Figure:
    """Draws and densities of both worlds; the guess where an answer makes somebody so sure."""
    points = _points(noise)
    figure = go.Figure()
    width = (points[-1] - points[0]) / 60
    for present, name, colour in ((False, "without you", _WITHOUT), (True, "with you", _WITH)):
        counts, edges = np.histogram(
            posterior.answers(noise, _DRAWS, present=present), np.arange(points[0], points[-1] + width / 2, width)
        )
        figure.add_bar(
            x=COUNT + (edges[:-1] + edges[1:]) / 2,
            y=counts / _DRAWS / width,
            width=width,
            name=name,
            marker={"color": colour, "opacity": 0.45, "line": {"width": 0}},
            hoverinfo="skip",
        )
        figure.add_scatter(
            x=COUNT + points,
            y=noise.density(points - present),
            name=f"density {name}",
            showlegend=False,
            line={"color": colour, "width": 3, "dash": "solid" if present else "dot"},
            hovertemplate="%{x:.1f}: %{y:.3g}<extra></extra>",
        )
    guess_markers.layout(figure, "l2-worlds", x="the published answer", y="density")
    figure.update_layout(barmode="overlay", bargap=0)
    figure.update_xaxes(range=[COUNT + points[0], COUNT + points[-1]])
    if sure is not None:
        at = posterior.answer_of(noise, sure, prior)
        if at is None:
            text = "no answer makes her as sure as you guessed"
            place = {"x": 0.5, "y": 1, "xref": "paper", "yref": "paper", "yanchor": "bottom"}
            figure.add_annotation(**place, text=text, showarrow=False)
        elif points[0] <= at <= points[-1]:
            guess_markers.vertical_line(figure, COUNT + at, "as sure as you guessed")
    return figure


def _deltas(noise: Noise, epsilon: float, delta: float, prior: float, sure: float | None) -> go.Figure:
    """What δ is at every ε: noise gets better, publishing by chance never does."""
    values = np.linspace(0, max(4.0, 3 * epsilon), 200)
    found = delta_of(noise, values)
    figure = go.Figure()
    figure.add_scatter(
        x=values,
        y=np.where(found > 1e-14, found, np.nan),
        name=f"{noise.kind.title()} noise",
        line={"color": palette.PRIVATE, "width": 3.5},
        hovertemplate="ε = %{x:.2f}: δ = %{y:.1e}<extra></extra>",
    )
    figure.add_scatter(
        x=values,
        y=np.full(len(values), delta),
        name="by chance",
        line={"color": palette.RECALL, "width": 3, "dash": "dot"},
        hovertemplate="δ = %{y:.1e} at every ε<extra></extra>",
    )
    if noise.kind == "gaussian":
        figure.add_scatter(
            x=[epsilon],
            y=[delta],
            mode="markers",
            name="both keep this",
            marker={"size": 13, "color": palette.PRIVATE, "line": {"width": 2, "color": "white"}},
            hoverinfo="skip",
        )
    guess_markers.layout(figure, "l2-delta", x="ε", y="δ")
    figure.update_yaxes(type="log", exponentformat="power", range=[-14, 0.2], dtick=2)
    if sure is not None:
        needed = posterior.epsilon_of(sure, prior)
        if needed <= values[-1]:
            guess_markers.vertical_line(figure, needed, f"your guess: ε = {epsilon_text(needed)}")
    return figure


def _sentences(kind: str, epsilon: float, delta: float, prior: float, sure: float | None) -> tuple[str, go.Figure]:
    """How many times ε several sentences of one person cost."""
    noisy = [posterior.group_epsilon(kind, epsilon, delta, size) / epsilon for size in GROUP]
    near = min(EPSILONS, key=lambda known: abs(math.log(known / epsilon)))
    trained = [1.0, *(each / near for each in _training(near))]
    figure = go.Figure()
    for name, values, colour, dash in (
        ("k times ε", [float(size) for size in GROUP], palette.QUIET, "dot"),
        (f"{kind.title()} noise", noisy, palette.PRIVATE, "solid"),
        (f"DP-SGD, ε = {near:g}", trained, palette.RECALL, "dash"),
    ):
        figure.add_scatter(
            x=GROUP,
            y=values,
            name=name,
            mode="lines+markers",
            line={"color": colour, "width": 3, "dash": dash},
            hovertemplate="%{x} sentences: %{y:.3g} times ε<extra>" + name + "</extra>",
        )
    guess_markers.layout(figure, "l2-group", x="sentences of one person", y="times the ε of one")
    figure.update_yaxes(type="log", tickvals=charts.log_ticks(0.5, 500), tickformat="~g")
    if sure is not None and 0 < (needed := posterior.epsilon_of(sure, prior)) < math.inf:
        guess_markers.horizontal_line(figure, needed / epsilon, f"your guess: ε = {epsilon_text(needed)}", log=True)
    ten = GROUP.index(10)
    return (
        f"Ten sentences of one person cost {noisy[ten]:.3g} times ε in a count with {kind.title()} noise, and "
        f"{trained[ten]:.3g} times in training by DP-SGD at ε = {near:g}."
    ), figure


@st.cache_data(show_spinner=False)
def _training(epsilon: float) -> list[float]:
    """ε of several sentences; what one has is what the recipe was made for."""
    return [posterior.training_epsilon(epsilon, size) for size in GROUP[1:]]


def _points(noise: Noise) -> np.ndarray:
    """Answers less the count, as far out as there is anything to see."""
    reach = max(3.0, 4.5 * noise.scale)
    return np.linspace(-reach, 1 + reach, 301)


def _unbroken(delta: float) -> str:
    return delta_text(delta).replace("-", "\N{NON-BREAKING HYPHEN}")


def _percent(share: float) -> str:
    return f"{100 * share:.3g}\N{NO-BREAK SPACE}%"


LESSON = Lesson(
    name="promise",
    title="The promise",
    about="Read one answer as a curious neighbour would, and see what ε lets her believe.",
    question=(
        "A clinic counts the letters that mention depression and publishes the count **plus noise**, with ε = 1. Your "
        "neighbour thinks it 50 : 50 that a letter of yours is among them. How sure can the published number make her, "
        "at most?"
    ),
    guess=Guess(label="How sure, at most", low=50, high=100, step=1, unit=" %"),
    show=show,
    words=(
        "Nothing is hidden for certain: ε says how far **odds** may move, by a factor of e^ε at most, whatever else "
        "she knows. δ is where that may fail: with Gaussian noise by a little, but the definition also lets records be "
        "published with that chance. Ten sentences of yours are ten changes at once."
    ),
    simplifies=(
        "Dwork's sentence in full is: *You will not be affected, adversely or otherwise, by allowing your data to be "
        "used in any study or analysis, no matter what other studies, data sets, or information sources, are "
        "available.* It is about **your taking part**, and it holds up to ε. What the study finds out about people "
        "like you is found out without you as well: if smoking turns out to harm, a smoker's insurance may rise, "
        "whether or not that smoker was in the study. That is no breach of the promise."
    ),
    note=(
        "**Sources.** C. Dwork and A. Roth, *The Algorithmic Foundations of Differential Privacy*, 2014, chapters 1 "
        "and 2; L. Wasserman and S. Zhou 2010 on what a test can find; B. Balle and Y.-X. Wang 2018 for δ(ε) of "
        "Gaussian noise; A. Ganesh 2024 for persons with several sentences under DP-SGD.\n\n"
        "**Pitfalls.** *ε = 1 means 1 %.* *A belief of 73 % is the truth*: at ε = 1 three answers of ten point away "
        "from it. *δ is the share of people who are betrayed*: for Gaussian noise nobody's record is ever published, "
        "odds just move further than e^ε with a chance that is small.\n\n"
        "**Ask the class.** Let everyone draw *Answer no.* and bet. From which ε on would you not take part?"
    ),
)

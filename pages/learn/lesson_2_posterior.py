"""Lesson 2: the privacy guarantee as a bound on an attacker's belief. Two data sets differ in one person's letter."""

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

VIEWS = ("Posterior belief", "Two worlds", "Meaning of δ", "Group privacy")
COUNT = 100
"""Letters in the story that mention depression, without yours."""
PEOPLE = 1_000_000
"""People in the chart of δ whose records might be published."""
GROUP = (1, 2, 3, 5, 7, 10, 15, 20)
"""Sentences of one person."""
_EPSILONS = (0.1, 0.2, 0.5, 1.0, 2.0, 3.0, 5.0, 8.0)
_DELTAS = (1e-9, 1e-7, 1e-5, 1e-3, 1e-2, 1e-1)
_DRAWS = 2000
_NEAR = 0.08
"""Difference of two probabilities: below it, a label does not fit between their lines."""
_WITH, _WITHOUT = palette.RECALL, palette.PRECISION


def show(guess: float | None) -> None:
    """Show the controls, the headline and the chart. The guess is a certainty in per cent."""
    view = st.segmented_control(
        "Show", VIEWS, default=VIEWS[0], key="l2_view", bind="query-params", required=True, label_visibility="collapsed"
    )
    left, right = st.columns([2.6, 1], gap="large")
    with right:
        epsilon = st.select_slider("ε", _EPSILONS, 1.0, format_func="{:g}".format, key="l2_eps", bind="query-params")
        prior = st.slider("Prior belief, %", 1, 99, 50, key="l2_prior", bind="query-params") / 100
        kind = st.segmented_control(
            "Noise", KINDS, default="laplace", format_func=str.title, key="l2_noise", bind="query-params", required=True
        )
        delta = st.select_slider(
            "δ (Gaussian noise)", _DELTAS, 1e-5, format_func=delta_text, key="l2_delta", bind="query-params"
        )
        number = st.slider("Random draw", 1, 50, 1, key="l2_answer", bind="query-params")
    noise = fitting(kind, epsilon, delta)
    guessed = None if guess is None else guess / 100
    with left:
        if view == VIEWS[0]:
            noisy = float(posterior.answers(noise, 50, present=True)[number - 1])
            headline = belief_sentence(noise, epsilon, prior, noisy)
            figure = _beliefs(noise, epsilon, prior, guessed, noisy)
        elif view == VIEWS[1]:
            headline, figure = bet_sentence(noise, epsilon), _worlds(noise, prior, guessed)
        elif view == VIEWS[2]:
            headline, figure = delta_sentence(noise, epsilon, delta), _deltas(noise, epsilon, delta, prior, guessed)
        else:
            with st.spinner("Computing group privacy …"):
                headline, figure = _sentences(kind, epsilon, delta)
        st.markdown(f"#### {headline}")
        draw(figure, key=f"l2_{VIEWS.index(view)}", label=headline)


def belief_sentence(noise: Noise, epsilon: float, prior: float, noisy: float) -> str:
    """Return a sentence on the bound of the belief and on the effect of one answer.

    Args:
        noise: The noise on the count.
        epsilon: Its ε.
        prior: Probability that the neighbour assigns before the answer.
        noisy: The answer less :data:`COUNT`.
    """
    _, high = posterior.bounds(epsilon, prior)
    after = float(posterior.belief(noise, noisy, prior))
    limit = f"{'never' if noise.kind == 'laplace' else 'seldom'} exceeds {_percent(high)}"
    before, then = (odds(belief).replace(" ", "\N{NO-BREAK SPACE}") for belief in (prior, after))
    return (
        f"Your neighbour's certainty is {_percent(prior)} before the answer and {limit} after it. The answer "
        f"{COUNT + noisy:.1f} changes her odds from {before} to {then}, a certainty of {_percent(after)}."
    )


def odds(probability: float) -> str:
    """Return a probability as odds: 2 : 1 for two thirds, 1 : 3 for a quarter."""
    ratio = probability / (1 - probability)
    return f"{ratio:.2g} : 1" if ratio >= 1 else f"1 : {1 / ratio:.2g}"


def bet_sentence(noise: Noise, epsilon: float) -> str:
    """Return a sentence on the share of correct bets on the likelier world."""
    return (
        f"At ε = {epsilon_text(epsilon)}, a bet on the likelier of both data sets (with or without you) is right in "
        f"{_percent(posterior.right_bets(noise))} of all cases. The toss of a coin is right in {_percent(0.5)}."
    )


def delta_sentence(noise: Noise, epsilon: float, delta: float) -> str:
    """Return a sentence on two mechanisms with the same ε and δ, or on Laplace noise, which has δ = 0."""
    leak = posterior.published(delta, PEOPLE)
    other = (
        f"Publishing each record with probability {_unbroken(delta)} satisfies it too: among {PEOPLE:,} people, at "
        f"least one record leaks with probability {100 * leak:.5g} %."
    )
    if noise.kind == "laplace":
        return f"Laplace noise satisfies ε = {epsilon_text(epsilon)} with δ = 0. Choose Gaussian noise to see δ."
    return f"This noise satisfies ε = {epsilon_text(epsilon)} at δ = {_unbroken(delta)}. {other}"


def _beliefs(noise: Noise, epsilon: float, prior: float, guessed: float | None, noisy: float) -> go.Figure:
    """Draw the belief after each answer, above the densities of both worlds."""
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
        name="neighbour's certainty",
        line={"color": palette.PRIVATE, "width": 3.5},
        hovertemplate="answer %{x:.1f}: %{y:.0f} %<extra></extra>",
    )
    figure.add_scatter(
        x=[COUNT + noisy],
        y=[100 * float(posterior.belief(noise, noisy, prior))],
        name="this answer",
        mode="markers",
        marker={"size": 15, "symbol": "star", "color": palette.PRIVATE, "line": {"width": 1.5, "color": "white"}},
        hovertemplate="answer %{x:.1f}: %{y:.0f} %<extra></extra>",
    )
    guess_markers.layout(figure, "l2-belief", x="the published answer", y="certainty, %")
    for bound, position in zip(posterior.bounds(epsilon, prior), ("bottom right", "top right"), strict=True):
        if position == "top right" and guessed is not None and 0 <= guessed - bound < _NEAR:
            position = "bottom right"  # otherwise the line of the guess crosses the label
        guess_markers.limit_line(figure, 100 * bound, f"bound: {_percent(bound)}", position=position)
    guess_markers.horizontal_line(figure, None if guessed is None else 100 * guessed)
    figure.update_xaxes(range=[COUNT + points[0], COUNT + points[-1]])
    figure.update_yaxes(range=[0, 104])
    return figure


def _worlds(noise: Noise, prior: float, guessed: float | None) -> go.Figure:
    """Draw samples and densities of both worlds, and the answer that gives the guessed certainty."""
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
    if guessed is not None:
        at = posterior.answer_of(noise, guessed, prior)
        if at is None:
            text = "no answer gives the certainty that you guessed"
            position = {"x": 0.5, "y": 1, "xref": "paper", "yref": "paper", "yanchor": "bottom"}
            figure.add_annotation(**position, text=text, showarrow=False)
        elif points[0] <= at <= points[-1]:
            guess_markers.vertical_line(figure, COUNT + at, "certainty that you guessed")
    return figure


def _deltas(noise: Noise, epsilon: float, delta: float, prior: float, guessed: float | None) -> go.Figure:
    """Draw δ over ε: it falls for noise, and stays the same for publishing records at random."""
    values = np.linspace(0, max(4.0, 3 * epsilon), 200)
    deltas = delta_of(noise, values)
    figure = go.Figure()
    figure.add_scatter(
        x=values,
        y=np.where(deltas > 1e-14, deltas, np.nan),
        name=f"{noise.kind.title()} noise",
        line={"color": palette.PRIVATE, "width": 3.5},
        hovertemplate="ε = %{x:.2f}: δ = %{y:.1e}<extra></extra>",
    )
    figure.add_scatter(
        x=values,
        y=np.full(len(values), delta),
        name="publishing records with probability δ",
        line={"color": palette.RECALL, "width": 3, "dash": "dot"},
        hovertemplate="δ = %{y:.1e} at every ε<extra></extra>",
    )
    if noise.kind == "gaussian":
        figure.add_scatter(
            x=[epsilon],
            y=[delta],
            mode="markers",
            name="chosen ε and δ",
            marker={"size": 13, "color": palette.PRIVATE, "line": {"width": 2, "color": "white"}},
            hoverinfo="skip",
        )
    guess_markers.layout(figure, "l2-delta", x="ε", y="δ")
    figure.update_yaxes(type="log", exponentformat="power", range=[-14, 0.2], dtick=2)
    if guessed is not None:
        needed = posterior.epsilon_of(guessed, prior)
        if needed <= values[-1]:
            guess_markers.vertical_line(figure, needed, f"your guess corresponds to ε = {epsilon_text(needed)}")
    return figure


def _sentences(kind: str, epsilon: float, delta: float) -> tuple[str, go.Figure]:
    """Return a sentence and a chart on the group privacy of several sentences of one person, relative to ε of one."""
    in_count = [posterior.group_epsilon(kind, epsilon, delta, size) / epsilon for size in GROUP]
    near = min(EPSILONS, key=lambda trained_at: abs(math.log(trained_at / epsilon)))
    in_training = [1.0, *(group / near for group in _training(near))]
    figure = go.Figure()
    for name, values, colour, dash in (
        ("k times ε", [float(size) for size in GROUP], palette.QUIET, "dot"),
        (f"{kind.title()} noise", in_count, palette.PRIVATE, "solid"),
        (f"DP-SGD, ε = {near:g}", in_training, palette.RECALL, "dash"),
    ):
        figure.add_scatter(
            x=GROUP,
            y=values,
            name=name,
            mode="lines+markers",
            line={"color": colour, "width": 3, "dash": dash},
            hovertemplate="%{x} sentences: %{y:.3g} times ε<extra>" + name + "</extra>",
        )
    guess_markers.layout(figure, "l2-group", x="sentences of one person", y="ε of all ÷ ε of one")
    figure.update_yaxes(type="log", tickvals=charts.log_ticks(0.5, 500), tickformat="~g")
    ten = GROUP.index(10)
    return (
        f"Ten sentences of one person spend {in_count[ten]:.3g} times ε in a count with {kind.title()} noise, and "
        f"{in_training[ten]:.3g} times ε in DP-SGD training at ε = {near:g} (group privacy)."
    ), figure


@st.cache_data(show_spinner=False)
def _training(epsilon: float) -> list[float]:
    """Return ε of several sentences of one person; the recommended settings reach ``epsilon`` for one."""
    return [posterior.training_epsilon(epsilon, size) for size in GROUP[1:]]


def _points(noise: Noise) -> np.ndarray:
    """Return answers less :data:`COUNT`, over the range with visible density."""
    reach = max(3.0, 4.5 * noise.scale)
    return np.linspace(-reach, 1 + reach, 301)


def _unbroken(delta: float) -> str:
    return delta_text(delta).replace("-", "\N{NON-BREAKING HYPHEN}")


def _percent(share: float) -> str:
    return f"{100 * share:.3g}\N{NO-BREAK SPACE}%"


LESSON = Lesson(
    name="promise",
    title="The privacy guarantee",
    about="See how far one published answer can change the belief of a curious neighbour.",
    question=(
        "A clinic counts the letters that mention depression and publishes the count **plus noise**, with ε = 1. Your "
        "neighbour is 50 % certain that one of these letters is yours. How certain of this can the published number "
        "make her, at most?"
    ),
    guess=Guess(label="Attacker's highest certainty", low=50, high=100, step=1, unit=" %"),
    show=show,
    words=(
        "Noise never hides a fact completely. ε limits the change of the **odds** to a factor of e^ε, whatever else "
        "your neighbour knows. δ allows exceptions. Gaussian noise exceeds the limit slightly, but the definition also "
        "allows publishing records with probability δ. Ten letters of yours change the count by ten, not by one."
    ),
    simplifies=(
        "Dwork's full sentence is: *You will not be affected, adversely or otherwise, by allowing your data to be "
        "used in any study or analysis, no matter what other studies, data sets, or information sources, are "
        "available.* It is about **your participation**, and it holds within the bound ε. The study can learn facts "
        "about people like you with or without your data. If it shows that smoking is harmful, a smoker's insurance "
        "may cost more, whether or not that smoker took part. That does not violate the guarantee."
    ),
    note=(
        "**Sources.** C. Dwork and A. Roth, *The Algorithmic Foundations of Differential Privacy*, 2014, chapters 1 "
        "and 2; L. Wasserman and S. Zhou 2010 on hypothesis tests; B. Balle and Y.-X. Wang 2018 for δ(ε) of "
        "Gaussian noise; A. Ganesh 2024 for group privacy under DP-SGD.\n\n"
        "**Pitfalls.** “ε = 1 means 1 %.” No: ε is not a probability. “A belief of 73 % is the truth.” No: at ε = 1 "
        "three of ten answers point to the wrong data set. “δ is the share of people whose records leak.” No: Gaussian "
        "noise never publishes a record. With a small probability the odds change by more than the factor e^ε.\n\n"
        "**Ask the class.** Let each student choose a *Random draw* and bet on *with you* or *without you*. From "
        "which ε on would you not take part?"
    ),
)

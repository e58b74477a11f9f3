"""Lesson 4: whom do you trust? Noise by each, by one curator, or inside a sum that nobody can look into."""

import math

import numpy as np
import plotly.graph_objects as go
import streamlit as st

from engine.lessons import trust_models
from engine.lessons.trust_models import WAYS, Survey, Way
from engine.reports.numbers import epsilon_text
from pages.learn import guess_markers
from pages.learn.lesson import Guess, Lesson
from pages.shared import charts, palette
from pages.shared.plotly_component import show as draw

VIEWS = ("More people", "The same survey, 500 times")
_PEOPLE = (10, 30, 100, 300, 1000, 3000, 10_000, 100_000, 1_000_000)
_EPSILONS = (0.1, 0.2, 0.5, 1.0, 2.0, 3.0, 5.0, 8.0)
_SURVEYS = 500
_LOOKS = {
    "response": (palette.RECALL, "dash"),
    "local": (palette.TYPES[3], "dot"),
    "secure": (palette.PRECISION, "dashdot"),
    "curator": (palette.PRIVATE, "solid"),
}
_BY_NAME = {way.name: way for way in WAYS}


def show(guess: float | None) -> None:
    """The controls, the picture and its answer. guess: how many times the curator's error."""
    view = st.segmented_control(
        "Show", VIEWS, default=VIEWS[0], key="l4_view", bind="query-params", required=True, label_visibility="collapsed"
    )
    left, right = st.columns([2.6, 1], gap="large")
    with right:
        people = st.select_slider(
            "People asked", _PEOPLE, 1000, format_func="{:,}".format, key="l4_people", bind="query-params"
        )
        epsilon = st.select_slider("ε", _EPSILONS, 1.0, format_func="{:g}".format, key="l4_eps", bind="query-params")
        share = st.slider("Who would say yes, %", 0, 100, 20, key="l4_yes", bind="query-params") / 100
        colluding = st.slider("Who may work with the server, %", 0, 90, 10, 10, key="l4_collude", bind="query-params")
    survey = Survey(people=people, share=share, epsilon=epsilon, colluding=colluding / 100)
    said = answer(survey)
    with left:
        st.markdown(f"#### {said}")
        figure = _errors(survey, guess) if view == VIEWS[0] else _surveys(survey, guess)
        draw(figure, key=f"l4_{VIEWS.index(view)}", label=said)
        st.caption("Trusted: " + "; ".join(f"*{way.title}*: {way.trusted}" for way in WAYS) + ".")


def answer(survey: Survey) -> str:
    """How the errors compare, in a sentence."""
    curator, alone = (_BY_NAME[name].error(survey) for name in ("curator", "response"))
    return (
        f"Of {survey.people:,} people at ε = {epsilon_text(survey.epsilon)}, a trusted curator is off by "
        f"{_points(curator)}; where each lies alone, it is {_points(alone)}: {alone / curator:.3g} times as much."
    )


def _errors(survey: Survey, guess: float | None) -> go.Figure:
    """Error against the number of people, in each way."""
    figure = go.Figure()
    numbers = np.unique(np.geomspace(_PEOPLE[0], _PEOPLE[-1], 25).astype(int))
    for way in WAYS:
        colour, dash = _LOOKS[way.name]
        figure.add_scatter(
            x=numbers,
            y=[100 * way.error(_with(survey, int(number))) for number in numbers],
            name=way.title,
            mode="lines",
            line={"color": colour, "width": 3, "dash": dash},
            hovertemplate="%{x:,} people: %{y:.3g} points<extra>" + way.title + "</extra>",
        )
        figure.add_scatter(
            x=[survey.people],
            y=[100 * float(_spread(way, survey))],
            name=f"{way.title}, simulated",
            mode="markers",
            showlegend=False,
            marker={"size": 12, "color": colour, "line": {"width": 2, "color": "white"}},
            hovertemplate=f"{_SURVEYS} surveys: %{{y:.3g}} points<extra>" + way.title + "</extra>",
        )
    guess_markers.layout(figure, "l4-errors", x="people asked", y="off by, percentage points")
    figure.update_xaxes(type="log", tickvals=[10, 100, 1000, 10_000, 100_000, 1_000_000], tickformat=",d")
    figure.update_yaxes(type="log", tickvals=charts.log_ticks(1e-6, 1e4), tickformat="~g")
    if guess is not None:
        at = 100 * guess * _BY_NAME["curator"].error(survey)
        guess_markers.horizontal_line(figure, at, f"your guess: {guess:g} times the curator's", log=True)
        figure.layout.annotations[-1].update(x=1, xanchor="right")
    return figure


def _spread(way: Way, survey: Survey) -> float:
    """Root mean square error of simulated surveys."""
    return math.sqrt(np.mean((trust_models.estimates(survey, way, _SURVEYS) - survey.truth) ** 2))


def _surveys(survey: Survey, guess: float | None) -> go.Figure:
    """What many surveys of the same people would say."""
    figure = go.Figure()
    for way in reversed(WAYS):
        figure.add_box(
            x=100 * trust_models.estimates(survey, way, _SURVEYS),
            name=way.title,
            showlegend=False,
            marker={"color": _LOOKS[way.name][0], "size": 3},
            boxpoints="outliers",
        )
    guess_markers.layout(figure, "l4-surveys", x="estimated share, %", y="")
    figure.update_layout(margin={"l": 130})
    figure.add_vline(x=100 * survey.truth, line={"color": palette.QUIET, "width": 2})
    if guess is not None:
        off = 100 * guess * _BY_NAME["curator"].error(survey)
        guess_markers.vertical_line(figure, 100 * survey.truth + off, "your guess", side="top right")
        guess_markers.vertical_line(figure, 100 * survey.truth - off, "", side="top left")
    return figure


def _with(survey: Survey, people: int) -> Survey:
    return Survey(people=people, share=survey.share, epsilon=survey.epsilon, colluding=survey.colluding)


def _points(error: float) -> str:
    return f"{100 * error:.2g} points"


LESSON = Lesson(
    name="trust",
    title="Whom do you trust?",
    about="Compare one noise by somebody whom all trust with noise by everybody.",
    question=(
        "*Have you ever …?* 1,000 people answer, each with ε = 1. A curator whom all trust adds one noise to the sum. "
        "Now nobody trusts anybody: **each flips a coin** and sometimes lies. How many times larger is the error of "
        "the share?"
    ),
    guess=Guess(label="Times larger", low=1, high=100, step=1),
    show=show,
    words=(
        "One noise on the sum gets smaller as 1/n, a noise on each answer as 1/√n: who trusts nobody needs more people "
        "for the same error. A secure sum lies between: each adds a small share of the noise, and the server sees the "
        "sum alone."
    ),
    simplifies=(
        "*Global privacy is more accurate* is true, and by how much depends on how many take part. *Local privacy "
        "needs no trust* is true of the answers, but the app that draws your coin has to be what it claims to be. "
        "Between the two there is more than nothing: secure sums and shuffling."
    ),
    note=(
        "**Sources.** S. Warner 1965 (randomised response); S. Kasiviswanathan et al. 2011 (local privacy); K. "
        "Bonawitz et al. 2017 (secure aggregation); S. Truex et al. 2019 (shares of noise). The secure sum has "
        "Gaussian noise and δ = 1 in a million, so among few people it may lie behind the curator for that reason "
        "alone.\n\n"
        "**Pitfalls.** *The liar's answer is worthless*: the lies average out, since their share is known. An estimate "
        "may lie below 0 % or above 100 %: that is no error, and cutting it off adds one.\n\n"
        "**Ask the class.** Do it: two coins each, a question nobody would answer aloud. How many would the class need?"
    ),
)

"""Lesson 4: trust models. Noise from each participant, from one curator, or in secure aggregation."""

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
_STYLES = {
    "response": (palette.RECALL, "dash"),
    "local": (palette.TYPES[3], "dot"),
    "secure": (palette.PRECISION, "dashdot"),
    "curator": (palette.PRIVATE, "solid"),
}
_BY_NAME = {way.name: way for way in WAYS}


def show(guess: float | None) -> None:
    """Show the controls, the headline and the chart. The guess is the ratio of the error to the curator's error."""
    view = st.segmented_control(
        "Show", VIEWS, default=VIEWS[0], key="l4_view", bind="query-params", required=True, label_visibility="collapsed"
    )
    left, right = st.columns([2.6, 1], gap="large")
    with right:
        people = st.select_slider(
            "Respondents", _PEOPLE, 1000, format_func="{:,}".format, key="l4_people", bind="query-params"
        )
        epsilon = st.select_slider("ε", _EPSILONS, 1.0, format_func="{:g}".format, key="l4_eps", bind="query-params")
        share = st.slider("True share of yes, %", 0, 100, 20, key="l4_yes", bind="query-params") / 100
        colluding = st.slider("Colluding respondents, %", 0, 90, 10, 10, key="l4_collude", bind="query-params")
    survey = Survey(people=people, share=share, epsilon=epsilon, colluding=colluding / 100)
    headline = answer(survey)
    with left:
        st.markdown(f"#### {headline}")
        figure = _errors(survey, guess) if view == VIEWS[0] else _surveys(survey, guess)
        draw(figure, key=f"l4_{VIEWS.index(view)}", label=headline)
        st.caption("Required trust: " + "; ".join(f"*{way.title}*: {way.trusted}" for way in WAYS) + ".")


def answer(survey: Survey) -> str:
    """Return a comparison of the errors in a sentence."""
    curator, alone = (_BY_NAME[name].error(survey) for name in ("curator", "response"))
    return (
        f"With {survey.people:,} respondents at ε = {epsilon_text(survey.epsilon)}, the root-mean-square error of a "
        f"trusted curator is {_points(curator)}. Randomised response has an error of {_points(alone)}: "
        f"{alone / curator:.3g} times as large."
    )


def _errors(survey: Survey, guess: float | None) -> go.Figure:
    """Draw the error over the number of respondents for each trust model."""
    figure = go.Figure()
    numbers = np.unique(np.geomspace(_PEOPLE[0], _PEOPLE[-1], 25).astype(int))
    for way in WAYS:
        colour, dash = _STYLES[way.name]
        figure.add_scatter(
            x=numbers,
            y=[100 * way.error(_with(survey, int(number))) for number in numbers],
            name=way.title,
            mode="lines",
            line={"color": colour, "width": 3, "dash": dash},
            hovertemplate="%{x:,} respondents: %{y:.3g} points<extra>" + way.title + "</extra>",
        )
        figure.add_scatter(
            x=[survey.people],
            y=[100 * float(_simulated_error(way, survey))],
            name=f"{way.title}, simulated",
            mode="markers",
            showlegend=False,
            marker={"size": 12, "color": colour, "line": {"width": 2, "color": "white"}},
            hovertemplate=f"{_SURVEYS} surveys: %{{y:.3g}} points<extra>" + way.title + "</extra>",
        )
    guess_markers.layout(figure, "l4-errors", x="respondents", y="RMS error, percentage points")
    figure.update_xaxes(type="log", tickvals=[10, 100, 1000, 10_000, 100_000, 1_000_000], tickformat=",d")
    figure.update_yaxes(type="log", tickvals=charts.log_ticks(1e-6, 1e4), tickformat="~g")
    if guess is not None:
        at = 100 * guess * _BY_NAME["curator"].error(survey)
        guess_markers.horizontal_line(figure, at, f"your guess: {guess:g} times the curator's", log=True)
        figure.layout.annotations[-1].update(x=1, xanchor="right")
    return figure


def _simulated_error(way: Way, survey: Survey) -> float:
    """Return the root mean square error of simulated surveys."""
    return math.sqrt(np.mean((trust_models.estimates(survey, way, _SURVEYS) - survey.truth) ** 2))


def _surveys(survey: Survey, guess: float | None) -> go.Figure:
    """Draw the estimates of many simulated surveys of the same people."""
    figure = go.Figure()
    for way in reversed(WAYS):
        figure.add_box(
            x=100 * trust_models.estimates(survey, way, _SURVEYS),
            name=way.title,
            showlegend=False,
            marker={"color": _STYLES[way.name][0], "size": 3},
            boxpoints="outliers",
        )
    guess_markers.layout(figure, "l4-surveys", x="estimated share, %", y="")
    figure.update_layout(margin={"l": 130})
    figure.add_vline(x=100 * survey.truth, line={"color": palette.QUIET, "width": 2})
    if guess is not None:
        error = 100 * guess * _BY_NAME["curator"].error(survey)
        guess_markers.vertical_line(figure, 100 * survey.truth + error, "your guess", side="top right")
        guess_markers.vertical_line(figure, 100 * survey.truth - error, "", side="top left")
    return figure


def _with(survey: Survey, people: int) -> Survey:
    return Survey(people=people, share=survey.share, epsilon=survey.epsilon, colluding=survey.colluding)


def _points(error: float) -> str:
    return f"{100 * error:.2g} percentage points"


LESSON = Lesson(
    name="trust",
    title="Trust models",
    about="Compare the noise of one trusted curator with noise from every respondent.",
    question=(
        "1,000 people answer *Have you ever …?*, each with ε = 1. In the first survey a trusted curator adds noise "
        "once, to the number of yes answers. In the second, no one is trusted: **each respondent flips a coin** and "
        "sometimes lies. How many times as large is the error of the estimated share of yes?"
    ),
    guess=Guess(label="Error ÷ curator's error", low=1, high=100, step=1),
    show=show,
    words=(
        "For n respondents the error falls as 1/n with noise on the sum, and as 1/√n with noise on each answer. "
        "Without trust, the same error needs more respondents. Secure aggregation lies between the two: each "
        "respondent adds a small share of the noise, and the server sees only the sum."
    ),
    simplifies=(
        "“Global privacy (noise by a curator) is more accurate.” True, and the difference depends on the number of "
        "respondents. “Local privacy needs no trust.” True for the answers, but you must trust the app that flips "
        "your coin. There are models between the two: secure aggregation and shuffling."
    ),
    note=(
        "**Sources.** S. Warner 1965 (randomised response); S. Kasiviswanathan et al. 2011 (local privacy); K. "
        "Bonawitz et al. 2017 (secure aggregation); S. Truex et al. 2019 (shares of noise). Secure "
        "aggregation uses Gaussian noise and δ = 1 in a million. With few respondents its error may exceed the "
        "curator's for this reason alone.\n\n"
        "**Pitfalls.** “False answers are worthless.” No: they average out, since their expected share is known. An "
        "estimate may lie below 0 % or above 100 %: that is not a mistake, and limiting it to this range adds an "
        "error.\n\n**Ask the class.** Try it with two coins per student and a question that no one would answer aloud. "
        "How many respondents would the class need?"
    ),
)

"""Lesson 3: noise that fits. A count of real letters: sensitivity, clipping, two kinds of noise, many answers."""

from functools import partial

import numpy as np
import plotly.graph_objects as go
import streamlit as st

from engine.lessons import counting_queries
from engine.lessons.counting_queries import QUESTIONS, Clipped
from engine.lessons.noise_mechanisms import KINDS, fitting
from engine.reports.numbers import epsilon_text
from engine.seeds import Seeds
from pages.learn import guess_markers
from pages.learn.lesson import Guess, Lesson
from pages.shared import palette
from pages.shared.plotly_component import show as draw

VIEWS = ("One answer", "Clipping", "Many answers", "One table")
DELTA = 1e-6
"""Of Gaussian noise, and of all answers together."""
_EPSILONS = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
_BUDGETS = (1, 2, 3, 5, 10, 20)
_DRAWS = 1000
_MOST_CLIP = 24
_FAR = 10
_NAMES = {"basic": "basic: add up", "renyi": "Rényi", "pld": "loss distributions"}
_COLOURS = {"basic": palette.RECALL, "renyi": palette.PRECISION, "pld": palette.PRIVATE}
_DASHES = {"basic": "dot", "renyi": "dash", "pld": "solid"}


def show(guess: float | None) -> None:
    """The controls, the picture and its answer. guess: letters that the answer is off by."""
    view = st.segmented_control(
        "Show", VIEWS, default=VIEWS[0], key="l3_view", bind="query-params", required=True, label_visibility="collapsed"
    )
    left, right = st.columns([2.6, 1], gap="large")
    with right:
        question = st.selectbox(
            "How many letters …", list(QUESTIONS), format_func=QUESTIONS.__getitem__, key="l3_ask", bind="query-params"
        )
        epsilon = st.select_slider(
            "ε of one answer", _EPSILONS, 1.0, format_func="{:g}".format, key="l3_eps", bind="query-params"
        )
        clip = st.slider("Letters of a family that count", 1, _MOST_CLIP, 3, key="l3_clip", bind="query-params")
        kind = st.segmented_control(
            "Noise", KINDS, default="laplace", format_func=str.title, key="l3_noise", bind="query-params", required=True
        )
        budget = st.select_slider("Budget: ε of all answers", _BUDGETS, 5, key="l3_budget", bind="query-params")
    with left:
        with st.spinner("Reading the letters …"):
            each = counting_queries.letters().each(question)
            if view == VIEWS[0]:
                said, figure = _one(counting_queries.clipped(each, clip, kind, epsilon, DELTA), epsilon, clip, guess)
            elif view == VIEWS[1]:
                said, figure = _clipping(each, clip, kind, epsilon, guess)
            elif view == VIEWS[2]:
                said, figure = _many(kind, epsilon, clip, float(budget), guess)
            else:
                said, figure = _table(kind, epsilon, clip, guess)
        st.markdown(f"#### {said}")
        draw(figure, key=f"l3_{VIEWS.index(view)}", label=said)


def _one(found: Clipped, epsilon: float, clip: int, guess: float | None) -> tuple[str, go.Figure]:
    """Density and draws of one answer, with the other kind of noise beside it."""
    noise, truth = found.noise, found.count + found.lost
    other = fitting(KINDS[1 - KINDS.index(noise.kind)], epsilon, DELTA, clip)
    reach = max(4 * noise.sd, 4 * other.sd, found.lost * 1.2, 5)
    points = found.count + np.linspace(-reach, reach, 301)
    drawn = found.count + noise.draws(Seeds(16).stream("one answer", clip=clip), _DRAWS)
    counts, edges = np.histogram(drawn, np.linspace(points[0], points[-1], 61))
    width = edges[1] - edges[0]
    figure = go.Figure()
    figure.add_bar(
        x=(edges[:-1] + edges[1:]) / 2,
        y=counts / _DRAWS / width,
        width=width,
        name=f"{_DRAWS:,} answers",
        marker={"color": palette.PRIVATE, "opacity": 0.45, "line": {"width": 0}},
        hoverinfo="skip",
    )
    for each, colour, dash in ((noise, palette.PRIVATE, "solid"), (other, palette.PRECISION, "dot")):
        figure.add_scatter(
            x=points,
            y=each.density(points - found.count),
            name=each.kind.title(),
            line={"color": colour, "width": 3, "dash": dash},
            hovertemplate="%{x:.1f}: %{y:.3g}<extra>" + each.kind.title() + "</extra>",
        )
    guess_markers.layout(figure, "l3-one", x="letters, as published", y="density")
    figure.update_layout(bargap=0)
    figure.add_vline(x=truth, line={"color": palette.QUIET, "width": 2})
    figure.update_xaxes(range=[points[0], points[-1]])
    if guess is not None:
        guess_markers.vertical_line(
            figure, truth + guess, "your guess", side="top left" if guess > reach / 2 else "top right"
        )
        guess_markers.vertical_line(figure, truth - guess, "", side="top left")
        if guess > reach:
            figure.update_xaxes(range=[truth - 1.1 * guess, truth + 1.1 * guess])
    lost, far = f"; clipping loses {found.lost:,} more" if found.lost else "", noise.beyond(_FAR)
    return (
        f"Of {truth:,} letters the answer is off by {_number(noise.mean_error)} on average{lost}. {_percent(far)} of "
        f"answers are off by more than {_FAR}; with {other.kind.title()} noise at the same ε, "
        f"{_percent(other.beyond(_FAR))}."
    ), figure


def _clipping(each: np.ndarray, clip: int, kind: str, epsilon: float, guess: float | None) -> tuple[str, go.Figure]:
    """What clipping loses and what noise it saves, at each limit."""
    limits = range(1, _MOST_CLIP + 1)
    found = [counting_queries.clipped(each, limit, kind, epsilon, DELTA) for limit in limits]
    errors = [one.error for one in found]
    best = int(np.argmin(errors)) + 1
    figure = go.Figure()
    for name, values, colour, dash in (
        ("letters lost", [one.lost for one in found], palette.RECALL, "dot"),
        ("noise", [one.noise.sd for one in found], palette.PRECISION, "dash"),
        ("both", errors, palette.PRIVATE, "solid"),
    ):
        figure.add_scatter(
            x=list(limits),
            y=values,
            name=name,
            line={"color": colour, "width": 3, "dash": dash},
            hovertemplate="%{x} a family: %{y:.3g}<extra>" + name + "</extra>",
        )
    figure.add_scatter(
        x=[clip],
        y=[errors[clip - 1]],
        name="yours",
        mode="markers",
        marker={"size": 14, "symbol": "star", "color": palette.PRIVATE, "line": {"width": 1.5, "color": "white"}},
    )
    guess_markers.layout(figure, "l3-clip", x="letters of a family that count", y="letters off")
    guess_markers.horizontal_line(figure, guess)
    return (
        f"With {clip} a family the count is off by about {_number(errors[clip - 1])}; at ε = {epsilon_text(epsilon)} "
        f"the least is {_number(errors[best - 1])}, with {best}. A family has up to {each.max()} such letters."
    ), figure


def _many(kind: str, epsilon: float, clip: int, budget: float, guess: float | None) -> tuple[str, go.Figure]:
    """ε of many answers in three ways of adding up, until the budget is gone."""

    def cost(accounting: str, answers: int) -> float:
        return counting_queries.spent(accounting, kind, epsilon, DELTA, answers)

    last = {each: counting_queries.until(budget, partial(cost, each)) for each in counting_queries.ACCOUNTINGS}
    end = min(counting_queries.MOST_ANSWERS, max(4, round(1.25 * max(last.values()))))
    numbers = sorted({int(number) for number in np.linspace(1, end, 12)})
    figure = go.Figure()
    for accounting in counting_queries.ACCOUNTINGS:
        values = [cost(accounting, number) for number in numbers]
        figure.add_scatter(
            x=numbers,
            y=values,
            name=_NAMES[accounting],
            line={"color": _COLOURS[accounting], "width": 3, "dash": _DASHES[accounting]},
            hovertemplate="%{x} answers: ε = %{y:.3g}<extra>" + _NAMES[accounting] + "</extra>",
        )
    guess_markers.layout(figure, "l3-many", x="answers", y="ε of all")
    if guess:
        figure.add_scatter(
            x=[0, numbers[-1]],
            y=[0, numbers[-1] * clip / guess],
            name="your guess",
            mode="lines",
            line=guess_markers.GUESS,
            hoverinfo="skip",
        )
    guess_markers.limit_line(figure, budget, "budget")
    figure.update_yaxes(range=[0, 2 * budget])
    smaller = "" if len(set(last.values())) > 1 or epsilon == _EPSILONS[0] else " Less ε for each tells them apart."
    return (
        f"A budget of ε = {budget:g} is gone after {last['basic']:,} answers if ε is added up, after {last['renyi']:,} "
        f"by Rényi accounting, after {last['pld']:,} by loss distributions (δ = 1 in a million).{smaller}"
    ), figure


def _table(kind: str, epsilon: float, clip: int, guess: float | None) -> tuple[str, go.Figure]:
    """All kinds of letters at once, published with one noise, or asked for one after another."""
    counts = counting_queries.letters().table(clip)
    once = fitting(kind, epsilon, DELTA, clip)
    apart = counting_queries.apart(kind, epsilon, DELTA, clip, len(counts))
    figure = go.Figure()
    for name, noise, colour, shape in (
        ("published once", once, palette.PRIVATE, ""),
        ("asked one by one", apart, palette.PRECISION, "/"),
    ):
        drawn = counts + noise.draws(Seeds(16).stream(name), len(counts))
        figure.add_bar(
            x=list(counting_queries.KINDS),
            y=drawn,
            name=name,
            marker={"color": colour, "pattern": {"shape": shape}},
            error_y={"type": "data", "array": [2 * noise.sd] * len(counts), "thickness": 2},
            hovertemplate="%{x}: %{y:.0f}<extra>" + name + "</extra>",
        )
    figure.add_scatter(
        x=list(counting_queries.KINDS),
        y=counts,
        name="the truth" if guess is None else "the truth ± your guess",
        mode="markers",
        marker={"symbol": "line-ew", "size": 26, "line": {"width": 3, "color": palette.F1}},
        error_y=None if guess is None else {"type": "data", "array": [guess] * len(counts), "color": palette.F1},
        hovertemplate="%{x}: %{y} in truth<extra></extra>",
    )
    guess_markers.layout(figure, "l3-table", x="what a letter mentions, the first of these", y="letters")
    figure.update_layout(barmode="group")
    return (
        f"One table of {len(counts)} counts, published once at ε = {epsilon_text(epsilon)}, is off by "
        f"{_number(once.mean_error)} a count; {len(counts)} answers that share that ε are off by "
        f"{_number(apart.mean_error)} each."
    ), figure


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _percent(share: float) -> str:
    return f"{100 * share:.2g} %"


LESSON = Lesson(
    name="noise",
    title="Noise that fits",
    about="Add noise to a real count: how much one answer takes, and when a budget is gone.",
    question=(
        "An archive counts how many of its 3,468 letters mention a hospital. No family may be noticed, at ε = 1, and a "
        "family has up to three such letters. The archive adds **as much noise as that takes**. By how many letters is "
        "the published count off, on average?"
    ),
    guess=Guess(label="Letters off", low=0, high=100, step=1),
    show=show,
    words=(
        "Noise depends on what *one* family can change, not on how many letters there are. Letting fewer letters of a "
        "family count needs less noise and loses letters. Each answer spends some ε. What is known beforehand is "
        "better published once, as one table."
    ),
    simplifies=(
        "*Laplace and Gaussian noise* are often shown as two shapes to choose from. They differ in what they keep: "
        "Laplace noise keeps ε with no δ, Gaussian noise only with one, and at the same ε one Gaussian answer is "
        "worse. It wins when many answers are composed, or one person changes many numbers at once, as in training."
    ),
    note=(
        "**Sources.** C. Dwork, F. McSherry, K. Nissim, A. Smith 2006 (Laplace); B. Balle and Y.-X. Wang 2018 (the "
        "least Gaussian noise); I. Mironov 2017 (Rényi); dp_accounting for loss distributions. The letters are the "
        "embedded, generated corpus; a letter belongs to the first person it names.\n\n"
        "**Pitfalls.** *More data, more noise*: no, noise stays and the count grows. *Clipping is a detail*: try "
        "*name somebody* with one letter a family. How many letters clipping loses is itself private: an archive "
        "would not publish it. Sampled noise in floating point has traps of its own (Mironov 2012).\n\n"
        "**Ask the class.** Who should choose the budget, and who notices when it is gone?"
    ),
)
